from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from penstock.errors import PipelineHalted
from penstock.record.columns import CHANGE
from penstock.record.positions import OffsetRange, SourcePartition
from penstock.sinks.sink import Refusal, Staged

from support.changes import (
    PARTITION,
    SCHEMA,
    TRUNCATE,
    WITH_ANOTHER_KEY,
    WITH_UNKNOWN,
    Row,
    Table,
    batch,
    delete,
    moved,
    put,
    random_changes,
    write_changes,
)
from support.folder_tables import KINDS, rows_of, sink_of
from support.iceberg_driver import loaded

OTHER = SourcePartition("orders", "id-of-orders", 1)


class Mirror:
    """A table that batches of changes are written to, as a driver does it."""

    def __init__(self, kind: str, path: Path, schema: pa.Schema = SCHEMA) -> None:
        self.kind = kind
        self.path = path
        self.sink = sink_of(kind, path, "id", "part")
        self.sink.open(schema)

    def write(self, rows: list[Row], start: int, source_partition: SourcePartition = PARTITION) -> list[Refusal]:
        return write_changes(self.sink, rows, start, source_partition)

    @property
    def table(self) -> Table:
        rows = rows_of(self.kind, self.path)
        found = {(row["id"], row["part"]): (row["doc"], row["n"]) for row in rows}
        assert len(rows) == len(found)
        return found

    @property
    def position(self) -> int | None:
        return (self.sink.positions([PARTITION]) or {}).get(PARTITION)


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def mirror(kind: str, tmp_path: Path, request: pytest.FixtureRequest) -> Callable[[], Mirror]:
    def opened() -> Mirror:
        made = Mirror(kind, tmp_path / "table")
        request.addfinalizer(made.sink.close)
        return made

    return opened


@pytest.mark.parametrize("seed", range(2))
def test_after_each_batch_of_random_changes_the_table_is_the_sources(mirror: Callable[[], Mirror], seed: int) -> None:
    made, start = mirror(), 0
    for rows, expected in random_changes(seed):
        assert [] == made.write(rows, start)
        start += len(rows)

        assert (expected, start) == (made.table, made.position)


def test_the_columns_of_a_change_are_none_of_the_tables(mirror: Callable[[], Mirror]) -> None:
    made = mirror()
    made.write([put(1, "a", 1)], 0)

    assert [name for name in SCHEMA.names if name != CHANGE.name] == list(rows_of(made.kind, made.path)[0])


def test_a_batch_that_changes_nothing_still_moves_the_position(mirror: Callable[[], Mirror]) -> None:
    made = mirror()
    made.write([delete(1)], 0)
    made.write([TRUNCATE], 1)

    assert (2, {}) == (made.position, made.table)


def test_changes_that_come_again_do_not_turn_a_row_back(mirror: Callable[[], Mirror]) -> None:
    made = mirror()
    made.write([put(1, "old", 1), put(2, "b", 1), put(1, "new", 2)], 0)
    older = sink_of(made.kind, made.path, "id", "part", name="second")
    older.open(SCHEMA)
    stager = older.stager()(OffsetRange(PARTITION, 0, 1))
    stager.write(batch([put(1, "old", 1)], 0), pa.array([0]))
    older.prepare([Staged(OffsetRange(PARTITION, 0, 1), 1, stager.finish())], {PARTITION: None})
    older.commit()
    older.close()

    assert {(1, "x"): ("new", 2), (2, "x"): ("b", 1)} == made.table


def test_rows_that_somebody_else_has_put_in_give_way_to_changes(mirror: Callable[[], Mirror]) -> None:
    made = mirror()
    made.write([put(7, "x", 1)], 0)
    by_hand = [{"id": number, "part": "x", "doc": "by hand", "n": 0} for number in (1, 2, 3)]
    others = pa.Table.from_pylist(by_hand, pa.schema([each for each in SCHEMA if each.name != CHANGE.name]))
    if made.kind == "delta":
        write_deltalake(str(made.path), others, mode="append")
    else:
        loaded(made.path).append(others)

    made.write([put(1, "new", 1), delete(2)], 1)

    assert {1: "new", 3: "by hand", 7: "x"} == {key[0]: row[0] for key, row in made.table.items()}


