"""A plausible history of lineage events by a seed: schedulers, Spark, dbt, Flink and scripts that share datasets.

Some runs never end, some events come twice, spellings and hosts differ, facets that nobody knows change, and some
values are no events at all. `tests/support/lineage_oracle.py` says what a store has to hold after it.
"""

import datetime
import json
import random
import uuid
from collections.abc import Iterator
from typing import Any

from support.lineage_samples import Event, engine, event, facet, job_type, parent

START = datetime.datetime(2026, 3, 1, tzinfo=datetime.UTC)
MALFORMED = (
    b"",
    b"no JSON",
    b"[]",
    b'{"eventTime": "2026-03-01T00:00:00Z"}',
    b'{"eventTime": "2026-03-01T00:00:00Z", "eventType": "START", "job": {"namespace": "a", "name": "b"}}',
    b'{"eventTime": "yesterday", "job": {"namespace": "a", "name": "b"}}',
    b'{"eventTime": "2026-03-01T00:00:00Z", "run": {"runId": "nightly"}, "job": {"namespace": "a", "name": "b"}}',
    b'{"eventTime": "2026-03-01T00:00:00Z", "run": {"runId": "9b2f6f1e-8a55-4f6d-9c39-5a1c1d0f7e01"}}',
)
AIRFLOW = "airflow://prod"
SPARK = "yarn://analytics"
COLUMNS = ("id", "customer", "amount", "day", "country")
QUERIES = (
    "INSERT INTO t SELECT * FROM s",
    "insert overwrite table t select 1",
    "MERGE INTO t USING s ON t.id = s.id",
    "CREATE TABLE t AS SELECT * FROM s",
    "delete from t where id = 1",
)
CLUSTERS = (
    "kafka://broker-2:9092,broker-1:9092",
    "kafka://broker-2:9092",
    "kafka://broker-3:9092",
    "kafka://broker-1:9092,broker-3:9092",
    "kafka://broker-4:9092",
)
_NO_TIME = datetime.timedelta()
_A_MOMENT = datetime.timedelta(milliseconds=120)


def values(
    seed: int, stories: int, *, malformed: float = 0.01, twice: float = 0.05, shuffled: bool = True
) -> list[bytes]:
    """Return the values of a history: about five events for each story."""
    dice = random.Random(seed)
    listed = [json.dumps(each, separators=(",", ":")).encode() for _ in range(stories) for each in _story(dice)]
    listed += [each for each in listed if dice.random() < twice]
    if shuffled:
        dice.shuffle(listed)
    for _ in range(round(len(listed) * malformed)):
        listed.insert(dice.randrange(len(listed) + 1), dice.choice(MALFORMED))
    return listed


def _story(dice: random.Random) -> Iterator[Event]:
    begun = START + datetime.timedelta(minutes=dice.randrange(7 * 24 * 60))
    stories = (_scheduled, _scheduled, _spark, _dbt, _streaming, _script, _described)
    return dice.choice(stories)(dice, begun)


def _text(time: datetime.datetime) -> str:
    return time.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _seven(dice: random.Random, time: datetime.datetime) -> str:
    number = round(time.timestamp() * 1000) << 80 | dice.getrandbits(76)
    return str(uuid.UUID(int=number & ~(0xF << 76) & ~(0b11 << 62) | 7 << 76 | 0b10 << 62))


def _four(dice: random.Random) -> str:
    return str(uuid.UUID(int=dice.getrandbits(128), version=4))


def _later(dice: random.Random, time: datetime.datetime, most_s: int = 1800) -> datetime.datetime:
    return time + datetime.timedelta(seconds=dice.randrange(1, most_s), milliseconds=dice.randrange(1000))


def _end(dice: random.Random) -> str:
    return dice.choices(("COMPLETE", "FAIL", "ABORT"), (8, 1, 1))[0]


def _schema(dice: random.Random) -> dict[str, Any]:
    names = COLUMNS[: dice.randrange(2, len(COLUMNS) + 1)]
    return facet(fields=[{"name": name, "type": "string"} for name in names])


