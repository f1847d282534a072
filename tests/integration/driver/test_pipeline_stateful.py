"""Stateful pipelines over a landed table: results are merged by key, and computed again when the state is lost."""

import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from penstock.driver.batch import BatchReport
from penstock.driver.paths import PipelinePaths, Progress
from penstock.driver.stateful import StatefulRunner
from penstock.errors import (
    CheckpointLost,
    Conflict,
    Discontinuity,
    NotFound,
    PipelineHalted,
    PositionLost,
    StateOutdated,
)
from penstock.lab.bench.throwaway_postgres import RunningPostgres
from penstock.pipeline.spec import PipelineSpec

from support.iceberg_tables import iceberg_rows
from support.pipelines import Lab, dying

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

STREAMING = "org.apache.spark.sql.execution.python.streaming"
COUNTS = "SELECT name, count(*) AS events, sum(id) AS total FROM events GROUP BY name"
RANKING = """
from pyspark.sql.streaming import StatefulProcessor
from pyspark.sql.types import LongType, StructField, StructType

from comparing import higher

class Best(StatefulProcessor):
    def init(self, handle):
        self.best = handle.getValueState("best", StructType([StructField("id", LongType())]))

    def handleInputRows(self, key, rows, timerValues):
        known = self.best.get()
        best = higher([row["id"] for row in rows], known)
        self.best.update((best,))
        from pyspark.sql import Row
        yield Row(name=key[0], best=best)

    def close(self):
        pass
"""
COMPARING = """
def higher(numbers, known):
    return max(numbers + ([known[0]] if known else []))
"""


@pytest.fixture(autouse=True)
def one_state_store(spark: "SparkSession") -> Iterator[None]:
    """Little data needs no four state stores, each with files of its own."""
    before = spark.conf.get("spark.sql.shuffle.partitions")
    spark.conf.set("spark.sql.shuffle.partitions", "1")
    yield
    spark.conf.set("spark.sql.shuffle.partitions", str(before))


def stateful(lab: Lab, name: str, **parts: Any) -> PipelineSpec:
    return PipelineSpec.model_validate(
        {
            "name": name,
            "source": {"type": "delta", "path": str(lab.table)},
            "sinks": [{"type": "delta", "path": str(lab.folder / "results"), "key": ["name"]}],
            "speed": "scheduled",
            **parts,
        }
    )


def runner(lab: Lab, spec: PipelineSpec) -> StatefulRunner:
    return StatefulRunner(spec, PipelinePaths(lab.folder / "homes" / spec.name), lambda: lab.spark, lab.folder)


def compute(lab: Lab, spec: PipelineSpec) -> list[BatchReport]:
    heard: list[Progress] = []
    with runner(lab, spec) as opened:
        opened.run(heard.append)
    return [each.report for each in heard if each.report is not None]


def land(lab: Lab, topic: str, *events: tuple[str, int]) -> None:
    lab.send(topic, *({"id": number, "name": name} for name, number in events))
    lab.run(lab.spec(topic))


def put(lab: Lab, *events: tuple[str, int]) -> None:
    """Add rows to the landed table without a landing pipeline."""
    names, numbers = zip(*events, strict=True)
    write_deltalake(str(lab.table), pa.table({"name": names, "id": numbers}), mode="append")


def results(path: Path, *columns: str) -> list[tuple[Any, ...]]:
    return sorted(tuple(row[name] for name in columns) for row in DeltaTable(str(path)).to_pyarrow_table().to_pylist())


