"""What the store has to hold after some events: read from the events themselves, and from the store by plain SQL.

Neither reading knows anything of `penstock.lineage`: both give rows of names and numbers, which have to be the same.
"""

import datetime
import json
import uuid
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

Rows = dict[str, Counter[tuple[Any, ...]]]
"""For each kind of thing its rows, and how often each is there."""

_ENDS = {"COMPLETE": 1, "FAIL": 2, "ABORT": 3}
_NAMES = {-1: "UNKNOWN", 0: "STARTED", 1: "SUCCEEDED", 2: "FAILED", 3: "KILLED"}
_STEPS = {("SPARK", "SQL_JOB"), ("DBT", "MODEL")}
"""Those whose events tell of a step of the run that is their parent."""
_COUNTS = ("rowCount", "size", "fileCount")
_UNKNOWN = -1
_HOUR_MS = 3_600_000
_SIDES = ("input", "output")


def of_events(values: Iterable[bytes]) -> Rows:
    """Return what these events say, in any order; they are those of `lineage seed`."""
    reading = _Reading()
    for value in values:
        reading.listen(json.loads(value))
    return reading.rows()


@dataclass
class _Observed:
    """What was seen of a run or an operation."""

    of: str = ""
    """The job of a run, the run of an operation."""
    states: set[str] = field(default_factory=set)

    @property
    def status(self) -> str:
        ends = [_ENDS[state] for state in self.states if state in _ENDS]
        return _NAMES[max(ends)] if ends else _NAMES[0 if self.states else _UNKNOWN]


class _Reading:
    def __init__(self) -> None:
        self.runs: dict[str, _Observed] = defaultdict(_Observed)
        self.operations: dict[str, _Observed] = defaultdict(_Observed)
        self.datasets: set[str] = set()
        self.sides: dict[str, dict[tuple[str, str, int], list[int]]] = {side: {} for side in _SIDES}

    def listen(self, event: dict[str, Any]) -> None:
        kind = event["job"]["facets"]["jobType"]
        run = self._run_of(event, kind)
        is_step = run != event["run"]["runId"] or kind["integration"] == "FLINK" or kind["jobType"] == "TASK"
        if is_step or event["inputs"] or event["outputs"]:
            self._operation(event, kind["integration"], run)

    def _run_of(self, event: dict[str, Any], kind: dict[str, Any]) -> str:
        """Note the runs that an event names, and return the one that it is about."""
        own, facets = event["run"]["runId"], event["run"]["facets"]
        parent = facets.get("parent")
        for each in (parent, parent["root"]) if parent else ():
            self.runs[each["run"]["runId"]].of = each["job"]["name"]
        if (kind["integration"], kind["jobType"]) in _STEPS:
            return str(parent["run"]["runId"])
        if kind["integration"] == "HIVE":
            said = facets["hive_session"]
            session = f"{said['sessionId']} {said['creationTime']}"
            self.runs[session] = _Observed(f"{said['username']}@{said['clientIp']}", {"START"})
            return session
        self.runs[own].of = event["job"]["name"]
        self.runs[own].states.add(event["eventType"])
        return str(own)

    def _operation(self, event: dict[str, Any], integration: str, run: str) -> None:
        own = event["run"]["runId"]
        self.operations[own].of = run
        self.operations[own].states.add(event["eventType"])
        hour = _hour(own, event["eventTime"])
        for side, rows in self.sides.items():
            for table in event[f"{side}s"]:
                names = _names(table, integration)
                self.datasets.update(names)
                said = table.get(f"{side}Facets", {}).get(f"{side}Statistics", {})
                row = rows.setdefault((own, names[0], hour), [_UNKNOWN] * len(_COUNTS))
                row[:] = [max(count, said.get(name, _UNKNOWN)) for count, name in zip(row, _COUNTS, strict=True)]

    def rows(self) -> Rows:
        return {
            "runs": Counter((_shown(run), seen.of.lower(), seen.status) for run, seen in self.runs.items()),
            "operations": Counter((own, _shown(seen.of), seen.status) for own, seen in self.operations.items()),
            "jobs": Counter({(seen.of.lower(),) for seen in self.runs.values()}),
            "datasets": Counter((name,) for name in self.datasets),
            **{
                f"{side}s": Counter(
                    (own, name, *(None if count == _UNKNOWN else count for count in counts))
                    for (own, name, _), counts in rows.items()
                )
                for side, rows in self.sides.items()
            },
        }


def _names(table: dict[str, Any], integration: str) -> list[str]:
    """Return what a dataset goes by, then its other names: Spark's paths go by the table that they hold."""
    links = table["facets"].get("symlinks", {}).get("identifiers", [])
    names = [table["name"], *(each["name"] for each in links)]
    return [name.lower() for name in (names[::-1] if integration == "SPARK" else names)]


def _hour(run_id: str, event_time: str) -> int:
    """Return in which hour after the time in its id an operation said something."""
    at = datetime.datetime.fromisoformat(event_time)
    return (round(at.timestamp() * 1000) - (uuid.UUID(run_id).int >> 80)) // _HOUR_MS


def _shown(run: str) -> str:
    """Return a run as the store can name it: a session of Hive's by its own id."""
    return run.partition(" ")[0]


_RUN = "CASE WHEN job.type = 'HIVE_SESSION' THEN run.external_id END, run.id"
_RUNS = "run LEFT JOIN job ON job.id = run.job_id"
_OPERATIONS = f"{_RUNS} JOIN operation ON operation.run_id = run.id"
_SIDE = "SELECT {0}.operation_id, name_key, num_rows, num_bytes, num_files FROM {0} JOIN dataset ON id = dataset_id"


def of_store(ask: Callable[[str], Iterable[Sequence[Any]]]) -> Rows:
    """Return what a store holds, of which `ask` gives the rows of a query."""
    runs = ask(f"SELECT {_RUN}, job.name_key, run.status FROM {_RUNS}")  # noqa: S608 - words of ours
    operations = ask(f"SELECT {_RUN}, operation.id, operation.status FROM {_OPERATIONS}")  # noqa: S608 - words of ours
    return {
        "runs": Counter((session or _uuid(run), job, _NAMES[status]) for session, run, job, status in runs),
        "operations": Counter(
            (_uuid(own), session or _uuid(run), _NAMES[status]) for session, run, own, status in operations
        ),
        "jobs": Counter((name,) for (name,) in ask("SELECT name_key FROM job")),
        "datasets": Counter((name,) for (name,) in ask("SELECT name_key FROM dataset")),
        **{f"{side}s": Counter((_uuid(own), *rest) for own, *rest in ask(_SIDE.format(side))) for side in _SIDES},
    }


def _uuid(value: Any) -> str:
    return str(value if isinstance(value, uuid.UUID) else uuid.UUID(value))
