"""A Delta table that somebody puts back to an older version, or whose columns somebody replaces."""

import datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.dataset as ds
import pytest
from deltalake import DeltaTable, write_deltalake
from deltalake.transaction import AddAction

from penstock.errors import Conflict, PositionLost, PositionsMoved
from penstock.record.positions import OffsetRange, Positions, SourcePartition
from penstock.sinks import delta_restore
from penstock.sinks.delta import Delta, DeltaSink
from penstock.sinks.merging import MergeContext
from penstock.sinks.sink import Staged

A, B, C = (SourcePartition("orders", "Ab-_9", partition) for partition in range(3))
SCHEMA = pa.schema([("id", pa.int64()), ("text", pa.string())])


class Driver:
    """A sink that is written to as the engine does."""

    def __init__(self, path: Path, *asked: SourcePartition) -> None:
        self.sink = DeltaSink(Delta(path=path, coordinates=False), "delta", "combat")
        self.sink.open(SCHEMA)
        self._asked = asked or (A, B)

    @property
    def positions(self) -> Positions:
        return self.sink.positions(self._asked) or {}

    def prepare(self, *ends: tuple[SourcePartition, int]) -> None:
        found = self.positions
        staged = []
        for source_partition, end in ends:
            offset_range = OffsetRange(source_partition, found.get(source_partition, 0), end)
            stager = self.sink.stager()(offset_range)
            numbers = range(offset_range.start, end)
            listed = [{"id": 100 * source_partition.partition + number, "text": "x"} for number in numbers]
            stager.write(pa.RecordBatch.from_pylist(listed, SCHEMA), pa.array(numbers))
            staged.append(Staged(offset_range, len(numbers), stager.finish()))
        self.sink.prepare(staged, {source_partition: found.get(source_partition) for source_partition, _ in ends})

    def write(self, *ends: tuple[SourcePartition, int]) -> int:
        """Write from where the sink stands; give the version that it made."""
        self.prepare(*ends)
        self.sink.commit()
        return int(DeltaTable(str(self.sink.path)).version())


def ids(path: Path) -> list[int]:
    return sorted(DeltaTable(str(path)).to_pyarrow_table().column("id").to_pylist())


