"""Our own sinks of files keep what the conformance suite asks for, and those that do not are found out."""

import importlib
import json
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from penstock.record.columns import COORDINATES, RESERVED
from penstock.sinks.console import Console
from penstock.sinks.delta import Delta
from penstock.sinks.delta_table import make_table
from penstock.sinks.iceberg import Iceberg
from penstock.sinks.json import Json
from penstock.testing.sink_conformance import Landed, SinkConformance
from penstock.testing.sink_processes import killed_driver

from support import sabotaged_sinks
from support.iceberg_tables import iceberg_rows
from support.killed_often import KilledOften


def read_delta(path: Path) -> list[Landed]:
    if not DeltaTable.is_deltatable(str(path)):
        return []
    return [landed(row) for row in DeltaTable(str(path)).to_pyarrow_table().to_pylist()]


def read_json(path: Path) -> list[Landed]:
    return [landed(json.loads(line)) for file in path.glob("*.jsonl") for line in file.read_text().splitlines()]


def landed(row: dict[str, Any]) -> Landed:
    return Landed(row["_partition"], row["_offset"], row["id"], row["text"])


class TestDelta(KilledOften):
    @pytest.fixture(autouse=True)
    def _target(self, tmp_path: Path) -> None:
        self.folder, self.model = tmp_path / "scratch", Delta(path=tmp_path / "table")
        self.drop = partial(shutil.rmtree, tmp_path / "table")
        self.read = partial(read_delta, tmp_path / "table")


class TestDeltaInPartitions(KilledOften):
    kills_in_commit = 2

    @pytest.fixture(autouse=True)
    def _target(self, tmp_path: Path) -> None:
        spec = {"path": tmp_path / "table", "partition_by": ["id"], "compact": {"every": 2}}
        self.folder, self.model = tmp_path / "scratch", Delta.model_validate(spec)
        self.drop = partial(shutil.rmtree, tmp_path / "table")
        self.read = partial(read_delta, tmp_path / "table")


class TestIceberg(KilledOften):
    """Read back by DuckDB."""

    @pytest.fixture(autouse=True)
    def _target(self, tmp_path: Path) -> None:
        self.folder, self.model = tmp_path / "scratch", Iceberg(path=tmp_path / "table")
        self.drop = partial(shutil.rmtree, tmp_path / "table")
        self.read = lambda: [landed(row) for row in iceberg_rows(tmp_path / "table")]


class TestJson(KilledOften):
    @pytest.fixture(autouse=True)
    def _target(self, tmp_path: Path) -> None:
        self.folder, self.model = tmp_path / "scratch", Json(path=tmp_path / "files", gzip=False)
        self.drop = partial(shutil.rmtree, tmp_path / "files")
        self.read = partial(read_json, tmp_path / "files")


class TestConsole(SinkConformance):
    """At least once; what was printed by a process that was killed is on its own terminal."""

    kills_in_commit = 0

    @pytest.fixture(autouse=True)
    def _target(self, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
        printed: list[Landed] = []

        def read() -> list[Landed]:
            printed.extend(landed(json.loads(line)) for line in capfd.readouterr().out.splitlines())
            return printed

        self.folder, self.model, self.read = tmp_path, Console(rows=1000), read


class TestSqliteOfTheExample(SinkConformance):
    kills_in_commit = 8

    @pytest.fixture(autouse=True)
    def _target(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.syspath_prepend(Path(__file__).parents[3] / "examples" / "sqlite_sink")
        sqlite = importlib.import_module("penstock_sqlite").Sqlite
        self.folder, self.model = tmp_path / "scratch", sqlite(path=tmp_path / "landed.db", table="orders")
        self.drop = partial(drop_sqlite, tmp_path / "landed.db")
        self.read = partial(read_sqlite, tmp_path / "landed.db")


def drop_sqlite(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("DROP TABLE orders")


def read_sqlite(path: Path) -> list[Landed]:
    with closing(sqlite3.connect(path)) as connection:
        return [Landed(*row) for row in connection.execute("SELECT _partition, _offset, id, text FROM orders")]


def over(model: type[Delta], tmp_path: Path) -> SinkConformance:
    checks = SinkConformance()
    checks.kills_in_commit = 4
    checks.folder, checks.model = tmp_path / "scratch", model(path=tmp_path / "table")
    checks.read = partial(read_delta, tmp_path / "table")
    return checks


KILLED = SinkConformance.test_a_driver_that_is_killed_at_any_point_loses_and_doubles_nothing
SECOND = SinkConformance.test_a_second_driver_keeps_the_first_from_writing_what_is_there
OWN = SinkConformance.test_positions_are_those_of_one_topic_one_pipeline_and_one_sink
ELSEWHERE = SinkConformance.test_rows_are_there_although_the_process_that_staged_them_is_gone
REPLACED = SinkConformance.test_rows_of_a_range_take_the_place_of_those_that_its_records_gave_before
LANDED = SinkConformance.test_every_row_of_a_batch_is_there_once_and_the_positions_are_behind_it


@pytest.mark.parametrize(
    ("model", "check", "found"),
    [
        pytest.param(sabotaged_sinks.DataFirst, KILLED, "rows are there more than once", id="data before position"),
        pytest.param(sabotaged_sinks.NoPosition, SECOND, "has committed a batch that another one", id="no position"),
        pytest.param(sabotaged_sinks.LosesLast, LANDED, "rows are lost", id="loses the last row"),
        pytest.param(sabotaged_sinks.LosesText, LANDED, "rows have other values", id="loses a column"),
        pytest.param(sabotaged_sinks.NoJson, LANDED, "is changed by JSON", id="detail is not JSON"),
        pytest.param(sabotaged_sinks.ComparesEarly, SECOND, "has committed a batch that another one", id="too early"),
        pytest.param(sabotaged_sinks.ByTopicName, OWN, "a topic with another id is at", id="topic's name"),
        pytest.param(sabotaged_sinks.OneForAll, OWN, "another pipeline is at", id="positions are shared"),
        pytest.param(sabotaged_sinks.ReplacesNothing, REPLACED, "rows are there that nobody|values", id="appends"),
        pytest.param(sabotaged_sinks.KeepsInMemory, ELSEWHERE, "rows are lost", id="rows in memory"),
    ],
)
def test_a_sink_that_breaks_its_promise_is_found_out(
    model: type[Delta], check: Callable[[SinkConformance], None], found: str, tmp_path: Path
) -> None:
    with pytest.raises(AssertionError, match=found):
        check(over(model, tmp_path))


def test_a_driver_killed_in_the_commit_that_adds_a_column_loses_and_doubles_nothing(tmp_path: Path) -> None:
    def lacking_a_column(name: str) -> SinkConformance:
        (tmp_path / name).mkdir()
        checks = over(Delta, tmp_path / name)
        lacking = pa.schema([("id", pa.int64()), *(RESERVED.field(each) for each in COORDINATES)])
        make_table(tmp_path / name / "table", lacking, checks.pipeline)
        return checks

    lines = killed_driver(lacking_a_column("never"), "never", 2)
    for line in sorted({1 + (lines - 1) * number // 6 for number in range(7)}):
        checks = lacking_a_column(f"line-{line}")

        killed_driver(checks, line, 2)
        checks._require_recovered(2)

        assert "text" in DeltaTable(str(tmp_path / f"line-{line}" / "table")).to_pyarrow_table().column_names