def test_aggregates_are_merged_by_key_and_survive_a_lost_checkpoint(lab: Lab, postgres: RunningPostgres) -> None:
    topic = lab.kafka.topic("aggregate")
    server = postgres.database()
    login = {**server.model_dump(exclude_defaults=True), "password": f"file:{postgres.password_file}"}
    sinks = [
        {"type": "delta", "path": str(lab.folder / "results"), "key": ["name"]},
        {"type": "iceberg", "path": str(lab.folder / "iceberg" / "results"), "key": ["name"]},
        {"type": "postgres", "table": "results", "server": login, "mode": "upsert", "key": ["name"]},
    ]
    spec = stateful(lab, f"{topic}-counts", steps=[{"sql": COUNTS}], sinks=sinks)

    def everywhere() -> tuple[list[tuple[Any, ...]], ...]:
        with postgres.connect(server.database) as connection:
            rows = connection.execute("SELECT name, events, total FROM results ORDER BY name").fetchall()
        in_iceberg = sorted(tuple(row.values()) for row in iceberg_rows(lab.folder / "iceberg" / "results"))
        return results(lab.folder / "results", "name", "events", "total"), in_iceberg, rows

    land(lab, topic, ("a", 1), ("b", 2), ("a", 3))
    compute(lab, spec)
    first = everywhere()
    land(lab, topic, ("a", 10), ("c", 5))
    compute(lab, spec)
    second = everywhere()
    shutil.rmtree(lab.folder / "homes" / spec.name / "checkpoint")
    with pytest.raises(CheckpointLost, match=f"penstock pipeline rebuild {spec.name}"):
        compute(lab, spec)
    with runner(lab, spec) as opened:
        opened.rebuild()
    compute(lab, spec)

    before, after = [("a", 2, 4), ("b", 1, 2)], [("a", 3, 14), ("b", 1, 2), ("c", 1, 5)]
    assert (before, before, before) == first
    assert (after, after, after) == second
    assert (after, after, after) == everywhere()
    assert [] == [report for report in compute(lab, spec) if report.read]


def test_an_old_copy_of_the_checkpoint_is_refused_and_a_rebuild_computes_what_came_since(lab: Lab) -> None:
    spec = stateful(lab, "old-copy", steps=[{"sql": COUNTS}])
    checkpoint = lab.folder / "homes" / spec.name / "checkpoint"
    put(lab, ("a", 1))
    compute(lab, spec)
    shutil.copytree(checkpoint, lab.folder / "copy")
    put(lab, ("a", 2))
    compute(lab, spec)
    shutil.rmtree(checkpoint)
    shutil.copytree(lab.folder / "copy", checkpoint)
    put(lab, ("b", 3))

    with pytest.raises(CheckpointLost, match=f"penstock pipeline rebuild {spec.name}"):
        compute(lab, spec)
    with runner(lab, spec) as opened:
        opened.rebuild()
    written = [report.sinks["delta"].written for report in compute(lab, spec)]

    assert [("a", 2, 3), ("b", 1, 3)] == results(lab.folder / "results", "name", "events", "total")
    assert [2] == written


def test_a_look_compares_key_columns_and_state_and_changes_nothing(lab: Lab) -> None:
    sinks: list[dict[str, Any]] = [
        {"type": "delta", "path": str(lab.folder / "results"), "key": ["name"]},
        {"type": "iceberg", "path": str(lab.folder / "iceberg" / "results"), "key": ["name"], "new_columns": "refuse"},
    ]
    spec = stateful(lab, "looked-at", steps=[{"sql": COUNTS}], sinks=sinks)
    put(lab, ("a", 1))

    assert (None, [None, None]) == runner(lab, spec).look(compare_state=True)
    assert ["table"] == [each.name for each in lab.folder.iterdir()]

    compute(lab, spec)
    checkpoint = lab.folder / "homes" / spec.name / "checkpoint"
    before = sorted((each, each.stat().st_mtime_ns) for each in [checkpoint, *checkpoint.rglob("*")])

    def looked(sql: str = COUNTS, key: str = "name") -> Any:
        told = [{**sinks[0], "key": [key]}, sinks[1]]
        changed = stateful(lab, spec.name, steps=[{"sql": sql}, {"sql": "SELECT *, 1 AS one FROM events"}], sinks=told)
        return runner(lab, changed if sql != COUNTS or key != "name" else spec).look(compare_state=True)

    assert (1, ["", ""]) == (looked()[0], [str(each) for each in looked()[1]])
    with pytest.raises(StateOutdated, match="are not those that its state was computed with"):
        looked(COUNTS.replace("sum", "max"))
    with pytest.raises(Conflict, match="has the key column 'nr', which the pipeline does not make"):
        looked(key="nr")
    with pytest.raises(Conflict, match="does not have the column 'one', and `new_columns` is `refuse`"):
        looked(f"{COUNTS} ")
    shutil.rmtree(lab.folder / "results")
    with pytest.raises(PositionLost, match="sink 'delta' has no position"):
        looked()
    assert before == sorted((each, each.stat().st_mtime_ns) for each in [checkpoint, *checkpoint.rglob("*")])


