"""Columns that come later to a PostgreSQL table: added in the transaction of the first rows that have them."""

from typing import Any

import pyarrow as pa
import pytest

from penstock.errors import BatchAborted, Conflict, PositionsMoved, SinkUnavailable
from penstock.lab.bench.throwaway_postgres import RunningPostgres

from support.postgres_driver import ORDERS, TP, Driver, ask, cut
from support.postgres_tables import COORDINATES

NESTED = {
    **ORDERS,
    "tags": pa.list_(pa.string()),
    "address": pa.struct([("city", pa.string())]),
    "counts": pa.map_(pa.string(), pa.int64()),
}
MORE = {"city": pa.string(), **ORDERS}
COLUMNS = """
SELECT attname FROM pg_attribute
WHERE attrelid = 'orders'::regclass AND attnum > 0 AND attname NOT LIKE '\\_%' ORDER BY attnum"""


def columns_of(server: Any) -> list[str]:
    return [name for (name,) in ask(server, COLUMNS)]


@pytest.mark.parametrize("mode", [{}, {"mode": "upsert", "key": ["id"]}], ids=["append", "upsert"])
def test_new_columns_come_with_the_first_rows_and_are_null_before(
    postgres: RunningPostgres, mode: dict[str, Any]
) -> None:
    server = postgres.database()
    with Driver(server, **mode) as driver:
        driver.write([(1, "a")])
    with Driver(server, NESTED, **mode) as driver:
        before = columns_of(server)
        driver.write([(2, "b", ["x", "y"], {"city": "Bonn"}, [("n", 1)])], 1)
        between = driver.positions  # as the engine asks before every batch
        driver.write([(3, "c", None, None, None)], 2)

    assert ["id", "note"] == before
    assert ["id", "note", "tags", "address", "counts"] == columns_of(server)
    assert [
        (1, "a", None, None, None),
        (2, "b", ["x", "y"], {"city": "Bonn"}, {"n": 1}),
        (3, "c", None, None, None),
    ] == ask(server, "SELECT id, note, tags, address, counts FROM orders ORDER BY id")
    assert {TP: 2} == between
    assert ["jsonb"] * 3 == [
        kind
        for (kind,) in ask(
            server,
            "SELECT format_type(atttypid, NULL) FROM pg_attribute WHERE attrelid = 'orders'::regclass"
            " AND attname IN ('tags', 'address', 'counts')",
        )
    ]


def test_columns_go_with_a_transaction_that_is_given_up_and_come_with_the_next(postgres: RunningPostgres) -> None:
    server = postgres.database()
    with Driver(server) as driver:
        driver.write([(1, "a")])
    with Driver(server, MORE) as driver:
        driver.prepare(driver.stage([("Bonn", 2, "b")], 1))
        driver.sink.abandon()
        abandoned = columns_of(server)
        driver.prepare(driver.stage([("Bonn", 2, "b")], 1))
        cut(server)
        with pytest.raises(SinkUnavailable):
            driver.sink.commit()
        cut_off = columns_of(server)
        driver.write([("Bonn", 2, "b")], 1)

    assert ["id", "note"] == abandoned == cut_off
    assert [(1, None), (2, "Bonn")] == ask(server, "SELECT id, city FROM orders ORDER BY id")


def test_a_batch_without_rows_adds_no_column(postgres: RunningPostgres) -> None:
    server = postgres.database()
    with Driver(server) as driver:
        driver.write([(1, "a")])
    with Driver(server, MORE) as driver:
        driver.write([], 1)
        assert {TP: 1} == driver.positions

    assert ["id", "note"] == columns_of(server)


def test_of_two_drivers_that_add_the_same_column_one_gets_through_and_nothing_is_doubled(
    postgres: RunningPostgres,
) -> None:
    server = postgres.database()
    with Driver(server) as driver:
        driver.write([(1, "a")])
    with Driver(server, MORE) as one, Driver(server, MORE) as other:
        first, second = (driver.stage([("Bonn", 2, "b")], 1) for driver in (one, other))
        for driver in (one, other):
            assert {TP: 1} == driver.positions
        one.prepare(first, expected={TP: 1})
        one.sink.commit()
        with pytest.raises((BatchAborted, PositionsMoved)):
            other.prepare(second, expected={TP: 1})

    assert [(1, None), (2, "Bonn")] == ask(server, "SELECT id, city FROM orders ORDER BY id")


@pytest.mark.parametrize(
    ("made", "spec", "reason"),
    [
        (
            f"CREATE TABLE orders (id bigint, {COORDINATES})",
            {"new_columns": "refuse"},
            "has no column 'note'. .*Add it",
        ),
        ("CREATE TABLE orders (id bigint, note text)", {}, "has no column '_topic_id'"),
    ],
    ids=["refused", "coordinates"],
)
def test_what_may_not_be_added_is_a_conflict_and_the_table_stays(
    postgres: RunningPostgres, made: str, spec: dict[str, Any], reason: str
) -> None:
    server = postgres.database()
    ask(server, made)
    before = columns_of(server)

    with pytest.raises(Conflict, match=reason), Driver(server, **spec):
        pass

    assert before == columns_of(server)
