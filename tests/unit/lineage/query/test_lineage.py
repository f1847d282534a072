import datetime
import random
import uuid
from typing import Any

import pytest

from penstock.errors import BadInput
from penstock.lineage.query import dataset_walk, io
from penstock.lineage.query.lineage import lineage
from penstock.lineage.query.walk import Start
from penstock.lineage.query.window import Window
from penstock.lineage.shapes.lineage import Lineage
from penstock.lineage.store import tables

from support.lineage_rows import NOON, Rows

_HOUR = datetime.timedelta(hours=1)
_DAY = Window(NOON - 12 * _HOUR, NOON + 12 * _HOUR)


def _ask(rows: Rows, kind: Any, start: Any, **wanted: Any) -> Lineage:
    defaults: dict[str, Any] = {"direction": "BOTH", "granularity": "RUN", "depth": 1, "window": _DAY}
    with rows.engine.connect() as connection:
        return lineage(connection, Start(kind, start), **{**defaults, **wanted})


def _edges(relations: Any) -> set[tuple[str, str]]:
    return {(f"{each.from_.kind}:{each.from_.id}", f"{each.to.kind}:{each.to.id}") for each in relations}


def test_each_step_from_a_dataset_to_a_run_or_back_is_one_of_depth(rows: Rows) -> None:
    names = [rows.dataset(name) for name in ("a", "b", "c")]
    one, two = rows.job("one"), rows.job("two")
    first, _ = rows.flow(one, names[0], names[1])
    second, _ = rows.flow(two, names[1], names[2])

    reached = [
        set(_ask(rows, "DATASET", names[0], direction="DOWNSTREAM", depth=depth).nodes.datasets)
        for depth in range(1, 5)
    ]
    runs = [set(_ask(rows, "DATASET", names[0], direction="DOWNSTREAM", depth=d).nodes.runs) for d in range(1, 5)]

    a, b, c = map(str, names)
    assert [{a}, {a, b}, {a, b}, {a, b, c}] == reached
    assert [{str(first)}, {str(first)}, {str(first), str(second)}, {str(first), str(second)}] == runs


def test_up_and_down_are_followed_apart_so_siblings_stay_out(rows: Rows) -> None:
    source, left, right = rows.dataset("source"), rows.dataset("left"), rows.dataset("right")
    job = rows.job("split")
    rows.flow(job, source, left)
    rows.flow(job, source, right)

    found = _ask(rows, "DATASET", left, depth=10)

    assert {str(source), str(left)} == set(found.nodes.datasets)


@pytest.mark.parametrize("granularity", ["OPERATION", "RUN", "JOB", "DATASET"])
def test_a_cycle_ends_and_counts_nothing_twice(rows: Rows, granularity: str) -> None:
    one, other = rows.dataset("one"), rows.dataset("other")
    job, back = rows.job("there"), rows.job("back")
    rows.flow(job, one, other, num_rows=5)
    rows.flow(back, other, one, num_rows=7)

    found = _ask(rows, "DATASET", one, depth=10, granularity=granularity)

    assert {str(one), str(other)} == set(found.nodes.datasets)
    if granularity == "JOB":
        assert [7, 5] == [each.num_rows for each in found.relations.outputs]


def test_relations_between_datasets_are_the_same_step_by_step_and_all_at_once(
    rows: Rows, monkeypatch: pytest.MonkeyPatch
) -> None:
    dice = random.Random(5)
    names, job = [rows.dataset(f"d{number}") for number in range(9)], rows.job("job")
    for _ in range(14):
        source, target = dice.sample(names, 2)
        rows.flow(job, source, target)
    rows.flow(job, names[0], names[1])
    wanted = [
        {"granularity": "DATASET", "depth": depth, "direction": direction}
        for depth in (1, 2, 10)
        for direction in ("UPSTREAM", "DOWNSTREAM", "BOTH")
    ]

    by_steps = [_ask(rows, "DATASET", names[0], **each) for each in wanted]
    monkeypatch.setattr(dataset_walk, "_DENSE_OPERATIONS", 1)
    at_once = [_ask(rows, "DATASET", names[0], **each) for each in wanted]
    monkeypatch.setattr(dataset_walk, "_PART", 0)
    never_at_once = [_ask(rows, "DATASET", names[0], **each) for each in wanted]
    monkeypatch.setattr(dataset_walk, "_PART", 10)
    monkeypatch.setattr(dataset_walk, "MOST_RELATIONS", 10)  # fewer than all, more than of a step
    too_many_at_once = [_ask(rows, "DATASET", names[0], **each) for each in wanted]

    assert by_steps == at_once == never_at_once == too_many_at_once
    assert len(by_steps[-1].relations.inputs) > 10


