"""Compacting an Iceberg table, by its pipeline and by hand: rows and positions stay, and old snapshots for a while."""

import datetime
import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from penstock.errors import BadInput, Conflict, SinkUnavailable
from penstock.sinks import iceberg_commit, iceberg_compaction, iceberg_vacuum, tables

from support.iceberg_driver import SCHEMA, A, B, Driver, loaded
from support.iceberg_tables import iceberg_rows

HOUR_S = 3600


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "tables" / "orders"


def opened(path: Path, every: int | None = 3, schema: pa.Schema = SCHEMA, **keys: Any) -> Driver:
    return Driver(path, schema, compact=None if every is None else {"every": every}, **keys)


def write(driver: Driver, *ids: int) -> None:
    driver.write(*ids)
    driver.sink.maintain()


def ids(path: Path) -> list[int]:
    return sorted(row["id"] for row in iceberg_rows(path))


def operations(path: Path) -> list[str]:
    return [each.operation for each in tables.history(path, 100)][::-1]


def files(path: Path) -> int:
    return len(list(loaded(path).scan().plan_files()))


def make_older(path: Path, hours: int) -> None:
    """Let the table have been written this long ago: its snapshots, and its files."""
    catalog = loaded(path).catalog
    table = loaded(path)
    ms = hours * HOUR_S * 1000
    metadata = table.metadata.model_copy(
        update={
            "snapshots": [
                each.model_copy(update={"timestamp_ms": each.timestamp_ms - ms}) for each in table.metadata.snapshots
            ],
            "snapshot_log": [
                each.model_copy(update={"timestamp_ms": each.timestamp_ms - ms}) for each in table.metadata.snapshot_log
            ],
        }
    )
    Path(table.metadata_location.removeprefix("file://")).write_text(metadata.model_dump_json())
    catalog.close()
    for each in [*path.glob("data/*"), *path.glob("metadata/*")]:
        then = each.stat().st_mtime - hours * HOUR_S
        os.utime(each, (then, then))


def test_the_writer_compacts_after_so_many_batches_and_goes_on(path: Path) -> None:
    driver = opened(path)

    for number in range(7):
        write(driver, number)

    assert [*["APPEND"] * 3, "REPLACE", *["APPEND"] * 3, "REPLACE", "APPEND"] == operations(path)
    assert (list(range(7)), 2, {A: 7}) == (ids(path), files(path), driver.positions)
    assert [] == list(path.glob(".staging/*/*.parquet"))
    assert {A: 7} == Driver(path).positions


def test_batches_are_counted_across_drivers_that_run_one_batch_each(path: Path) -> None:
    for number in range(4):
        driver = opened(path)
        write(driver, number)
        driver.sink.close()

    assert 1 == operations(path).count("REPLACE")
    assert (list(range(4)), 2) == (ids(path), files(path))


def test_partitions_are_compacted_each_on_its_own(path: Path) -> None:
    schema = pa.schema([("id", pa.int64()), ("shop", pa.string()), ("at", pa.timestamp("us", "UTC"))])
    days = [datetime.datetime(1969, 12, 31, tzinfo=datetime.UTC), datetime.datetime(2026, 2, 1, tzinfo=datetime.UTC)]
    driver = opened(path, 3, schema, partition_by=["shop", "days(at)"])
    cells = [(shop, day) for shop in ("a", "", None) for day in [*days, None]]

    for number in range(3):
        driver.write_rows(
            [{"id": number * len(cells) + at, "shop": shop, "at": day} for at, (shop, day) in enumerate(cells)]
        )
        driver.sink.maintain()

    assert (list(range(27)), 9) == (ids(path), files(path))
    assert {(shop, day) for shop, day in cells} == {(row["shop"], row["at"]) for row in iceberg_rows(path)}
    some = loaded(path).scan("shop = 'a' and at >= '2026-01-01T00:00:00+00:00'").to_arrow()
    assert [1, 10, 19] == sorted(some.column("id").to_pylist())


def test_files_of_before_a_column_came_are_joined_with_later_ones(path: Path) -> None:
    Driver(path).write(1)
    later = pa.schema([("amount", pa.float64()), *SCHEMA])
    driver = Driver(path, later)
    driver.write_rows([{"id": 2, "text": "b", "amount": 0.5}])

    done = tables.compact(path, "7d")

    assert (2, 1) == (done.files_before, done.files_after)
    assert [(1, "text 1", None), (2, "b", 0.5)] == sorted(
        (row["id"], row["text"], row["amount"]) for row in iceberg_rows(path)
    )
    driver.write_rows([{"id": 3, "text": "c", "amount": 1.5}])
    assert [1, 2, 3] == ids(path)


