"""What a database says of the slot of a capture."""

from typing import LiteralString

import pytest

from penstock.connect import postgres
from penstock.connect.cdc import Capture, slot_status
from penstock.lab.bench.throwaway_postgres import RunningPostgres

from support.postgres_driver import ask


def test_a_slot_that_nobody_reads_holds_the_log_and_one_that_was_dropped_is_missing(
    logical_postgres: RunningPostgres,
) -> None:
    server = logical_postgres.database("slots")
    capture = Capture(name="slots", server=server, tables=["public.orders"])
    before = slot_status(capture)
    with server.connect() as connection:
        connection.execute("SELECT pg_create_logical_replication_slot(%s, 'pgoutput')", [capture.slot])
        connection.execute("CREATE TABLE orders AS SELECT generate_series(1, 10000) AS id")
        connection.commit()
        held = slot_status(capture, 5_000)
        connection.execute("SELECT pg_drop_replication_slot(%s)", [capture.slot])
        connection.commit()
    away = slot_status(capture.model_copy(update={"server": server.model_copy(update={"database": "no-such"})}))

    assert ["missing", "nobody reads it", "missing"] == [before.state, held.state, slot_status(capture).state]
    assert (held.wal_held_bytes or 0) >= (held.lag_bytes or 0) > 100_000
    assert ("unknown", True) == (away.state, "no-such" in away.problem)


@pytest.mark.parametrize(
    "change",
    [
        "SET (publish = 'insert, update, delete')",
        "SET TABLE orders WHERE (id > 10)",
        "SET TABLE orders (id)",
        "DROP TABLE orders",
    ],
)
def test_a_publication_that_was_altered_is_said_to_leave_changes_out(
    logical_postgres: RunningPostgres, change: LiteralString
) -> None:
    server = logical_postgres.database("altered")
    ask(server, "CREATE TABLE orders (id int PRIMARY KEY, n int, twice int GENERATED ALWAYS AS (n * 2) STORED)")
    ask(server, "CREATE TABLE parts (id int PRIMARY KEY) PARTITION BY RANGE (id)")
    ask(server, "CREATE TABLE parts_1 PARTITION OF parts FOR VALUES FROM (0) TO (9)")
    capture = Capture(name="altered", server=server, tables=["public.orders", "public.parts"])
    with server.connect() as connection:
        postgres.publish(connection, capture.slot, capture.tables)
    before = slot_status(capture)
    ask(server, "ALTER PUBLICATION penstock_altered " + change)

    assert [] == before.not_captured
    assert "public.orders" in slot_status(capture).not_captured