def test_finer_granularities_come_with_the_sums_for_coarser_ones(rows: Rows) -> None:
    source, target = rows.dataset("source"), rows.dataset("target")
    job = rows.job("job")
    runs = [rows.flow(job, source, target, num_rows=count, num_bytes=None)[0] for count in (3, 4)]

    found = _ask(rows, "DATASET", target, granularity="OPERATION", depth=2)

    counts = {f"{each.from_.kind}:{each.from_.id}": each.num_rows for each in found.relations.outputs}
    assert 7 == counts[f"JOB:{job}"]
    assert [3, 4] == [counts[f"RUN:{run}"] for run in runs]
    assert {None} == {each.num_bytes for each in found.relations.outputs}
    assert {"JOB", "RUN", "OPERATION"} == {each.to.kind for each in found.relations.inputs}
    assert {str(job)} == set(found.nodes.jobs)
    assert 2 == len(found.nodes.operations)


def test_of_the_hours_of_a_long_operation_the_greatest_count_is_told_once(rows: Rows) -> None:
    topic, table, job = rows.dataset("topic"), rows.dataset("table"), rows.job("stream")
    run = rows.run(job, NOON - 5 * _HOUR)
    operation = rows.operation(run, NOON - 5 * _HOUR, type="STREAMING")
    for hour, count in enumerate((10, 20, 30)):
        rows.written(job, run, operation, table, NOON + hour * _HOUR, num_rows=count, type=1 << hour)

    [found] = _ask(rows, "DATASET", table, granularity="JOB").relations.outputs

    assert (30, NOON + 2 * _HOUR) == (found.num_rows, found.last_interaction_at)
    assert ["APPEND", "CREATE", "ALTER"] == found.types
    assert {} == _ask(rows, "DATASET", topic).nodes.runs


@pytest.mark.parametrize("granularity", ["RUN", "JOB"])
def test_short_and_long_operations_of_one_job_add_up_whatever_their_ids(rows: Rows, granularity: str) -> None:
    source, table, job = rows.dataset("source"), rows.dataset("table"), rows.job("job")
    run = rows.run(job)
    rows_of = {
        rows.operation(run): {0: 1},
        rows.operation(run): {0: 10, 1: 20},
        rows.operation(run): {1: 300, 2: 200},
        rows.operation(run, number=uuid.uuid4()): {0: 1000},
        rows.operation(run, number=uuid.uuid4()): {0: 10_000, 3: 20_000},
    }
    for operation, hours in rows_of.items():
        for hour, count in hours.items():
            rows.read(job, run, operation, source, NOON + hour * _HOUR, num_rows=count)
            rows.written(job, run, operation, table, NOON + hour * _HOUR, num_rows=count, type=1 << hour)

    found = _ask(rows, "DATASET", table, granularity=granularity, depth=2).relations
    first_hour = Window(NOON, NOON + _HOUR / 2)
    [*_, of_an_hour] = _ask(rows, "DATASET", table, granularity=granularity, window=first_hour).relations.outputs

    sums = {each.num_rows for each in found.inputs} | {each.num_rows for each in found.outputs}
    assert {21_321} == sums
    assert {(NOON + 3 * _HOUR)} == {each.last_interaction_at for each in found.outputs}
    assert {("APPEND", "CREATE", "ALTER", "RENAME")} == {tuple(each.types) for each in found.outputs}
    assert (11_011, NOON) == (of_an_hour.num_rows, of_an_hour.last_interaction_at)


def test_a_run_that_began_months_ago_is_in_every_window_that_it_covers(rows: Rows) -> None:
    table, job, begun = rows.dataset("table"), rows.job("stream"), NOON - datetime.timedelta(days=90)
    run = rows.run(job, begun, status=0)
    operation = rows.operation(run, begun, type="STREAMING")
    rows.written(job, run, operation, table, begun)
    rows.written(job, run, operation, table, NOON)

    found = _ask(rows, "DATASET", table, granularity="OPERATION")

    assert [str(run)] == list(found.nodes.runs)
    assert [str(operation)] == list(found.nodes.operations)


