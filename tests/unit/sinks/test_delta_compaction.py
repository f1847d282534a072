"""Compacting a Delta table, by its pipeline and by hand: rows and positions stay, and old versions for a while."""

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
import pytest
from deltalake import DeltaTable
from deltalake.table import TableOptimizer

from penstock.errors import BadInput, NotFound, SinkUnavailable
from penstock.record.positions import OffsetRange, SourcePartition
from penstock.sinks import tables
from penstock.sinks.delta import Delta, DeltaSink
from penstock.sinks.delta_table import table_lock
from penstock.sinks.merging import MergeContext
from penstock.sinks.sink import Staged

A = SourcePartition("orders", "Ab-_9", 0)
SCHEMA = pa.schema([("id", pa.int64()), ("shop", pa.int32())])
HOUR_S = 3600


def opened(path: Path, every: int | None = 3, **options: Any) -> DeltaSink:
    compact = None if every is None else {"every": every, "keep": 2 * HOUR_S * 1000}
    sink = DeltaSink(Delta.model_validate({"path": path, "compact": compact, **options}), "delta", "orders")
    sink.open(SCHEMA)
    return sink


def write(sink: DeltaSink, start: int, shops: int = 1) -> None:
    offset_range = OffsetRange(A, start, start + shops)
    stager = sink.stager()(offset_range)
    rows = [{"id": start + number, "shop": number} for number in range(shops)]
    stager.write(pa.RecordBatch.from_pylist(rows, SCHEMA), pa.array(range(start, start + shops)))
    sink.prepare([Staged(offset_range, shops, stager.finish())], {A: start or None})
    sink.commit()
    sink.maintain()


def ids(path: Path) -> list[int]:
    return sorted(DeltaTable(str(path)).to_pyarrow_table().column("id").to_pylist())


def files(path: Path) -> int:
    return len(DeltaTable(str(path)).file_uris())


def operations(path: Path) -> list[str]:
    return [each["operation"] for each in DeltaTable(str(path)).history()][::-1]


def test_the_writer_compacts_after_so_many_batches_and_goes_on(tmp_path: Path) -> None:
    sink = opened(tmp_path)

    for number in range(7):
        write(sink, number)

    assert ["CREATE TABLE", *["WRITE"] * 3, "OPTIMIZE", *["WRITE"] * 3, "OPTIMIZE", "WRITE"] == [
        each for each in operations(tmp_path) if not each.startswith("VACUUM")
    ]
    assert (list(range(7)), 2, {A: 7}) == (ids(tmp_path), files(tmp_path), sink.positions([A]))


def test_batches_are_counted_across_drivers_that_run_one_batch_each(tmp_path: Path) -> None:
    for number in range(4):
        sink = opened(tmp_path)
        write(sink, number)
        sink.close()

    assert 1 == operations(tmp_path).count("OPTIMIZE")
    assert (list(range(4)), 2) == (ids(tmp_path), files(tmp_path))


def test_without_the_wish_nothing_is_compacted(tmp_path: Path) -> None:
    sink = opened(tmp_path, None)

    for number in range(4):
        write(sink, number)

    assert 4 == files(tmp_path)


def test_partitions_are_compacted_each_on_its_own(tmp_path: Path) -> None:
    sink = opened(tmp_path, 3, partition_by=["shop"])

    for number in range(3):
        write(sink, number * 5, shops=5)

    assert (list(range(15)), 5, {A: 15}) == (ids(tmp_path), files(tmp_path), sink.positions([A]))


def test_a_compaction_that_fails_is_reported_once_and_events_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sink = opened(tmp_path)
    for number in range(2):
        write(sink, number)
    with monkeypatch.context() as broken:
        broken.setattr("deltalake.table.TableOptimizer.compact", _fail)
        with pytest.raises(
            SinkUnavailable, match=r"could not be compacted: no room.*Rows and positions are as they were"
        ):
            write(sink, 2)
        write(sink, 3)

    assert (list(range(4)), {A: 4}) == (ids(tmp_path), sink.positions([A]))


@pytest.mark.parametrize("partition_by", [[], ["shop"]])
def test_a_compaction_of_others_in_between_doubles_no_row(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, partition_by: list[str]
) -> None:
    sink = opened(tmp_path, 4, partition_by=partition_by)
    for number in range(0, 6, 2):
        write(sink, number, shops=2)
    compact = TableOptimizer.compact

    def overtaken(optimizer: TableOptimizer, **options: Any) -> Any:
        monkeypatch.setattr(TableOptimizer, "compact", compact)
        theirs = DeltaTable(str(tmp_path))
        theirs.optimize.compact()
        return compact(optimizer, **options)

    monkeypatch.setattr(TableOptimizer, "compact", overtaken)
    with pytest.raises(
        SinkUnavailable, match=r"could not be compacted: another writer has committed to it meanwhile\."
    ):
        write(sink, 6, shops=2)
    newest = DeltaTable(str(tmp_path)).version()
    versions = [DeltaTable(str(tmp_path), version=number) for number in range(newest + 1)]
    named = {Path(each).name for version in versions for each in version.file_uris()}

    assert (list(range(8)), {A: 8}) == (ids(tmp_path), sink.positions([A]))
    assert named == {each.name for each in tmp_path.rglob("*.parquet")}
    assert [] == list(tmp_path.glob(".log-copy-*"))


