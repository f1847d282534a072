"""Rows of the past that are replaced in a real PostgreSQL, batch by batch: what others see in between, and after."""

from dataclasses import replace
from typing import Any

import pytest

from penstock.errors import Conflict
from penstock.lab.bench.throwaway_postgres import RunningPostgres
from penstock.record.positions import OffsetRange, SourcePartition

from support.postgres_driver import TP, Driver, Row, ask

REPLAY = SourcePartition("orders", "range-of-orders", 0)
ROWS = "SELECT id, note, _offset FROM orders ORDER BY id"


def land(driver: Driver, start: int, end: int, *rows: tuple[Row, int]) -> None:
    """Land what the records from `start` to `end` give now, each row with the offset of its record."""
    staged = driver.stage([row for row, _ in rows], start, offsets=[offset for _, offset in rows])
    found = driver.sink.positions([REPLAY]) or {}
    assert [] == driver.prepare(
        replace(staged, offset_range=OffsetRange(REPLAY, start, end)), expected={REPLAY: found.get(REPLAY)}
    )
    driver.sink.commit()


def test_a_replay_that_is_half_done_leaves_no_key_without_a_row_and_ends_with_what_the_records_give(
    postgres: RunningPostgres,
) -> None:
    server = postgres.database()
    with Driver(server, mode="upsert", key=["id"]) as live:
        live.write([(1, "old"), (2, "old"), (1, "old"), (3, "old"), (4, "later")])

    with Driver(server, mode="upsert", key=["id"]) as replay:
        replay.sink.replace({REPLAY: [OffsetRange(TP, 0, 4)]})
        land(replay, 0, 2, ((1, "new"), 0), ((2, "new"), 1))
        half = ask(server, ROWS)
        # The record at offset 2 gives no row any more: of its key, the one at offset 0 is what is left.
        land(replay, 2, 4, ((3, "new"), 3))

    assert [(1, "new", 0), (2, "new", 1), (3, "old", 3), (4, "later", 4)] == half
    assert [(1, "new", 0), (2, "new", 1), (3, "new", 3), (4, "later", 4)] == ask(server, ROWS)


def test_a_table_whose_last_row_was_replaced_by_none_is_still_known(postgres: RunningPostgres) -> None:
    server = postgres.database()
    with Driver(server) as live:
        live.write([(1, "old"), (2, "old"), (3, "old")])
    with Driver(server) as replay:
        replay.sink.replace({REPLAY: [OffsetRange(TP, 0, 3)]})
        land(replay, 0, 3, ((1, "new"), 0))
    with postgres.connect(server.database) as connection:
        connection.autocommit = True
        connection.execute("VACUUM FULL orders")

    with Driver(server) as live:
        found = live.positions

    assert {TP: 3} == found
    assert [(1, "new", 0)] == ask(server, ROWS)


@pytest.mark.parametrize("change", ["TRUNCATE orders", "DROP TABLE orders", "DELETE FROM penstock_positions"])
def test_nothing_is_replaced_in_a_table_that_the_pipeline_will_fill_again(
    postgres: RunningPostgres, change: str
) -> None:
    server = postgres.database()
    with Driver(server) as live:
        live.write([(1, "old"), (2, "old"), (3, "old")])
    ask(server, change)

    with Driver(server) as replay:
        replay.sink.replace({REPLAY: [OffsetRange(TP, 0, 3)]})
        with pytest.raises(Conflict, match="sink 'postgres' has no position there"):
            replay.sink.positions([REPLAY])


def test_rows_of_records_that_are_not_read_again_stay(postgres: RunningPostgres) -> None:
    server = postgres.database()
    upsert: dict[str, Any] = {"mode": "upsert", "key": ["id"], "table": "newest", "name": "newest"}
    for spec in ({}, upsert):
        with Driver(server, **spec) as live:
            live.write([(1, "old"), (2, "old"), (3, "old"), (1, "old"), (5, "old")])

        with Driver(server, **spec) as replay:
            replay.sink.replace({REPLAY: [OffsetRange(TP, 0, 2), OffsetRange(TP, 4, 5)]})
            land(replay, 0, 3, ((1, "new"), 0), ((2, "new"), 1))
            land(replay, 3, 5, ((5, "new"), 4))

    kept = [(1, "new", 0), (1, "old", 3), (2, "new", 1), (3, "old", 2), (5, "new", 4)]
    assert kept == ask(server, "SELECT id, note, _offset FROM orders ORDER BY id, _offset")
    newest = [(1, "old", 3), (2, "new", 1), (3, "old", 2), (5, "new", 4)]
    assert newest == ask(server, "SELECT id, note, _offset FROM newest ORDER BY id")


def test_rows_of_the_same_records_that_another_pipeline_has_written_there_are_not_taken_out(
    postgres: RunningPostgres,
) -> None:
    server = postgres.database()
    with Driver(server) as live, Driver(server, pipeline="large-orders") as other:
        live.write([(1, "old"), (2, "old"), (3, "old"), (4, "old")])
        other.write([(1, "theirs"), (2, "theirs")])

    with Driver(server) as replay:
        replay.sink.replace({REPLAY: [OffsetRange(TP, 1, 4)]})
        with pytest.raises(Conflict, match="sink 'postgres' of pipeline 'large-orders' has written rows of orders/0"):
            replay.sink.positions([REPLAY])
    with Driver(server) as behind:
        behind.sink.replace({REPLAY: [OffsetRange(TP, 2, 4)]})
        land(behind, 2, 4, ((3, "new"), 2))

    kept = [(1, "old", 0), (1, "theirs", 0), (2, "old", 1), (2, "theirs", 1), (3, "new", 2)]
    assert kept == ask(server, "SELECT id, note, _offset FROM orders ORDER BY id, note")
