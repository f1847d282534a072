import datetime
import shutil
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from penstock.errors import BatchAborted, Conflict, PenstockError
from penstock.record.positions import OffsetRange, SourcePartition
from penstock.record.schema import parse
from penstock.sinks.delta import Delta, DeltaSink
from penstock.sinks.delta_table import table_lock
from penstock.sinks.sink import Recovery, Staged

from support.delta_driver import SCHEMA, A, B, commit, ids, opened, staged, version


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "tables" / "orders"


def staged_file(table: Path, name: str) -> Path:
    """Find a file that a task has staged."""
    (found,) = (table / ".staging").glob(f"*/{name}")
    return found


def left_aside(table: Path) -> list[str]:
    return [path.name for path in (table / ".staging").glob("*/*") if path.name != "lock"]


def test_a_new_table_is_empty_has_the_columns_and_no_positions(path: Path) -> None:
    sink = opened(path)

    table = DeltaTable(str(path)).to_pyarrow_table()
    assert (["id", "text"], 0, {}) == (table.column_names, table.num_rows, sink.positions([A, B]))


def test_what_was_staged_is_not_there_before_the_commit(path: Path) -> None:
    sink = opened(path)

    sink.prepare([staged(sink, OffsetRange(A, 0, 3), 1, 2)], {A: None})

    assert ([], {}, 0) == (ids(path), sink.positions([A]), version(path))


def test_a_commit_makes_rows_and_positions_visible_in_one_version(path: Path) -> None:
    sink = opened(path)

    commit(sink, {A: None, B: None}, staged(sink, OffsetRange(A, 0, 3), 1, 2), staged(sink, OffsetRange(B, 4, 9), 7))

    assert ([1, 2, 7], 1) == (ids(path), version(path))
    assert {A: 3, B: 9} == opened(path).positions([A, B])


def test_an_offset_range_without_rows_moves_the_position_all_the_same(path: Path) -> None:
    sink = opened(path)

    commit(sink, {A: None}, staged(sink, OffsetRange(A, 0, 5)))

    assert ([], {A: 5}) == (ids(path), sink.positions([A]))
    assert [] == list(path.glob("*.parquet"))


def test_positions_move_on_from_commit_to_commit(path: Path) -> None:
    sink = opened(path)
    for number in range(12):
        commit(sink, {A: number or None}, staged(sink, OffsetRange(A, number, number + 1), number))

    assert (list(range(12)), {A: 12}) == (ids(path), opened(path).positions([A]))


def test_positions_outlive_a_checkpoint_and_a_compaction_of_the_table(path: Path) -> None:
    sink = opened(path)
    for number in range(3):
        commit(sink, {A: number or None}, staged(sink, OffsetRange(A, number, number + 1), number))

    table = DeltaTable(str(path))
    with table_lock(path):
        table.optimize.compact()
    table.create_checkpoint()
    table.cleanup_metadata()

    assert {A: 3} == sink.positions([A]) == opened(path).positions([A])
    commit(sink, {A: 3}, staged(sink, OffsetRange(A, 3, 4), 3))
    assert [0, 1, 2, 3] == ids(path)


def test_what_others_commit_is_seen_at_once_also_where_the_log_was_cleaned_up_meanwhile(path: Path) -> None:
    sink, other = opened(path), opened(path)
    commit(sink, {A: None}, staged(sink, OffsetRange(A, 0, 1), 0))
    seen = [sink.positions([A, B])]
    commit(other, {B: None}, staged(other, OffsetRange(B, 0, 3), 1))
    seen.append(sink.positions([A, B]))
    following = version(path) + 1
    for number in range(1, 4):
        commit(other, {A: number}, staged(other, OffsetRange(A, number, number + 1), number + 1))
    DeltaTable(str(path)).create_checkpoint()
    (path / "_delta_log" / f"{following:020d}.json").unlink()
    seen.append(sink.positions([A, B]))

    assert [{A: 1}, {A: 1, B: 3}, {A: 4, B: 3}] == seen


def test_a_topic_that_was_made_again_has_a_position_of_its_own(path: Path) -> None:
    sink = opened(path)

    commit(sink, {A: None}, staged(sink, OffsetRange(A, 0, 3), 1))

    assert {A: 3} == sink.positions([A, SourcePartition("orders", "Zz", 0), SourcePartition("orders", "Ab-_9", 10)])


EVERYTHING = parse(
    "a tinyint, b smallint, c int, d bigint, e float, f double, g string, h binary, i boolean, j date, k timestamp,"
    " l timestamp_ntz, m decimal(10,2), n array<int>, o map<string, int>, p struct<x: int, y: array<struct<z: date>>>,"
    " `q r` int, `s-t` string, u string NOT NULL"
)
ROW: dict[str, Any] = {
    "a": -128,
    "b": 2**15 - 1,
    "c": 3,
    "d": 2**63 - 1,
    "e": 1.5,
    "f": 0.1,
    "g": "ü\x00😀",
    "h": b"\xff\x00",
    "i": True,
    "j": datetime.date(1, 1, 1),
    "k": datetime.datetime(9999, 12, 31, 23, 59, 59, 999999, tzinfo=datetime.UTC),
    "l": datetime.datetime(2026, 1, 31, 12),  # noqa: DTZ001 - that is the point
    "m": Decimal("12345678.90"),
    "n": [1, None],
    "o": {"k": 1},
    "p": {"x": 1, "y": [{"z": datetime.date(2026, 1, 31)}, None]},
    "q r": 1,
    "s-t": "u",
    "u": "v",
}