def _columns(dice: random.Random, sources: list[dict[str, Any]]) -> dict[str, Any]:
    def reference(column: str, kind: str, subtypes: tuple[str, ...]) -> dict[str, Any]:
        source, subtype = dice.choice(sources), dice.choice(subtypes)
        masking = subtype in ("TRANSFORMATION", "AGGREGATION") and dice.random() < 0.3
        how = {"type": kind, "subtype": subtype, "description": "", "masking": masking}
        return {"namespace": source["namespace"], "name": source["name"], "field": column, "transformations": [how]}

    direct = ("IDENTITY", "TRANSFORMATION", "AGGREGATION")
    indirect = ("FILTER", "JOIN", "GROUP_BY", "SORT", "WINDOW", "CONDITIONAL")
    fields = {column: {"inputFields": [reference(column, "DIRECT", direct)]} for column in COLUMNS[:3]}
    return facet(fields=fields, dataset=[reference(dice.choice(COLUMNS), "INDIRECT", indirect)])


def _table(dice: random.Random, *, in_spark: bool = False) -> dict[str, Any]:
    number = dice.randrange(30)
    if in_spark:
        name = f"/warehouse/sales.db/t{number}"
        if dice.random() < 0.5:
            name += f"/day=2026-03-0{dice.randrange(1, 8)}/hour={dice.randrange(24)}"
        table = {"namespace": "hive://metastore:9083", "name": f"sales.t{number}", "type": "TABLE"}
        made: dict[str, Any] = {"namespace": "hdfs://namenode:8020", "name": name}
        made["facets"] = {"schema": _schema(dice), "symlinks": facet(identifiers=[table])}
        return made
    spelt = dice.choice(("sales.t%d", "Sales.T%d", "SALES.t%d")) % number
    made = {"namespace": dice.choice(("postgres://db:5432", "Postgres://DB:5432")), "name": spelt, "facets": {}}
    if dice.random() < 0.5:
        made["facets"]["schema"] = _schema(dice)
    if dice.random() < 0.2:
        made["facets"]["tags"] = facet(tags=[{"key": "domain", "value": dice.choice(("sales", "web"))}])
    if dice.random() < 0.2:
        made["facets"]["ours_quality"] = facet(score=dice.randrange(100))
    return made


def _topic(dice: random.Random) -> dict[str, Any]:
    return {"namespace": dice.choice(CLUSTERS), "name": f"topic{dice.randrange(10)}", "facets": {}}


def _read(dice: random.Random, said: dict[str, Any], *, at_end: bool) -> dict[str, Any]:
    if not at_end:
        return said
    counts = facet(rowCount=dice.randrange(10**6), size=dice.randrange(10**9), fileCount=dice.randrange(9))
    return {**said, "inputFacets": {"inputStatistics": counts}}


def _written(
    dice: random.Random, said: dict[str, Any], sources: list[dict[str, Any]], *, at_end: bool
) -> dict[str, Any]:
    if not at_end:
        return said
    facets = {**said.get("facets", {}), "columnLineage": _columns(dice, sources)}
    if dice.random() < 0.5:
        change = dice.choice(("CREATE", "OVERWRITE", "TRUNCATE", "DROP", "ALTER"))
        facets["lifecycleStateChange"] = facet(lifecycleStateChange=change)
    counts = facet(rowCount=dice.randrange(10**6), size=dice.randrange(10**9))
    return {**said, "facets": facets, "outputFacets": {"outputStatistics": counts}}