def test_a_value_that_nobody_knows_is_refused_for_every_change_that_lacks_it(mirror: Callable[[], Mirror]) -> None:
    made = mirror()
    made.write([put(1, "a", 1)], 0)

    refusals = made.write([put(1, None, 2, "doc"), put(2, None, 1, "doc"), put(2, None, 2, "doc")], 1)

    assert [2, 3] == [each.offset for each in refusals]
    assert "doc: the change leaves the value out" in refusals[0].error["message"]


@pytest.mark.parametrize("case", WITH_UNKNOWN)
def test_a_change_is_refused_if_what_it_leaves_out_is_neither_in_the_batch_nor_in_the_table(
    mirror: Callable[[], Mirror], case: str
) -> None:
    there, rows, expected = WITH_UNKNOWN[case]
    made = mirror()
    if there:
        made.write(there, 0)

    refusals = made.write(rows, len(there))

    assert expected == [each.offset for each in refusals]
    assert all("REPLICA IDENTITY FULL" in each.error["message"] for each in refusals)


@pytest.mark.parametrize("case", WITH_ANOTHER_KEY)
def test_a_row_that_gets_another_key_keeps_the_large_values_that_the_change_leaves_out(
    mirror: Callable[[], Mirror], case: str
) -> None:
    there, rows, expected = WITH_ANOTHER_KEY[case]
    made = mirror()
    if there:
        made.write(there, 0)

    refusals = made.write(rows, len(there))

    assert expected == ([each.offset for each in refusals] if refusals else made.table)


def test_a_key_of_text_finds_the_values_that_changes_leave_out(kind: str, tmp_path: Path) -> None:
    sink = sink_of(kind, tmp_path / "table", "part")
    sink.open(SCHEMA)
    batches = [
        [put(1, "a", 1, part="x"), put(2, "b", 1, part="y"), put(3, "c", 1, part="z")],
        [put(1, None, 2, "doc", part="x"), delete(2, part="y"), moved(2, None, 2, "doc", part="w")],
        [put(1, None, 3, "doc", part="x"), put(2, None, 3, "doc", part="w")],
    ]

    for start, rows in zip((0, 3, 6), batches, strict=True):
        assert [] == write_changes(sink, rows, start, PARTITION)

    sink.close()
    found = {row["part"]: (row["doc"], row["n"]) for row in rows_of(kind, tmp_path / "table")}
    assert {"x": ("a", 3), "w": ("b", 3), "z": ("c", 1)} == found


def test_a_truncate_leaves_rows_of_a_topic_that_was_recreated(mirror: Callable[[], Mirror]) -> None:
    made, recreated = mirror(), SourcePartition("orders", "another-id", 0)
    made.write([put(1, "a", 1), put(2, "b", 1)], 0)
    made.write([put(3, "c", 1)], 0, recreated)
    made.write([put(4, "d", 1), put(5, "e", 1)], 2)

    made.write([TRUNCATE, put(6, "f", 1)], 4)

    assert {(3, "x"), (6, "x")} == made.table.keys()


def test_a_key_that_changed_in_another_partition_is_no_origin(mirror: Callable[[], Mirror]) -> None:
    made = mirror()
    made.write([put(1, "a", 1)], 0)
    made.write([delete(1)], 1, OTHER)

    assert [2] == [each.offset for each in made.write([moved(2, None, 5, "doc")], 2)]


def test_changed_keys_that_are_read_again_from_the_start_leave_the_table_as_it_is(
    mirror: Callable[[], Mirror],
) -> None:
    made = mirror()
    rows = [put(1, "a", 1), delete(1), moved(2, None, 5, "doc"), put(1, "b", 1), put(2, None, 6, "doc")]
    made.write(rows, 0)
    before = made.table
    again = sink_of(made.kind, made.path, "id", "part", name="second")
    again.open(SCHEMA)

    for start, end in ((0, 1), (1, 3), (3, 5)):
        assert [] == write_changes(again, rows[start:end], start, PARTITION)

    again.close()
    assert {(1, "x"): ("b", 1), (2, "x"): ("a", 6)} == before == made.table