def written_at(path: Path, version: int) -> datetime.datetime:
    """Return the time by which a version is found, which is that of its file: to the next millisecond."""
    written_ms = -(-(path / "_delta_log" / f"{version:020}.json").stat().st_mtime_ns // 1_000_000)
    return datetime.datetime.fromtimestamp(written_ms / 1000, datetime.UTC)


def restored(path: Path, target: int | datetime.datetime) -> None:
    DeltaTable(str(path)).restore(target)


@pytest.mark.parametrize("is_running", [True, False], ids=["running", "started again"])
def test_what_a_restored_table_lacks_is_written_again_once(tmp_path: Path, *, is_running: bool) -> None:
    driver = Driver(tmp_path)
    version = driver.write((A, 3), (B, 2))
    driver.write((A, 6))
    driver.write((B, 4))
    restored(tmp_path, version)

    if not is_running:
        driver = Driver(tmp_path)
    found = driver.positions
    driver.write((A, 7))
    after = (driver.positions, Driver(tmp_path).positions)
    driver.write((B, 5))

    assert {A: 3, B: 2} == found
    assert ({A: 7, B: 2}, {A: 7, B: 2}) == after
    assert [0, 1, 2, 3, 4, 5, 6, 100, 101, 102, 103, 104] == ids(tmp_path)


@pytest.mark.parametrize("is_running", [True, False], ids=["running", "started again"])
def test_a_table_that_is_recreated_in_its_place_has_no_position(tmp_path: Path, *, is_running: bool) -> None:
    driver = Driver(tmp_path)
    driver.write((A, 3), (B, 2))
    DeltaTable.create(str(tmp_path), SCHEMA, mode="overwrite")

    if not is_running:
        driver = Driver(tmp_path)
    found = driver.positions
    driver.write((A, 2))
    after = (driver.positions, Driver(tmp_path).positions)
    driver.write((B, 1))

    assert ({}, [0, 1, 100]) == (found, ids(tmp_path))
    assert ({A: 2}, {A: 2}) == after
    assert {A: 2, B: 1} == driver.positions == Driver(tmp_path).positions


def test_a_table_recreated_and_then_brought_back_has_the_positions_of_before(tmp_path: Path) -> None:
    version = Driver(tmp_path).write((A, 3), (B, 2))
    DeltaTable.create(str(tmp_path), SCHEMA, mode="overwrite")
    restored(tmp_path, version)

    assert ({A: 3, B: 2}, [0, 1, 2, 100, 101]) == (Driver(tmp_path).positions, ids(tmp_path))


def test_properties_that_somebody_sets_leave_the_positions(tmp_path: Path) -> None:
    driver = Driver(tmp_path)
    driver.write((A, 3), (B, 2))
    DeltaTable(str(tmp_path)).alter.set_table_properties({"delta.checkpointInterval": "5"})

    assert {A: 3, B: 2} == driver.positions == Driver(tmp_path).positions


def test_a_partition_that_the_restored_version_did_not_know_has_no_position(tmp_path: Path) -> None:
    driver = Driver(tmp_path)
    version = driver.write((A, 3))
    driver.write((A, 4), (B, 2))
    restored(tmp_path, version)

    found = driver.positions
    driver.write((A, 4))

    assert {A: 3} == found
    assert {A: 4} == driver.positions == Driver(tmp_path).positions


@pytest.mark.parametrize("asked", [A, C], ids=["a known partition", "a new partition"])
def test_a_commit_of_one_partition_leaves_no_stale_position_of_those_that_nobody_asked_for(
    tmp_path: Path, asked: SourcePartition
) -> None:
    driver = Driver(tmp_path)
    version = driver.write((A, 3), (B, 2))
    driver.write((A, 6), (B, 4))
    restored(tmp_path, version)

    Driver(tmp_path, asked).write((asked, 7))
    found = Driver(tmp_path, A, B, C).positions

    assert {A: 3, B: 2} | {asked: 7} == found


def test_a_file_that_was_added_twice_does_not_hide_which_version_was_restored(tmp_path: Path) -> None:
    driver = Driver(tmp_path)
    version = driver.write((A, 3))
    first = Path(DeltaTable(str(tmp_path)).file_uris()[0])
    driver.write((A, 5))
    again = AddAction(first.name, first.stat().st_size, {}, 0, False, '{"numRecords": 3}')  # noqa: FBT003
    DeltaTable(str(tmp_path)).create_write_transaction([again], "append", SCHEMA)
    restored(tmp_path, version)

    found = driver.positions
    driver.write((A, 6))

    assert {A: 3} == found
    assert [0, 1, 2, 3, 4, 5] == ids(tmp_path)


def test_a_version_far_back_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delta_restore, "_COMMITS_AT_ONCE", 3)
    driver = Driver(tmp_path)
    driver.write((A, 2))
    version = driver.write((B, 1))
    for number in range(8):
        rows = pa.table({"id": [number], "text": ["y"]}, SCHEMA)
        write_deltalake(str(tmp_path), rows, mode="append" if number % 5 else "overwrite")
    driver.write((A, 4))
    restored(tmp_path, version)

    assert {A: 2, B: 1} == driver.positions == Driver(tmp_path).positions


def test_a_table_restored_to_a_time_and_one_restored_twice_are_known(tmp_path: Path) -> None:
    driver = Driver(tmp_path)
    first = driver.write((A, 3))
    second = driver.write((A, 5))
    at = written_at(tmp_path, second)
    while written_at(tmp_path, driver.write((A, driver.positions[A] + 1))) == at:
        pass

    restored(tmp_path, at)
    by_time = driver.positions
    restored(tmp_path, first)
    twice = driver.positions
    restored(tmp_path, second)
    again = (driver.positions, Driver(tmp_path).positions)
    restored(tmp_path, 0)

    assert {A: 5} == by_time
    assert {A: 3} == twice
    assert ({A: 5}, {A: 5}) == again
    assert {} == driver.positions