def test_every_hundredth_version_has_a_checkpoint_also_if_it_is_a_compaction(tmp_path: Path) -> None:
    sink = opened(tmp_path, None)
    for number in range(98):
        write(sink, number)
    tables.compact(tmp_path, "7d")

    assert (tmp_path / "_delta_log" / f"{99:020d}.checkpoint.parquet").exists()
    assert (list(range(98)), 1) == (ids(tmp_path), files(tmp_path))


def _fail(*_: object, **__: object) -> None:
    raise OSError("no room")


@pytest.mark.parametrize("file", [f"{1:020d}.json", "_last_checkpoint"])
def test_what_readers_of_a_log_do_without_may_be_damaged(tmp_path: Path, file: str) -> None:
    first = opened(tmp_path)
    for number in range(2):
        write(first, number)
    DeltaTable(str(tmp_path)).create_checkpoint()
    (tmp_path / "_delta_log" / file).write_text("{")

    following = opened(tmp_path)
    for number in range(2, 6):
        write(following, number)

    assert list(range(6)) == ids(tmp_path)
    assert "OPTIMIZE" in [each["operation"] for each in DeltaTable(str(tmp_path)).history(3)]


def test_a_partition_whose_name_is_longer_in_the_log_than_on_a_disk_is_compacted_too(tmp_path: Path) -> None:
    schema = pa.schema([("id", pa.int64()), ("city", pa.string())])
    model = {"path": tmp_path, "coordinates": False, "partition_by": ["city"], "compact": {"every": 2}}
    sink = DeltaSink(Delta.model_validate(model), "delta", "orders")
    sink.open(schema)

    for number in range(2):
        offset_range = OffsetRange(A, number, number + 1)
        stager = sink.stager()(offset_range)
        stager.write(pa.RecordBatch.from_pylist([{"id": number, "city": "é" * 40}], schema), pa.array([number]))
        sink.prepare([Staged(offset_range, 1, stager.finish())], {A: number or None})
        sink.commit()
        sink.maintain()

    assert (1, 1, [0, 1]) == (operations(tmp_path).count("OPTIMIZE"), files(tmp_path), ids(tmp_path))


def test_results_are_compacted_too(tmp_path: Path) -> None:
    sink = Delta.model_validate({"path": tmp_path, "key": ["id"], "compact": {"every": 2}}).open_merge(
        MergeContext("delta", "totals")
    )

    for number in range(2):
        sink.merge(ds.dataset(pa.table({"id": [number]})), number or None, number + 1)

    assert (1, [0, 1], 2) == (operations(tmp_path).count("OPTIMIZE"), ids(tmp_path), sink.position())


def test_compacting_by_hand_beside_a_writer_loses_and_doubles_nothing(tmp_path: Path) -> None:
    sink = opened(tmp_path, None)
    write(sink, 0)
    done, failed = threading.Event(), list[BaseException]()

    def compact() -> None:
        try:
            while not done.is_set():
                tables.compact(tmp_path, "1h", "1MB")
        except BaseException as error:  # noqa: BLE001 - told in the test
            failed.append(error)

    thread = threading.Thread(target=compact)
    thread.start()
    try:
        for number in range(1, 15):
            write(sink, number)
    finally:
        done.set()
        thread.join()

    assert ([], list(range(15)), {A: 15}) == (failed, ids(tmp_path), sink.positions([A]))


def test_vacuum_deletes_what_no_kept_version_needs_and_what_never_was_part_of_the_table(tmp_path: Path) -> None:
    sink = opened(tmp_path, None)
    for number in range(3):
        write(sink, number)
    tables.compact(tmp_path, "7d")
    (tmp_path / "orphan.parquet").touch()
    old = [*tmp_path.glob("*.parquet"), tmp_path / ".penstock.lock", *(tmp_path / ".staging").rglob("*")]
    for each in old:
        os.utime(each, (1, 1))

    would = tables.vacuum(tmp_path, "1h", dry_run=True)
    before = len(list(tmp_path.glob("*.parquet")))
    went = tables.vacuum(tmp_path, "1h", dry_run=False)

    assert (["orphan.parquet"], 5) == (would, before)
    assert would == went
    assert [0, 1, 2] == ids(tmp_path)
    assert (tmp_path / ".penstock.lock").exists()
    write(sink, 3)
    assert [0, 1, 2, 3] == ids(tmp_path)