def test_rows_that_others_have_deleted_stay_deleted(path: Path) -> None:
    driver = Driver(path)
    driver.write(1, 2)
    driver.write(3)
    loaded(path).delete("id = 2")

    tables.compact(path, "7d")

    assert ([1, 3], 1, {A: 3}) == (ids(path), files(path), driver.positions)


def test_what_is_large_enough_is_left_alone(path: Path) -> None:
    driver = Driver(path)
    for number in range(3):
        driver.write(number)
    before = loaded(path).metadata.current_snapshot_id

    table = tables.open_table(path)
    table.compact(1_000)

    assert (3, before) == (table.files(), loaded(path).metadata.current_snapshot_id)


def test_a_table_that_is_rolled_back_to_before_a_compaction_has_its_positions_then(path: Path) -> None:
    driver = Driver(path)
    driver.write(1)
    before = loaded(path).metadata.current_snapshot_id
    driver.write(2)
    tables.compact(path, "7d")

    tables.restore(path, str(before))

    assert ({A: 1}, [1]) == (driver.positions, ids(path))
    driver.write(2)
    assert [1, 2] == ids(path)


def test_a_compaction_that_another_writer_overtakes_leaves_all_as_it_was(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    driver = opened(path, 2)
    write(driver, 1)
    driver.write(2)
    commit = iceberg_commit.Change.commit

    def overtaken(change: Any) -> Any:
        loaded(path).append(pa.table({"id": [7], "text": ["other"]}, SCHEMA))
        return commit(change)

    with monkeypatch.context() as busy:
        busy.setattr(iceberg_commit.Change, "commit", overtaken)
        with pytest.raises(SinkUnavailable, match=r"changed by another writer .* Rows and positions are as they were"):
            driver.sink.maintain()
    left = sorted(each.name for each in path.glob("data/compact-*"))
    write(driver, 3)

    assert ([], [1, 2, 3, 7], {A: 3}) == (left, ids(path), driver.positions)


def test_a_table_that_others_make_one_which_cannot_be_vacuumed_takes_events_all_the_same(path: Path) -> None:
    driver = opened(path, 2)
    write(driver, 1)
    pq.write_table(pa.table({"id": [7], "text": ["other"]}, SCHEMA), path / "elsewhere.parquet")
    loaded(path).add_files([f"file://{path}/elsewhere.parquet"])

    with pytest.raises(SinkUnavailable, match=r"elsewhere.parquet, which is not in its folder. Nothing was deleted"):
        write(driver, 2)
    write(driver, 3)

    assert ([1, 2, 3, 7], {A: 3}) == (ids(path), driver.positions)


def test_files_of_a_compaction_without_an_answer_go_after_a_later_commit(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    driver = opened(path, 2)
    write(driver, 1)
    driver.write(2)

    def unanswered(_change: Any) -> Any:
        raise SinkUnavailable("the catalog does not answer")

    with monkeypatch.context() as away:
        away.setattr(iceberg_commit.Change, "commit", unanswered)
        with pytest.raises(SinkUnavailable):
            driver.sink.maintain()
    left = list(path.glob("data/compact-*"))
    driver.sink.close()
    Driver(path).write(3)

    assert (1, []) == (len(left), list(path.glob("data/compact-*")))
    assert [1, 2, 3] == ids(path)


def test_compacting_by_hand_beside_a_writer_loses_and_doubles_nothing(path: Path) -> None:
    driver = Driver(path)
    driver.write(0)
    done, failed = threading.Event(), list[BaseException]()

    def compact() -> None:
        try:
            while not done.is_set():
                tables.compact(path, "1h")
        except BaseException as error:  # noqa: BLE001 - told in the test
            failed.append(error)

    thread = threading.Thread(target=compact)
    thread.start()
    try:
        for number in range(1, 12):
            driver.write(number)
    finally:
        done.set()
        thread.join()

    assert ([], list(range(12)), {A: 12}) == (failed, ids(path), driver.positions)


def test_vacuum_deletes_what_no_kept_snapshot_needs_and_what_never_was_part_of_the_table(path: Path) -> None:
    driver = Driver(path)
    driver.write(0)
    driver.write(1, partition=B)
    tables.compact(path, "7d")
    make_older(path, 3)
    driver.write(2)
    for name in ("data/orphan.parquet", "data/README", "metadata/orphan.avro"):
        (path / name).touch()
        os.utime(path / name, (1, 1))
    (path / "data" / "young.parquet").touch()
    before = sorted(path.glob("data/*.parquet"))

    would = tables.vacuum(path, "1h", dry_run=True)
    assert before == sorted(path.glob("data/*.parquet"))
    went = tables.vacuum(path, "1h", dry_run=False)

    # The first two batches' own files, and the orphan, are gone; a snapshot that has just been replaced is kept.
    assert would == went
    assert 2 + 1 == len([each for each in went if each.startswith("data/")])
    assert {"README", "young.parquet"} <= {each.name for each in path.glob("data/*")}
    assert ([0, 1, 2], {A: 2, B: 1}) == (ids(path), driver.positions)
    assert ["REPLACE", "APPEND"] == operations(path)[-2:]
    driver.write(3)
    assert ([0, 1, 2, 3], {A: 3, B: 1}) == (ids(path), Driver(path).positions)


def test_of_a_table_that_forbids_it_neither_snapshots_nor_files_go(path: Path) -> None:
    driver = opened(path, 3)
    write(driver, 1)
    write(driver, 2)
    with loaded(path).transaction() as transaction:
        transaction.set_properties({"gc.enabled": "FALSE"})
    make_older(path, 30 * 24)
    before = {*path.glob("data/*.parquet")}
    write(driver, 3)
    write(driver, 4)

    with pytest.raises(Conflict, match=r"`gc.enabled: false`: other tables may use its files. Nothing was deleted"):
        tables.vacuum(path, "1h", dry_run=False)

    assert before < {*path.glob("data/*.parquet")}
    assert ["APPEND", "APPEND", "APPEND", "REPLACE", "APPEND"] == operations(path)
    assert ([1, 2, 3, 4], {A: 4}) == (ids(path), driver.positions)


def test_a_file_that_somebody_deletes_while_a_vacuum_looks_is_no_reason_to_stop(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Driver(path).write(1)
    there = iceberg_vacuum._files

    def deleted_meanwhile(folder: Path) -> Iterator[Path]:
        yield from there(folder)
        yield folder / "metadata" / "00000-of-before.metadata.json"

    monkeypatch.setattr(iceberg_vacuum, "_files", deleted_meanwhile)

    assert [] == tables.vacuum(path, "1h", dry_run=False)


def test_positions_survive_that_vacuum_expires_the_snapshot_that_told_them(path: Path) -> None:
    driver = Driver(path)
    driver.write(1)
    for number in (7, 8):
        loaded(path).append(pa.table({"id": [number], "text": [""]}, SCHEMA))
    make_older(path, 3)
    loaded(path).append(pa.table({"id": [9], "text": [""]}, SCHEMA))
    tables.vacuum(path, "1h", dry_run=False)
    newest = Path(loaded(path).metadata_location.removeprefix("file://"))
    for each in path.glob("metadata/*.metadata.json"):
        if each != newest:
            each.unlink()

    assert {A: 1} == driver.positions
    driver.write(2)
    assert [1, 2, 7, 8, 9] == ids(path)


def test_a_table_whose_files_are_not_in_its_folder_is_not_vacuumed(path: Path) -> None:
    Driver(path).write(1)
    [data] = path.glob("data/*.parquet")
    data.rename(path / data.name)
    (path / "data" / "orphan.parquet").touch()
    os.utime(path / "data" / "orphan.parquet", (1, 1))

    with pytest.raises(Conflict, match=r"names \S+, which is not in its folder. Nothing was deleted"):
        tables.vacuum(path, "1h", dry_run=False)
    assert (path / "data" / "orphan.parquet").exists()


@pytest.mark.parametrize("keep", ["1m", "soon"])
def test_files_are_kept_for_an_hour_at_least(path: Path, keep: str) -> None:
    Driver(path).write(0)

    with pytest.raises(BadInput):
        tables.vacuum(path, keep, dry_run=True)


@pytest.mark.parametrize(
    "partitions", [20, pytest.param(1000, marks=[pytest.mark.soak, pytest.mark.timeout(1200)])], ids=str
)
def test_a_reader_sees_whole_batches_only_while_many_partitions_are_written_and_compacted(
    path: Path, partitions: int
) -> None:
    driver = opened(path, 2, partition_by=["id"])
    write(driver, *range(partitions))
    done, seen, failed = threading.Event(), list[int](), list[BaseException]()

    def read() -> None:
        try:
            while not done.is_set():
                seen.append(len(ids(path)))
        except BaseException as error:  # noqa: BLE001 - told in the test
            failed.append(error)

    thread = threading.Thread(target=read)
    thread.start()
    try:
        for _ in range(3):
            write(driver, *range(partitions))
    finally:
        done.set()
        thread.join()

    assert ([], []) == (failed, [each for each in seen if each % partitions])
    assert seen
    assert (4 * partitions, partitions) == (len(ids(path)), files(path))


def test_small_files_are_packed_up_to_the_size() -> None:
    class Task:
        def __init__(self, size: int) -> None:
            self.file = self
            self.file_size_in_bytes = size

    packed = iceberg_compaction._packed([Task(each) for each in (60, 30, 20, 90, 5)], 100)

    assert [[60, 30], [20], [90, 5]] == [[each.file.file_size_in_bytes for each in some] for some in packed]
