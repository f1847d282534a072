"""A Delta table whose log somebody puts back, or removes files of, while a driver writes to the table or before."""

import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
import pytest
from deltalake import DeltaTable, write_deltalake

from penstock.errors import Conflict
from penstock.record.columns import CHANGE
from penstock.record.positions import OffsetRange, Positions, SourcePartition
from penstock.sinks.delta import Delta, DeltaSink
from penstock.sinks.merging import MergeContext
from penstock.sinks.sink import Staged

TP = SourcePartition("orders", "Ab-_9", 0)
SCHEMA = pa.schema([("id", pa.int64())])
COORDINATES = pa.schema([("_topic_id", pa.string()), ("_partition", pa.int32()), ("_offset", pa.int64())])


class Driver:
    """A sink that is written to as the engine does."""

    def __init__(self, path: Path, **options: Any) -> None:
        given = {"path": path, "coordinates": False, **options}
        self.sink = DeltaSink(Delta.model_validate(given), "delta", "combat")
        self._schema = pa.schema([*SCHEMA, *COORDINATES]) if given["coordinates"] else SCHEMA
        self.sink.open(self._schema)

    @property
    def positions(self) -> Positions:
        return self.sink.positions([TP]) or {}

    def write(self, end: int) -> None:
        """Write a row for each offset from where the sink stands to an end."""
        start = self.positions.get(TP)
        offset_range = OffsetRange(TP, start or 0, end)
        numbers = list(range(offset_range.start, end))
        rows = [{"id": each, "_topic_id": TP.topic_id, "_partition": 0, "_offset": each} for each in numbers]
        stager = self.sink.stager()(offset_range)
        assert [] == stager.write(pa.RecordBatch.from_pylist(rows, self._schema), pa.array(numbers))
        self.sink.prepare([Staged(offset_range, len(numbers), stager.finish())], {TP: start})
        self.sink.commit()


def ids(path: Path) -> list[int]:
    return sorted(DeltaTable(str(path)).to_pyarrow_table().column("id").to_pylist())


@pytest.fixture
def table(tmp_path: Path) -> Path:
    return tmp_path / "table"


def add(path: Path, number: int) -> None:
    """Append a row as somebody else does."""
    schema = pa.schema(DeltaTable(str(path)).schema().to_arrow())
    write_deltalake(str(path), pa.Table.from_pylist([{"id": number}], schema), mode="append")


def put_back(copy: Path, log: Path) -> None:
    """Let the folder of the log be the same, and hold what it once did."""
    for each in log.iterdir():
        each.unlink()
    shutil.copytree(copy, log, dirs_exist_ok=True)


def test_a_log_put_back_under_a_running_driver_ends_it_and_the_next_one_writes_what_is_missing(
    table: Path, tmp_path: Path
) -> None:
    driver = Driver(table)
    driver.write(3)
    shutil.copytree(table / "_delta_log", tmp_path / "log")
    driver.write(5)
    driver.write(6)
    put_back(tmp_path / "log", table / "_delta_log")

    with pytest.raises(Conflict, match=r"log of the table .* was put back .* Start the pipeline again"):
        driver.write(7)
    after = ids(table)
    following = Driver(table)
    found = following.positions
    following.write(7)

    assert ([0, 1, 2], {TP: 3}) == (after, found)
    assert list(range(7)) == ids(table)


def test_a_log_put_back_that_has_other_commits_since_is_not_taken_for_the_one_that_was_read(
    table: Path, tmp_path: Path
) -> None:
    driver = Driver(table)
    driver.write(3)
    shutil.copytree(table / "_delta_log", tmp_path / "log")
    driver.write(5)
    driver.positions  # noqa: B018 - which reads the commit
    put_back(tmp_path / "log", table / "_delta_log")
    other = Driver(table)
    other.write(4)
    other.write(6)

    with pytest.raises(Conflict, match="was put back"):
        driver.write(7)
    assert list(range(6)) == ids(table)