@pytest.mark.parametrize("by_hand", ["vacuum", "compact"])
def test_what_is_committed_while_a_vacuum_waits_for_the_lock_is_part_of_the_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, by_hand: str
) -> None:
    sink = opened(tmp_path, None)
    write(sink, 0)

    @contextmanager
    def held_by_the_writer_first(path: Path) -> Iterator[None]:
        write(sink, 1)
        for each in tmp_path.glob("*.parquet"):
            os.utime(each, (1, 1))
        with table_lock(path):
            yield

    monkeypatch.setattr(tables, "table_lock", held_by_the_writer_first)
    if by_hand == "vacuum":
        assert [] == tables.vacuum(tmp_path, "1h", dry_run=False)
    else:
        assert (2, 1) == (tables.compact(tmp_path, "1h").files_before, files(tmp_path))

    assert [0, 1] == ids(tmp_path)


def test_a_file_is_as_old_as_its_commit_however_long_the_batch_has_taken(tmp_path: Path) -> None:
    sink = opened(tmp_path, None)
    offset_range = OffsetRange(A, 0, 1)
    stager = sink.stager()(offset_range)
    stager.write(pa.RecordBatch.from_pylist([{"id": 0, "shop": 0}], SCHEMA), pa.array([0]))
    staged = Staged(offset_range, 1, stager.finish())
    for each in (tmp_path / ".staging").rglob("*.parquet"):
        os.utime(each, (1, 1))
    began_s = (tmp_path / "_delta_log").stat().st_mtime

    sink.prepare([staged], {A: None})
    sink.commit()

    [file] = tmp_path.glob("*.parquet")
    assert began_s <= file.stat().st_mtime


@pytest.mark.parametrize("by_hand", [tables.compact, lambda path, keep: tables.vacuum(path, keep, dry_run=True)])
def test_what_is_no_table_is_told_and_gets_no_lock_file(tmp_path: Path, by_hand: Callable[[Path, str], object]) -> None:
    with pytest.raises(NotFound, match="there is no table at"):
        by_hand(tmp_path, "1h")

    assert [] == list(tmp_path.iterdir())


@pytest.mark.parametrize("keep", ["1m", "soon"])
def test_files_are_kept_for_an_hour_at_least(tmp_path: Path, keep: str) -> None:
    write(opened(tmp_path), 0)

    with pytest.raises(BadInput):
        tables.vacuum(tmp_path, keep, dry_run=True)


def test_a_version_is_brought_back_with_its_positions(tmp_path: Path) -> None:
    sink = opened(tmp_path, None)
    for number in range(3):
        write(sink, number)

    newest = tables.restore(tmp_path, "2")

    assert ("RESTORE", 4, [0, 1]) == (newest.operation, newest.version, ids(tmp_path))
    assert {A: 2} == sink.positions([A])
    write(sink, 2)
    assert [0, 1, 2] == ids(tmp_path)


def test_the_newest_version_is_there_already(tmp_path: Path) -> None:
    sink = opened(tmp_path, None)
    write(sink, 0)

    assert 1 == tables.restore(tmp_path, "1").version
    assert 1 == DeltaTable(str(tmp_path)).version()


def test_a_version_whose_files_are_gone_is_not_brought_back(tmp_path: Path) -> None:
    sink = opened(tmp_path, None)
    for number in range(2):
        write(sink, number)
    tables.compact(tmp_path, "7d")
    DeltaTable(str(tmp_path)).vacuum(0, dry_run=False, enforce_retention_duration=False)

    with pytest.raises(NotFound, match=r"version 2 .* its files were deleted"):
        tables.restore(tmp_path, "2")

    assert [0, 1] == ids(tmp_path)


@pytest.mark.parametrize(
    "partitions", [20, pytest.param(1000, marks=[pytest.mark.soak, pytest.mark.timeout(1200)])], ids=str
)
def test_a_reader_sees_whole_batches_only_while_many_partitions_are_written_and_compacted(
    tmp_path: Path, partitions: int
) -> None:
    sink = opened(tmp_path, 2, partition_by=["shop"])
    write(sink, 0, shops=partitions)
    done, seen, failed = threading.Event(), list[list[int]](), list[BaseException]()

    def read() -> None:
        try:
            while not done.is_set():
                seen.append(ids(tmp_path))
        except BaseException as error:  # noqa: BLE001 - told in the test
            failed.append(error)

    thread = threading.Thread(target=read)
    thread.start()
    try:
        for batch in range(1, 8):
            write(sink, batch * partitions, shops=partitions)
    finally:
        done.set()
        thread.join()

    assert [] == failed
    assert seen
    assert [] == [each for each in seen if list(range(len(each))) != each or len(each) % partitions]
    assert (list(range(8 * partitions)), partitions, {A: 8 * partitions}) == (
        ids(tmp_path),
        files(tmp_path),
        sink.positions([A]),
    )