def _scheduled(dice: random.Random, begun: datetime.datetime) -> Iterator[Event]:
    """A DAG with a task, which may start a Spark application."""
    dag = f"dag{dice.randrange(20)}"
    dag_run, task_run = _seven(dice, begun), _seven(dice, begun + datetime.timedelta(seconds=2))
    name = f"scheduled__{_text(begun)}"
    said = {"dag": {"dag_id": dag, "owner": dice.choice(("ada", "grace"))}}
    said["dagRun"] = {"run_id": name, "run_type": dice.choice(("scheduled", "manual"))}
    planned = facet(nominalStartTime=_text(begun), nominalEndTime=_text(begun + datetime.timedelta(hours=1)))
    dag_facets = {"airflowDagRun": facet(**said), "nominalTime": planned, **engine("Airflow", "2.10.5")}
    kind = job_type("AIRFLOW", "DAG")
    yield event("START", _text(begun), dag_run, (AIRFLOW, dag), run_facets=dag_facets, job_facets=kind)
    task = f"{dag}.task{dice.randrange(3)}"
    instance = {"try_number": dice.randrange(1, 4), "map_index": dice.randrange(5)}
    instance["log_url"] = f"http://airflow/{task_run}"  # type: ignore[assignment]
    task_facets = {
        "airflow": facet(
            **said, task={"task_id": task.partition(".")[2], "operator_class": "X"}, taskInstance=instance
        ),
        "jobDependencies": facet(upstream=[{"job": {"namespace": AIRFLOW, "name": f"{dag}.task9"}}]),
        **parent(dag_run, AIRFLOW, dag),
    }
    time = _later(dice, begun, 60)
    tagged = {**job_type("AIRFLOW", "TASK"), "tags": facet(tags=[{"key": "team", "value": dice.choice("abc")}])}
    yield event("START", _text(time), task_run, (AIRFLOW, task), run_facets=task_facets, job_facets=tagged)
    if dice.random() < 0.5:
        root = (dag_run, AIRFLOW, dag)
        yield from _application(dice, time, parent(task_run, AIRFLOW, task, root))
    time = _later(dice, time)
    if dice.random() < 0.9:
        end = _end(dice)
        facets = {**parent(dag_run, AIRFLOW, dag)}
        if end == "FAIL":
            facets["errorMessage"] = facet(message=f"failed {dice.randrange(9)}", programmingLanguage="PYTHON")
        yield event(end, _text(time), task_run, (AIRFLOW, task), run_facets=facets, job_facets=tagged,
                    inputs=[_table(dice)])  # fmt: skip
        yield event(end, _text(_later(dice, time, 9)), dag_run, (AIRFLOW, dag), job_facets=kind)


def _spark(dice: random.Random, begun: datetime.datetime) -> Iterator[Event]:
    return _application(dice, begun, {})


def _application(dice: random.Random, begun: datetime.datetime, started_by: dict[str, Any]) -> Iterator[Event]:
    name, run_id = f"etl{dice.randrange(20)}", _seven(dice, begun)
    details = facet(applicationId=f"application_{dice.randrange(9999)}", userName="etl", uiWebUrl="http://driver:4040")
    facets = {"spark_applicationDetails": details, **engine("spark", "3.5.4")}
    kind = job_type("SPARK", "APPLICATION", "NONE")
    yield event("START", _text(begun), run_id, (SPARK, name), run_facets={**started_by, **facets}, job_facets=kind)
    time = begun
    for number in range(dice.randrange(1, 4)):
        time = _later(dice, time)
        execution = _seven(dice, time) if dice.random() < 0.8 else _four(dice)
        own = {**parent(run_id, SPARK, name), **facets, "ours_plan": facet(number=dice.randrange(1000))}
        own["spark_jobDetails"] = facet(jobId=number, jobDescription=dice.choice(("save", "load")))
        sources = [_table(dice, in_spark=True), _topic(dice)][: dice.randrange(1, 3)]
        target = _table(dice, in_spark=True)
        query = {"sql": facet(query=dice.choice(QUERIES))} if dice.random() < 0.5 else {}
        ends = [("START", _NO_TIME)]
        if dice.random() < 0.9:
            lasted = datetime.timedelta(seconds=dice.choice((5, 300, 4000, 8000)))
            ends += [("RUNNING", lasted / 2), (_end(dice), lasted)][dice.randrange(2) :]
        for what, after in ends:
            at_end = what not in ("START", "RUNNING")
            if what == "FAIL":
                belonging: dict[str, Any] = {
                    "run_facets": parent(run_id, SPARK, name),
                    "job_facets": job_type("SPARK", "SQL_JOB"),
                }
                ended = _text(time + after + _A_MOMENT)
                yield event("COMPLETE", ended, execution, (SPARK, f"{name}.execute_insert_into"), **belonging)
                own = {**own, "errorMessage": facet(message="lost an executor", programmingLanguage="JAVA")}
            yield event(what, _text(time + after), execution, (SPARK, f"{name}.execute_insert_into{'.out' * at_end}"),
                        run_facets=own, job_facets={**job_type("SPARK", "SQL_JOB"), **query},
                        inputs=[_read(dice, each, at_end=at_end) for each in sources],
                        outputs=[_written(dice, target, sources, at_end=at_end)])  # fmt: skip
    if dice.random() < 0.9:
        yield event(_end(dice), _text(_later(dice, time)), run_id, (SPARK, name), run_facets=facets, job_facets=kind)