@pytest.mark.parametrize("commits", [1, 2, 3])
@pytest.mark.parametrize("key", [[], ["id"]], ids=["appended", "merged"])
def test_a_log_put_back_right_after_a_batch_is_not_taken_for_the_one_with_it_however_many_commits_come(
    table: Path, tmp_path: Path, key: list[str], commits: int
) -> None:
    driver = Driver(table, key=key, coordinates=True)
    driver.write(1)
    shutil.copytree(table / "_delta_log", tmp_path / "log")
    driver.write(2)
    driver.write(3)
    put_back(tmp_path / "log", table / "_delta_log")
    for number in range(commits):
        add(table, 100 + number)

    with pytest.raises(Conflict, match="was put back"):
        driver.write(4)
    Driver(table, key=key, coordinates=True).write(4)

    assert [0, 1, 2, 3, *range(100, 100 + commits)] == ids(table)


def test_a_log_put_back_after_a_compaction_is_not_taken_for_the_one_with_it(table: Path, tmp_path: Path) -> None:
    driver = Driver(table, compact={"every": 3})
    for end in (1, 2):
        driver.write(end)
    shutil.copytree(table / "_delta_log", tmp_path / "log")
    driver.write(3)
    driver.sink.maintain()
    put_back(tmp_path / "log", table / "_delta_log")
    for number in (100, 101):
        add(table, number)

    with pytest.raises(Conflict, match="was put back"):
        driver.write(4)
    Driver(table).write(4)

    assert [0, 1, 2, 3, 100, 101] == ids(table)


def test_results_are_not_merged_into_a_log_that_was_put_back(table: Path, tmp_path: Path) -> None:
    sink = Delta(path=table, key=["id"], coordinates=False).open_merge(MergeContext("totals", "combat"))
    for number in (1, 2):
        sink.merge(ds.dataset(pa.table({"id": pa.array([number], pa.int64())})), number - 1 or None, number)
        if number == 1:
            shutil.copytree(table / "_delta_log", tmp_path / "log")
    put_back(tmp_path / "log", table / "_delta_log")

    with pytest.raises(Conflict, match="was put back"):
        sink.merge(ds.dataset(pa.table({"id": pa.array([3], pa.int64())})), 2, 3)
    with pytest.raises(Conflict, match="was put back"):
        sink.position()
    following = Delta(path=table, key=["id"], coordinates=False).open_merge(MergeContext("totals", "combat"))

    assert ([1], 1) == (ids(table), following.position())


def test_the_same_log_copied_over_itself_is_nothing_to_end_for(table: Path, tmp_path: Path) -> None:
    driver = Driver(table)
    driver.write(3)
    shutil.copytree(table / "_delta_log", tmp_path / "log")
    put_back(tmp_path / "log", table / "_delta_log")

    driver.write(5)

    assert list(range(5)) == ids(table)


@pytest.mark.parametrize("is_running", [True, False], ids=["running", "started again"])
def test_a_log_of_which_only_a_checkpoint_is_left_is_refused_before_anything_is_written(
    table: Path, *, is_running: bool
) -> None:
    driver = Driver(table)
    driver.write(3)
    DeltaTable(str(table)).create_checkpoint()
    commit = table / "_delta_log" / f"{1:020}.json"
    kept = commit.read_bytes()
    for each in (table / "_delta_log").glob("*.json"):
        each.unlink()

    if not is_running:
        driver = Driver(table)
    with pytest.raises(Conflict, match=f"newest commit of the table .* is gone from its log, _delta_log/{commit.name}"):
        driver.write(4)
    files = len(list(table.glob("*.parquet")))
    commit.write_bytes(kept)
    driver.write(4)

    assert (1, [0, 1, 2, 3]) == (files, ids(table))


def test_results_are_not_merged_behind_a_commit_that_is_gone(table: Path) -> None:
    sink = Delta(path=table, key=["id"], coordinates=False).open_merge(MergeContext("totals", "combat"))
    rows = ds.dataset(pa.table({"id": pa.array([1], pa.int64())}))
    sink.merge(rows, None, 1)
    DeltaTable(str(table)).create_checkpoint()
    for each in (table / "_delta_log").glob("*.json"):
        each.unlink()

    with pytest.raises(Conflict, match="newest commit of the table"):
        sink.merge(rows, 1, 2)
    assert 1 == sink.position()