def test_every_type_is_written_and_read_back_the_same(path: Path) -> None:
    sink = opened(path, schema=EVERYTHING)
    empty = dict.fromkeys(EVERYTHING.names) | {"u": ""}
    stager = sink.stager()(OffsetRange(A, 0, 2))

    stager.write(pa.RecordBatch.from_pylist([ROW, empty], EVERYTHING), pa.array([0, 1]))
    commit(sink, {A: None}, Staged(OffsetRange(A, 0, 2), 2, stager.finish()))

    actual = DeltaTable(str(path)).to_pyarrow_table().to_pylist(maps_as_pydicts="strict")
    assert [ROW, empty] == actual


def test_a_table_of_the_same_columns_is_opened_again(path: Path) -> None:
    opened(path, schema=EVERYTHING)

    assert {} == opened(path, schema=EVERYTHING).positions([A])


@pytest.mark.parametrize(
    "schema",
    [
        pytest.param("id string, text string", id="another type"),
        pytest.param("id decimal(20,0), text string", id="a wider type"),
        pytest.param("id bigint", id="a column less"),
        pytest.param("id bigint, text string, Text string", id="almost the same name"),
        pytest.param("id bigint, Text string", id="another name"),
    ],
)
def test_a_table_of_other_columns_is_left_alone(path: Path, schema: str) -> None:
    opened(path)

    with pytest.raises(Conflict, match=r"has the column (id int64|'text')"):
        opened(path, schema=pa.schema([field for each in schema.split(", ") for field in parse(each)]))

    assert 0 == version(path)


@pytest.mark.parametrize("kind", [pa.duration("us"), pa.time64("us"), pa.month_day_nano_interval()])
def test_a_type_that_delta_does_not_have_is_refused_with_its_column(path: Path, kind: pa.DataType) -> None:
    with pytest.raises(PenstockError, match="took"):
        opened(path, schema=pa.schema([("id", pa.int64()), ("took", kind)]))


def test_an_iceberg_table_in_its_place_is_left_alone(path: Path) -> None:
    (path / "metadata").mkdir(parents=True)
    (path / "metadata" / "00000-5fba94ed.metadata.json").touch()
    sink = DeltaSink(Delta(path=path), "delta", "combat")

    with pytest.raises(Conflict, match="is an Iceberg table"):
        sink.require_fitting(lambda: SCHEMA)
    with pytest.raises(Conflict, match="is an Iceberg table"):
        sink.open(SCHEMA)

    assert ["metadata"] == [each.name for each in path.iterdir()]


def test_a_file_in_place_of_the_folder_is_said_in_words(tmp_path: Path) -> None:
    (tmp_path / "file").touch()

    with pytest.raises(PenstockError):
        opened(tmp_path / "file")


def test_a_staged_file_that_is_gone_is_work_lost_and_the_table_stays_readable(path: Path) -> None:
    sink = opened(path)
    part = staged(sink, OffsetRange(A, 0, 3), 1)
    staged_file(path, part.detail["files"][0]["file"]).unlink()
    sink.prepare([part], {A: None})

    with pytest.raises(BatchAborted):
        sink.commit()

    assert ([], {}) == (ids(path), sink.positions([A]))


@pytest.mark.parametrize("made_again", [False, True])
def test_a_table_that_was_dropped_while_the_driver_ran_is_said_in_words(path: Path, made_again: bool) -> None:  # noqa: FBT001
    sink = opened(path)
    commit(sink, {A: None}, staged(sink, OffsetRange(A, 0, 3), 1))
    commit(sink, {A: 3}, staged(sink, OffsetRange(A, 3, 4), 3))
    shutil.rmtree(path)
    if made_again:
        opened(path)

    with pytest.raises(PenstockError):
        sink.positions([A])
    with pytest.raises(PenstockError):
        commit(sink, {A: 4})


def test_many_chunks_become_one_file_and_one_row_group(path: Path) -> None:
    sink = opened(path)

    part = staged(sink, OffsetRange(A, 0, 50), *range(50))

    metadata = pa.parquet.read_metadata(staged_file(path, part.detail["files"][0]["file"]))
    assert (50, 1) == (metadata.num_rows, metadata.num_row_groups)
    assert staged_file(path, part.detail["files"][0]["file"]).stat().st_size == part.detail["files"][0]["bytes"]


def test_the_number_of_rows_is_in_the_log_so_that_counting_reads_no_data(path: Path) -> None:
    sink = opened(path)

    commit(sink, {A: None}, staged(sink, OffsetRange(A, 0, 3), 1, 2))

    actions = pa.table(DeltaTable(str(path)).get_add_actions(flatten=True))
    assert [2] == actions.column("num_records").to_pylist()


def test_a_copy_without_coordinates_is_not_filled_with_the_same_rows_again(path: Path) -> None:
    sink = opened(path)
    commit(sink, {A: None}, staged(sink, OffsetRange(A, 0, 3), 1, 2, 3))
    again = SourcePartition("orders", "recreated", 0)
    assert not sink.recover([A, B])  # B has no record yet
    assert not sink.recover([again], Recovery({A: 3}))  # the topic was recreated, and the former checkpoint knows that
    sink.close()
    rows = DeltaTable(str(path)).to_pyarrow_table()
    shutil.rmtree(path)
    write_deltalake(str(path), rows)
    copy = opened(path)

    with pytest.raises(Conflict, match=r"has rows and no position of this pipeline.*rebuild combat --may-repeat"):
        copy.recover([A, B], Recovery({A: 3}))

    assert not copy.recover([A, B], Recovery(may_repeat=True))
    DeltaTable(str(path)).delete()
    assert not copy.recover([A, B])