def test_what_others_do_before_and_after_a_restore_changes_nothing(tmp_path: Path) -> None:
    driver = Driver(tmp_path)
    driver.write((A, 3))
    version = driver.write((A, 5))
    DeltaTable(str(tmp_path)).optimize.compact()
    driver.write((A, 8))
    restored(tmp_path, version)
    DeltaTable(str(tmp_path)).optimize.compact()
    DeltaTable(str(tmp_path)).create_checkpoint()

    assert {A: 5} == driver.positions == Driver(tmp_path).positions


def test_a_table_restored_while_a_batch_runs_gets_nothing_of_it(tmp_path: Path) -> None:
    driver = Driver(tmp_path)
    version = driver.write((A, 3))
    driver.write((A, 5))
    driver.prepare((A, 8))
    restored(tmp_path, version)

    with pytest.raises(PositionsMoved):
        driver.sink.commit()
    driver.write((A, 8))

    assert [0, 1, 2, 3, 4, 5, 6, 7] == ids(tmp_path)


def test_a_table_restored_beyond_what_its_log_still_has_stops_the_pipeline(tmp_path: Path) -> None:
    driver = Driver(tmp_path)
    version = driver.write((A, 3))
    driver.write((A, 5))
    restored(tmp_path, version)
    DeltaTable(str(tmp_path)).create_checkpoint()
    for number in range(version + 2):
        (tmp_path / "_delta_log" / f"{number:020d}.json").unlink()

    with pytest.raises(PositionLost, match="restored to an older version") as caught:
        _ = Driver(tmp_path).positions

    assert "penstock pipeline rebuild combat" in str(caught.value)


def test_only_commits_since_the_last_position_are_looked_at(tmp_path: Path) -> None:
    driver = Driver(tmp_path)
    last = max(driver.write((A, number)) for number in range(1, 6))
    DeltaTable(str(tmp_path)).create_checkpoint()
    for number in range(last):
        (tmp_path / "_delta_log" / f"{number:020d}.json").write_text("none of our business")

    assert {A: 5} == Driver(tmp_path).positions


def test_results_of_a_restored_table_stand_where_that_version_stood(tmp_path: Path) -> None:
    sink = Delta(path=tmp_path, key=["k"]).open_merge(MergeContext("delta", "podium"))
    sink.merge(ds.dataset(pa.table({"k": ["a"], "n": [1]})), None, 1)
    sink.merge(ds.dataset(pa.table({"k": ["a"], "n": [2]})), 1, 2)
    restored(tmp_path, 1)

    found = sink.position()
    with pytest.raises(PositionsMoved):
        sink.merge(ds.dataset(pa.table({"k": ["a"], "n": [3]})), 2, 3)
    sink.merge(ds.dataset(pa.table({"k": ["a"], "n": [2]})), 1, 2)

    assert 1 == found
    assert 2 == sink.position()


@pytest.mark.parametrize(
    "columns",
    [
        pytest.param({"id": ["0"], "text": ["x"]}, id="another type"),
        pytest.param({"id": [0], "remark": ["x"]}, id="another name"),
        pytest.param({"id": [0], "text": ["x"], "more": [1]}, id="one more"),
        pytest.param({"id": [0]}, id="one less"),
    ],
)
@pytest.mark.parametrize("in_a_batch", [True, False], ids=["in a batch", "between batches"])
def test_columns_that_somebody_replaces_under_a_running_driver_are_reported_and_nothing_is_written(
    tmp_path: Path, columns: dict[str, list[object]], *, in_a_batch: bool
) -> None:
    driver = Driver(tmp_path)
    driver.write((A, 3))
    if in_a_batch:
        driver.prepare((A, 5))
    write_deltalake(str(tmp_path), pa.table(columns), mode="overwrite", schema_mode="overwrite")

    with pytest.raises(Conflict, match=r"has (the|no) column"):
        driver.sink.commit() if in_a_batch else driver.prepare((A, 5))

    assert pa.table(columns).to_pylist() == DeltaTable(str(tmp_path)).to_pyarrow_table().to_pylist()