@pytest.mark.parametrize("granularity", ["OPERATION", "RUN", "JOB", "DATASET"])
def test_a_stream_that_is_silent_is_in_every_window_until_it_ends(rows: Rows, granularity: str) -> None:
    topic, table, job = rows.dataset("topic"), rows.dataset("table"), rows.job("stream")
    begun, ended = NOON - datetime.timedelta(days=90), NOON + datetime.timedelta(days=2)
    run = rows.run(job, begun, status=0)
    operation = rows.operation(run, begun, type="STREAMING", ended_at=ended)
    rows.read(job, run, operation, topic, begun, num_rows=7)
    rows.written(job, run, operation, table, begun, num_rows=7)

    def edges(since: datetime.datetime, until: datetime.datetime | None = None) -> int:
        asked = {"granularity": granularity, "depth": 2, "window": Window(since, until)}
        return len(_ask(rows, "DATASET", table, direction="UPSTREAM", **asked).relations.inputs)

    assert edges(begun) == edges(NOON, NOON + _HOUR) == edges(ended) > 0
    assert 0 == edges(ended + _HOUR)
    assert 0 == edges(begun - 2 * _HOUR, begun - _HOUR)


def test_a_stream_whose_id_holds_no_time_is_in_every_window_too(rows: Rows) -> None:
    table, job, begun = rows.dataset("table"), rows.job("stream"), NOON - datetime.timedelta(days=90)
    run = rows.run(job, begun)
    operation = rows.operation(run, begun + _HOUR / 3, uuid.uuid4(), type="STREAMING")
    rows.written(job, run, operation, table, begun)  # the whole hour of the clock, as extraction keeps it

    assert [str(operation)] == list(_ask(rows, "DATASET", table, granularity="OPERATION").nodes.operations)


def test_a_stream_is_over_with_the_run_that_it_belongs_to(rows: Rows) -> None:
    table, job, begun = rows.dataset("table"), rows.job("stream"), NOON - datetime.timedelta(days=90)
    runs = [rows.run(job, begun, ended_at=ended) for ended in (NOON - 30 * _HOUR, None)]
    for run in runs:
        rows.written(job, run, rows.operation(run, begun, type="STREAMING"), table, begun)

    assert [str(runs[1])] == list(_ask(rows, "DATASET", table).nodes.runs)


def test_a_batch_that_began_before_a_window_and_did_nothing_in_it_is_not_in_it(rows: Rows) -> None:
    table, job, begun = rows.dataset("table"), rows.job("batch"), NOON - datetime.timedelta(days=90)
    run = rows.run(job, begun)
    rows.written(job, run, rows.operation(run, begun, type="BATCH"), table, begun)

    assert {} == _ask(rows, "DATASET", table).nodes.runs


def test_a_window_has_both_its_ends_and_nothing_beyond(rows: Rows) -> None:
    table, job = rows.dataset("table"), rows.job("job")
    for at in (NOON - _HOUR, NOON, NOON + _HOUR, NOON + 2 * _HOUR):
        run = rows.run(job, at)
        rows.written(job, run, rows.operation(run, at), table, at)

    found = _ask(rows, "DATASET", table, window=Window(NOON, NOON + _HOUR))

    assert [NOON, NOON + _HOUR] == [each.created_at for each in found.nodes.runs.values()]


def test_symlinks_are_followed_both_ways(rows: Rows) -> None:
    files, table, end = rows.dataset("/files"), rows.dataset("db.table", rows.location("hive")), rows.dataset("end")
    rows.symlink(files, table)
    writer, reader = rows.job("writer"), rows.job("reader")
    rows.flow(writer, rows.dataset("begin"), files)
    rows.flow(reader, table, end)

    found = _ask(rows, "DATASET", files, direction="DOWNSTREAM", depth=2, granularity="DATASET")

    assert {(f"DATASET:{table}", f"DATASET:{end}")} == _edges(found.relations.inputs)
    assert {("METASTORE", str(table)), ("WAREHOUSE", str(files))} == {
        (each.type, each.to.id) for each in found.relations.symlinks
    }


def test_children_read_and_write_for_their_parents(rows: Rows) -> None:
    dag = rows.job("dag", "AIRFLOW_DAG")
    task = rows.job("task", "AIRFLOW_TASK", parent=dag)
    source, target = rows.dataset("source"), rows.dataset("target")
    parent = rows.run(dag)
    child = rows.run(task, parent_run_id=parent)
    operation = rows.operation(child)
    rows.read(task, child, operation, source)
    rows.written(task, child, operation, target)

    by_job = _ask(rows, "JOB", dag, granularity="JOB")
    by_run = _ask(rows, "RUN", parent)

    assert {str(source), str(target)} == set(by_job.nodes.datasets) == set(by_run.nodes.datasets)
    assert {(f"JOB:{dag}", f"JOB:{task}")} == _edges(by_job.relations.parents)
    assert {
        (f"JOB:{dag}", f"JOB:{task}"),
        (f"RUN:{parent}", f"RUN:{child}"),
        (f"JOB:{dag}", f"RUN:{parent}"),
        (f"JOB:{task}", f"RUN:{child}"),
    } == _edges(by_run.relations.parents)