def test_a_log_with_a_gap_is_one_line_with_what_to_do(table: Path) -> None:
    driver = Driver(table)
    driver.write(1)
    DeltaTable(str(table)).create_checkpoint()
    driver.write(2)
    driver.write(3)
    (table / "_delta_log" / f"{2:020}.json").unlink()

    with pytest.raises(Conflict, match=r"cannot be read: .*Gap.* Nothing was written\. Put back what is missing"):
        Driver(table)
    sink = Delta(path=table, key=["id"], coordinates=False).open_merge(MergeContext("totals", "combat"))
    with pytest.raises(Conflict, match="cannot be read"):
        sink.position()


def test_a_commit_that_is_no_commit_is_one_line_and_nothing_is_written(table: Path) -> None:
    driver = Driver(table)
    driver.write(3)
    driver.positions  # noqa: B018 - which reads the commit
    DeltaTable(str(table)).alter.set_table_properties({"delta.checkpointInterval": "5"})
    commit = table / "_delta_log" / f"{2:020}.json"
    kept = commit.read_bytes()
    commit.write_text("{")

    with pytest.raises(Conflict, match=r"(commit 2 .* is damaged|cannot be read: .*)\. Nothing was written"):
        driver.write(4)
    commit.write_bytes(kept)
    driver.write(4)

    assert [0, 1, 2, 3] == ids(table)


def test_rows_that_somebody_has_deleted_the_file_of_are_not_merged_into(table: Path) -> None:
    sink = DeltaSink(Delta(path=table, key=["id"]), "delta", "combat")
    columns = {"id": [1], "_topic_id": [TP.topic_id], "_partition": pa.array([0], pa.int32()), "_offset": [0]}
    rows = pa.RecordBatch.from_pydict(columns)
    sink.open(rows.schema)

    def write(start: int) -> None:
        stager = sink.stager()(OffsetRange(TP, start, start + 1))
        assert [] == stager.write(rows, pa.array([start]))
        sink.prepare([Staged(OffsetRange(TP, start, start + 1), 1, stager.finish())], {TP: start or None})
        sink.commit()

    write(0)
    for each in table.glob("*.parquet"):
        each.unlink()

    with pytest.raises(Conflict, match=r"cannot be read: .* Whether this batch was committed is checked before"):
        write(1)
    assert {TP: 1} == sink.positions([TP])


@pytest.mark.parametrize("damage", [None, b"", b"x" * 5000], ids=["deleted", "emptied", "no sense"])
def test_values_that_changes_leave_out_are_not_taken_from_damaged_files(table: Path, damage: bytes | None) -> None:
    sink = DeltaSink(Delta(path=table, key=["id"]), "delta", "combat")
    schema = pa.schema([("id", pa.int64()), ("text", pa.string()), *COORDINATES, CHANGE])
    sink.open(schema)

    def write(offset: int, text: str | None, unchanged: list[str]) -> None:
        change = {"op": None, "unchanged": unchanged, "moved_from": None}
        row = {"id": 1, "text": text, "_topic_id": TP.topic_id, "_partition": 0, "_offset": offset, CHANGE.name: change}
        stager = sink.stager()(OffsetRange(TP, offset, offset + 1))
        assert [] == stager.write(pa.RecordBatch.from_pylist([row], schema), pa.array([offset]))
        sink.prepare([Staged(OffsetRange(TP, offset, offset + 1), 1, stager.finish())], {TP: offset or None})
        sink.commit()

    write(0, "large", [])
    [file] = table.glob("*.parquet")
    whole = file.read_bytes()
    file.unlink() if damage is None else file.write_bytes(damage)
    with pytest.raises(
        Conflict, match=r"the table .* (names|has) .*(gone|damaged).* Nothing was written\. Put the file back"
    ):
        write(1, None, ["text"])
    file.write_bytes(whole)
    write(1, None, ["text"])

    [row] = DeltaTable(str(table)).to_pyarrow_table().to_pylist()
    assert ("large", 1) == (row["text"], row["_offset"])


@pytest.mark.parametrize("is_running", [True, False])
def test_a_commit_of_others_may_name_what_it_has_not(table: Path, *, is_running: bool) -> None:
    driver = Driver(table, compact={"every": 10})
    driver.write(1)
    nothing = b'{"commitInfo":null,"txn":{"appId":"a","version":1},"add":null,"remove":null,"metaData":null}\n'
    (table / "_delta_log" / f"{2:020d}.json").write_bytes(nothing)
    if not is_running:
        driver = Driver(table, compact={"every": 10})
    driver.write(2)

    assert [0, 1] == ids(table)