def test_windows_close_behind_the_watermark_and_count_each_event_once(lab: Lab) -> None:
    topic = lab.kafka.topic("window")
    schema = {"type": "json", "schema": "id bigint NOT NULL, at timestamp"}
    landing = lab.spec(topic, decode=schema)
    query = (
        "SELECT window.start AS start, count(*) AS events FROM (SELECT window(at, '10 minutes') AS window FROM events)"
        " GROUP BY window"
    )
    spec = stateful(
        lab,
        f"{topic}-windows",
        source={"type": "delta", "path": str(lab.table), "watermark": {"column": "at", "delay": "5m"}},
        steps=[{"sql": query}],
        sinks=[{"type": "delta", "path": str(lab.folder / "results"), "key": ["start"]}],
    )
    for minutes in ([1, 2, 11], [3, 40], [41, 4]):
        lab.send(topic, *({"id": minute, "at": f"2026-01-31T12:{minute:02}:00Z"} for minute in minutes))
        lab.run(landing)
        compute(lab, spec)

    counted = [
        (start.strftime("%H:%M"), events) for start, events in results(lab.folder / "results", "start", "events")
    ]
    # The event of minute 4 came after the watermark had passed its window, which was at three by then.
    assert [("12:00", 3), ("12:10", 1), ("12:40", 2)] == counted


def test_a_stateful_processor_finds_the_modules_beside_it_and_keeps_its_state_between_runs(lab: Lab) -> None:
    topic = lab.kafka.topic("processor")
    (lab.folder / "best_of_all.py").write_text(RANKING)
    (lab.folder / "comparing.py").write_text(COMPARING)
    step = {"stateful": "best_of_all:Best", "key": ["name"], "returns": "name string, best bigint"}
    spec = stateful(lab, f"{topic}-best", steps=[step])

    land(lab, topic, ("a", 5), ("b", 2))
    compute(lab, spec)
    land(lab, topic, ("a", 3), ("b", 4))
    compute(lab, spec)

    assert [("a", 5), ("b", 4)] == results(lab.folder / "results", "name", "best")
    # Each key was new once, of which it would warn.
    loggers = lab.spark._jvm.org.apache.logging.log4j.LogManager  # type: ignore[union-attr]
    assert "ERROR" == loggers.getLogger(f"{STREAMING}.TransformWithStateInPySparkStateServer").getLevel().toString()
    assert "WARN" == loggers.getLogger(f"{STREAMING}.Another").getLevel().toString()

    # Another pipeline of this process has modules of the same names, and gets its own.
    other = replace(lab, folder=lab.folder / "other")
    other.folder.mkdir()
    (other.folder / "best_of_all.py").write_text(RANKING)
    (other.folder / "comparing.py").write_text(COMPARING.replace("max", "min"))
    put(other, ("a", 5), ("a", 3))
    compute(other, stateful(other, f"{topic}-worst", steps=[step]))

    assert [("a", 3)] == results(other.folder / "results", "name", "best")


def test_a_result_table_that_was_deleted_is_noticed(lab: Lab) -> None:
    topic = lab.kafka.topic("gone")
    spec = stateful(lab, f"{topic}-counts", steps=[{"sql": COUNTS}])
    land(lab, topic, ("a", 1))
    compute(lab, spec)
    shutil.rmtree(lab.folder / "results")
    land(lab, topic, ("a", 2))

    with pytest.raises(PositionLost, match=f"penstock pipeline rebuild {spec.name}"):
        compute(lab, spec)
    with runner(lab, spec) as opened:
        opened.rebuild()
    compute(lab, spec)

    assert [("a", 2, 3)] == results(lab.folder / "results", "name", "events", "total")


def test_a_rebuild_that_dies_half_way_is_refused_until_it_was_run_and_then_computes_everything(lab: Lab) -> None:
    spec = stateful(lab, "half-rebuilt", steps=[{"sql": COUNTS}])
    put(lab, ("a", 1), ("b", 2))
    compute(lab, spec)
    put(lab, ("a", 3))

    with dying("checkpoint_cleared"), runner(lab, spec) as opened:
        opened.rebuild()
    with pytest.raises(CheckpointLost, match=f"penstock pipeline rebuild {spec.name}"):
        compute(lab, spec)
    with dying("checkpoint_begun"), runner(lab, spec) as opened:
        opened.rebuild()
    reports = compute(lab, spec)

    assert [2] == [report.read for report in reports]
    assert [("a", 2, 4), ("b", 1, 2)] == results(lab.folder / "results", "name", "events", "total")