def test_datasets_alone_have_no_self_loops_and_no_counts(rows: Rows) -> None:
    table, other, job = rows.dataset("table"), rows.dataset("other"), rows.job("compact")
    run = rows.run(job)
    operation = rows.operation(run)
    rows.read(job, run, operation, table, num_rows=1)
    for target in (table, other):
        rows.written(job, run, operation, target, num_rows=1)

    found = _ask(rows, "DATASET", table, granularity="DATASET", depth=3)

    assert {(f"DATASET:{table}", f"DATASET:{other}")} == _edges(found.relations.inputs)
    assert [None] == [each.num_rows for each in found.relations.inputs]
    assert {} == found.nodes.runs
    assert {} == found.nodes.jobs


def test_a_schema_says_whether_the_whole_answer_had_it(rows: Rows) -> None:
    table, job = rows.dataset("table"), rows.job("job")
    old, new = uuid.uuid4(), uuid.uuid4()
    for digest, name in ((old, "old"), (new, "new")):
        rows.put(tables.schema, digest=digest, fields=[{"name": name, "type": "int"}])
    for hour, digest in enumerate((old, new)):
        run = rows.run(job, NOON + hour * _HOUR)
        rows.written(job, run, rows.operation(run), table, NOON + hour * _HOUR, schema_digest=digest)

    def schema(window: Window) -> tuple[str, str | None]:
        found = _ask(rows, "DATASET", table, window=window).nodes.datasets[str(table)].schema_
        assert found is not None
        return found.fields[0].name, found.relevance_type

    assert ("new", "LATEST_KNOWN") == schema(_DAY)
    assert ("old", "EXACT_MATCH") == schema(Window(NOON, NOON))


def test_columns_are_told_if_they_are_asked_for(rows: Rows) -> None:
    source, target, job = rows.dataset("source"), rows.dataset("target"), rows.job("job")
    fingerprint = uuid.uuid4()
    relations = [("a", "x", 2), ("b", "x", 4), ("c", None, 64 | 128)]
    for number, (column, into, flags) in enumerate(relations):
        values = {"source_column": column, "target_column": into, "type": flags}
        rows.put(tables.column_relation, fingerprint=fingerprint, number=number, **values)
    for hour in (0, 1):
        at = NOON + hour * _HOUR
        run, operation = rows.flow(job, source, target, at)
        ends = {"source_dataset_id": source, "target_dataset_id": target, "fingerprint": fingerprint}
        who = {"operation_id": operation, "run_id": run, "job_id": job, "created_at": at}
        rows.put(tables.column_lineage, **ends, **who)

    for granularity in ("OPERATION", "RUN", "JOB", "DATASET"):
        found = _ask(rows, "DATASET", target, granularity=granularity, depth=2, with_columns=True).relations
        [direct], [indirect] = found.direct_column_lineage, found.indirect_column_lineage

        assert {"x": [("a", ["IDENTITY"]), ("b", ["TRANSFORMATION"])]} == {
            into: [(each.field, each.types) for each in fields] for into, fields in direct.fields.items()
        }
        assert [("c", ["FILTER", "JOIN"], NOON + _HOUR)] == [
            (each.field, each.types, each.last_used_at) for each in indirect.fields
        ]
    assert [] == _ask(rows, "DATASET", target, depth=2).relations.direct_column_lineage


def test_what_does_not_exist_has_no_lineage(rows: Rows) -> None:
    assert Lineage() == _ask(rows, "DATASET", 42)
    assert Lineage() == _ask(rows, "RUN", uuid.uuid4(), granularity="OPERATION")


def test_runs_of_any_uuid_are_found(rows: Rows) -> None:
    table, job = rows.dataset("table"), rows.job("job")
    random = rows.run(job, run_id=uuid.UUID("8a7d4b9e-52cd-4a6e-9ec1-0f36d2a1b7c3"))
    rows.written(job, random, rows.operation(random), table)

    assert [str(random)] == list(_ask(rows, "DATASET", table).nodes.runs)


def test_an_answer_without_bounds_is_refused(rows: Rows, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(io, "MOST_RELATIONS", 2)
    source, target, job = rows.dataset("source"), rows.dataset("target"), rows.job("job")
    for _ in range(3):
        rows.flow(job, source, target)

    with pytest.raises(BadInput, match="more than 2 relations"):
        _ask(rows, "DATASET", target)