def test_an_older_change_is_not_refused_for_what_a_newer_one_has_made_null(mirror: Callable[[], Mirror]) -> None:
    made = mirror()
    made.write([put(1, "a", 1), put(1, None, 2, "doc"), put(1, None, 3)], 0)
    again = sink_of(made.kind, made.path, "id", "part", name="second")
    again.open(SCHEMA)

    assert [] == write_changes(again, [put(1, None, 2, "doc")], 1, PARTITION)
    again.close()
    assert {(1, "x"): (None, 3)} == made.table


def test_a_column_that_was_not_mirrored_is_not_taken_for_null(kind: str, tmp_path: Path) -> None:
    without = pa.schema([each for each in SCHEMA if each.name != "doc"])
    first = sink_of(kind, tmp_path / "table", "id", "part")
    first.open(without)
    stager = first.stager()(OffsetRange(PARTITION, 0, 1))
    stager.write(batch([put(1, "a", 1)], 0).select(without.names), pa.array([0]))
    first.prepare([Staged(OffsetRange(PARTITION, 0, 1), 1, stager.finish())], {PARTITION: None})
    first.commit()
    first.close()
    made = Mirror(kind, tmp_path / "table")

    refusals = made.write([put(1, None, 2, "doc")], 1)

    made.sink.close()
    assert [1] == [each.offset for each in refusals]


def test_a_truncate_in_a_topic_of_several_partitions_stops_the_pipeline(mirror: Callable[[], Mirror]) -> None:
    made = mirror()
    made.write([put(1, "a", 1)], 0)
    made.write([put(2, "b", 1)], 0, OTHER)

    with pytest.raises(PipelineHalted, match="its topic has several partitions"):
        made.write([TRUNCATE], 1)

    assert {(1, "x"), (2, "x")} == made.table.keys()


def test_a_new_column_comes_with_the_first_rows_that_have_it(kind: str, tmp_path: Path) -> None:
    without = pa.schema([each for each in SCHEMA if each.name != "n"])
    first = sink_of(kind, tmp_path / "table", "id", "part")
    first.open(without)
    stager = first.stager()(OffsetRange(PARTITION, 0, 2))
    stager.write(batch([put(1, "a", 1), put(3, "c", 1)], 0).select(without.names), pa.array([0, 1]))
    first.prepare([Staged(OffsetRange(PARTITION, 0, 2), 2, stager.finish())], {PARTITION: None})
    first.commit()
    first.close()
    made = Mirror(kind, tmp_path / "table")
    made.write([put(2, "b", 5)], 2)
    made.write([put(1, None, 2, "doc")], 3)
    made.sink.close()

    assert {(1, "x"): ("a", 2), (2, "x"): ("b", 5), (3, "x"): ("c", None)} == made.table


@pytest.mark.parametrize("added", [pa.timestamp("us"), pa.list_(pa.timestamp("us")), pa.timestamp("us", tz="UTC")])
def test_a_new_column_may_be_a_time_with_a_zone_or_without(kind: str, tmp_path: Path, added: pa.DataType) -> None:
    made = Mirror(kind, tmp_path / "table")
    made.write([put(1, "a", 1)], 0)
    made.sink.close()
    schema = SCHEMA.insert(4, pa.field("seen", added))
    second = sink_of(kind, tmp_path / "table", "id", "part")
    second.open(schema)
    rows = batch([put(2, "b", 1)], 1).add_column(4, schema.field(4), pa.nulls(1, added))
    stager = second.stager()(OffsetRange(PARTITION, 1, 2))
    assert [] == stager.write(rows, pa.array([1]))
    second.prepare([Staged(OffsetRange(PARTITION, 1, 2), 1, stager.finish())], {PARTITION: 1})
    second.commit()
    second.close()

    assert [(1, None), (2, None)] == sorted((row["id"], row["seen"]) for row in rows_of(kind, made.path))