def test_rows_that_were_replaced_stop_a_computation_until_it_is_done_again(lab: Lab) -> None:
    topic = lab.kafka.topic("replaced")
    spec = stateful(lab, f"{topic}-counts", steps=[{"sql": COUNTS}])
    land(lab, topic, ("a", 1), ("b", 2))
    compute(lab, spec)
    DeltaTable(str(lab.table)).delete("name = 'b'")

    with pytest.raises(Discontinuity, match=f"penstock pipeline rebuild {spec.name}"):
        compute(lab, spec)
    with runner(lab, spec) as opened:
        opened.rebuild()
    compute(lab, spec)

    assert [("a", 1, 1), ("b", 1, 2)] == results(lab.folder / "results", "name", "events", "total")


def test_state_that_is_missing_in_part_is_a_lost_checkpoint(lab: Lab) -> None:
    spec = stateful(lab, "in-part", steps=[{"sql": COUNTS}])
    put(lab, ("a", 1))
    compute(lab, spec)
    for file in (lab.folder / "homes" / spec.name / "checkpoint" / "spark" / "state").rglob("*.zip"):
        file.unlink(missing_ok=True)  # Spark looks after its state, too
    put(lab, ("a", 2))

    with pytest.raises(CheckpointLost, match=f"penstock pipeline rebuild {spec.name}"):
        compute(lab, spec)


def test_files_that_were_vacuumed_before_they_were_read_stop_it_and_a_rebuild_has_every_row(lab: Lab) -> None:
    spec = stateful(lab, "vacuumed", steps=[{"sql": COUNTS}])
    put(lab, ("a", 1))
    compute(lab, spec)
    put(lab, ("b", 2))
    put(lab, ("c", 3))
    DeltaTable(str(lab.table)).optimize.compact()
    DeltaTable(str(lab.table)).vacuum(retention_hours=0, enforce_retention_duration=False, dry_run=False)

    with pytest.raises(Discontinuity, match=r"files of the table .* were deleted before it had read them"):
        compute(lab, spec)
    with runner(lab, spec) as opened:
        opened.rebuild()
    compute(lab, spec)

    assert [("a", 1, 1), ("b", 1, 2), ("c", 1, 3)] == results(lab.folder / "results", "name", "events", "total")


def test_a_processor_that_fails_is_named_changes_nothing_and_goes_on_once_it_is_fixed(lab: Lab) -> None:
    failing = "known = self.best.get()\n        rows = list(rows)\n        1 / (13 - rows[0]['id'])"
    (lab.folder / "failing_ranking.py").write_text(RANKING.replace("known = self.best.get()", failing))
    (lab.folder / "fixed_ranking.py").write_text(RANKING)
    (lab.folder / "comparing.py").write_text(COMPARING)

    def spec(module: str) -> PipelineSpec:
        step = {"stateful": f"{module}:Best", "key": ["name"], "returns": "name string, best bigint"}
        return stateful(lab, "failing", steps=[step])

    put(lab, ("a", 5), ("b", 2))
    compute(lab, spec("failing_ranking"))
    put(lab, ("a", 13), ("b", 4))
    with pytest.raises(PipelineHalted, match="ZeroDivisionError: division by zero"):
        compute(lab, spec("failing_ranking"))
    before = results(lab.folder / "results", "name", "best")
    compute(lab, spec("fixed_ranking"))

    assert [("a", 5), ("b", 2)] == before
    assert [("a", 13), ("b", 4)] == results(lab.folder / "results", "name", "best")


def test_a_table_that_nobody_landed_yet_is_named(lab: Lab) -> None:
    with pytest.raises(NotFound, match="there is no Delta table at"):
        compute(lab, stateful(lab, "nothing-landed", steps=[{"sql": COUNTS}]))


def test_a_stream_over_a_table_with_nothing_new_says_that_it_runs(lab: Lab) -> None:
    put(lab, ("a", 1))
    spec = stateful(lab, "idle-counts", steps=[{"sql": COUNTS}])
    compute(lab, spec)
    heard: list[Progress] = []

    with runner(lab, spec.model_copy(update={"speed": "stream"})) as opened:

        def tell(progress: Progress) -> None:
            heard.append(progress)
            opened.stopping.set()

        opened.run(tell)

    assert [Progress(None, 0, is_idle=True)] == heard
