"""What a question about lineage is about, and the query that asks it."""

import uuid
from typing import Any, Literal, NamedTuple

from penstock.errors import BadInput
from penstock.lineage.shapes import parameters
from penstock.lineage.shapes.lineage import Lineage

Level = Literal["operation", "run", "job", "dataset"]
Kind = Literal["DATASET", "JOB", "RUN", "OPERATION"]
_KINDS: dict[str, Kind] = {"dataset": "DATASET", "job": "JOB", "run": "RUN", "operation": "OPERATION"}
_BY_NUMBER = {"DATASET", "JOB"}


class Subject(NamedTuple):
    """What a question is about."""

    kind: Kind
    id: int | uuid.UUID
    name: str

    @property
    def key(self) -> str:
        """Return the key that it has in a graph."""
        return f"{self.kind}:{self.id}"


def subject_of(key: str) -> Subject:
    """Read a key, such as dataset:7 or run:0192…; raise `BadInput` if it is none."""
    word, _, rest = key.partition(":")
    kind = _KINDS.get(word.lower())
    try:
        if kind is not None and (kind not in _BY_NUMBER or _is_number(rest)):
            return Subject(kind, int(rest) if kind in _BY_NUMBER else uuid.UUID(rest), key)
    except ValueError:
        pass
    raise BadInput(f"'{key}' is not dataset:NUMBER, job:NUMBER, run:ID or operation:ID")


def _is_number(text: str) -> bool:
    """Return whether a text can be a number of the store."""
    return text.isdecimal() and int(text) <= parameters.LARGEST_NUMBER


def level_of(found: Subject, by: Level) -> Any:
    """Return the level to answer at: as it was asked, or the nearest that there is for what is asked about."""
    wanted = by.upper()
    if found.kind == "JOB":
        return "RUN" if wanted in {"RUN", "OPERATION"} else "JOB"
    if found.kind == "RUN":
        return "OPERATION" if wanted == "OPERATION" else "RUN"
    return "OPERATION" if found.kind == "OPERATION" else wanted


def query_of(found: Subject, level: Any, **wanted: Any) -> Any:
    """Return the query that asks about it."""
    if found.kind == "DATASET":
        return parameters.DatasetLineageQuery(start_node_id=int(found.id), granularity=level, **wanted)
    if found.kind == "JOB":
        return parameters.JobLineageQuery(start_node_id=int(found.id), granularity=level, **wanted)
    if found.kind == "RUN":
        return parameters.RunLineageQuery(start_node_id=found.id, granularity=level, **wanted)
    return parameters.OperationLineageQuery(start_node_id=found.id, **wanted)


def column_rows(lineage: Lineage, target: str) -> list[dict[str, str]]:
    """Return a row for each column that one of a dataset was made of; `*` stands for every column."""

    def name(number: str) -> str:
        return lineage.nodes.datasets[number].name

    found = []
    for direct in lineage.relations.direct_column_lineage:
        if direct.to.id == target:
            for column, sources in direct.fields.items():
                found += [
                    {
                        "column": column,
                        "from": each.field,
                        "dataset": name(direct.from_.id),
                        "how": ", ".join(each.types),
                    }
                    for each in sources
                ]
    found.sort(key=lambda row: (row["column"], row["dataset"], row["from"]))
    for indirect in lineage.relations.indirect_column_lineage:
        if indirect.to.id == target:
            found += [
                {"column": "*", "from": each.field, "dataset": name(indirect.from_.id), "how": ", ".join(each.types)}
                for each in indirect.fields
            ]
    return found