def _dbt(dice: random.Random, begun: datetime.datetime) -> Iterator[Event]:
    job, invocation = ("dbt://shop", f"dbt-run-{dice.randrange(5)}"), _seven(dice, begun)
    facets = {"dbt_run": facet(invocation_id=_four(dice)), **engine("dbt", "1.9.4")}
    yield event("START", _text(begun), invocation, job, run_facets=facets, job_facets=job_type("DBT", "JOB"))
    for number in range(dice.randrange(1, 3)):
        time = _later(dice, begun)
        kind = {**job_type("DBT", dice.choice(("MODEL", "TEST"))), "sql": facet(query=dice.choice(QUERIES))}
        source = _table(dice)
        yield event(_end(dice), _text(time), _seven(dice, time), ("dbt://shop", f"model.m{number}"),
                    run_facets=parent(invocation, *job), job_facets=kind, inputs=[source],
                    outputs=[_written(dice, _table(dice), [source], at_end=True)])  # fmt: skip
    yield event("COMPLETE", _text(_later(dice, begun)), invocation, job, job_facets=job_type("DBT", "JOB"))


def _streaming(dice: random.Random, begun: datetime.datetime) -> Iterator[Event]:
    """A job that runs for days, and says so now and then."""
    run_id = _seven(dice, begun) if dice.random() < 0.7 else _four(dice)
    facets = {"flink_job": facet(jobId=f"{dice.getrandbits(32):08x}"), **engine("flink", "2.0.0")}
    source, target = _topic(dice), _topic(dice)
    time = begun
    for number in range(dice.randrange(3, 9)):
        kind = "START" if number == 0 else "RUNNING"
        yield event(kind, _text(time), run_id, ("flink://cluster", f"stream{run_id[:2]}"), run_facets=facets,
                    job_facets=job_type("FLINK", "JOB", "STREAMING"), inputs=[source], outputs=[target])  # fmt: skip
        time += datetime.timedelta(minutes=dice.choice((1, 20, 90, 3000)))


def _script(dice: random.Random, begun: datetime.datetime) -> Iterator[Event]:
    """Somebody's own program, whose run ids are of any kind."""
    run_id, job = _four(dice), ("scripts", dice.choice(("Copy %d", "copy %d")) % dice.randrange(10))
    facets = {"ours_host": facet(name=dice.choice(("a", "b")))}
    if dice.random() < 0.8:
        yield event("START", _text(begun), run_id, job, run_facets=facets)
    if dice.random() < 0.3:
        yield event("OTHER", _text(_later(dice, begun)), run_id, job, run_facets=facets)
    if dice.random() < 0.8:
        source = _table(dice)
        made = _written(dice, _table(dice), [source], at_end=True)
        yield event(_end(dice), _text(_later(dice, begun, 9000)), run_id, job, inputs=[source], outputs=[made])


def _described(dice: random.Random, begun: datetime.datetime) -> Iterator[Event]:
    """What is said of a dataset and of a job, without a run."""
    yield {"eventTime": _text(begun), "producer": "https://example.com", "dataset": _table(dice)}
    tags = facet(tags=[{"key": "team", "value": dice.choice("abc")}])
    job = {"namespace": "scripts", "name": f"copy {dice.randrange(10)}", "facets": {"tags": tags}}
    yield {"eventTime": _text(begun), "producer": "https://example.com", "job": job,
           "inputs": [_table(dice)], "outputs": [_table(dice)]}  # fmt: skip
