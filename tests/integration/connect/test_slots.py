"""What a database says of the slot of a capture."""

import json
from typing import LiteralString

import pytest

from penstock.config.local_services import ServiceAddress
from penstock.connect import postgres
from penstock.connect.cdc import Capture, Captures, slot_status
from penstock.connect.client import ConnectClient
from penstock.kafka.reader import read_all
from penstock.lab.bench.throwaway_postgres import RunningPostgres

from conftest import Cli, RunningKafka
from support.postgres_driver import ask
from support.waiting import until


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


def test_a_capture_whose_slot_was_dropped_fails_instead_of_leaving_out_what_came_in_between(
    kafka: RunningKafka, connect: ServiceAddress, logical_postgres: RunningPostgres, cli: Cli
) -> None:
    server = logical_postgres.database("dropped")
    ask(server, "CREATE TABLE orders (id int PRIMARY KEY)")
    ask(server, "INSERT INTO orders VALUES (1)")
    captures = Captures(kafka.home, ConnectClient(connect))
    capture = Capture(name="dropped", server=server, tables=["public.orders"])

    def changes() -> list[tuple[str, int | None]]:
        values = [each.value() for each in read_all(kafka.connection, capture.topic("public.orders"))]
        found = [json.loads(each)["payload"] for each in values if each is not None]
        return [(each["op"], each["after"] and each["after"]["id"]) for each in found]

    captures.add(capture, kafka.admin())
    ask(server, "INSERT INTO orders VALUES (2)")
    until(lambda: changes() == [("r", 1), ("c", 2)])
    captures.client.stop("dropped")
    until(lambda: captures.client.connector("dropped").tasks.endswith("/0"))
    ask(server, "SELECT pg_drop_replication_slot(%s)", capture.slot)
    ask(server, "INSERT INTO orders VALUES (3)")
    captures.client.resume("dropped")
    until(lambda: captures.client.connector("dropped").has_failed or len(changes()) > 2)
    ask(server, "INSERT INTO orders VALUES (4)")
    said, after = cli("cdc", "status", "dropped", home=kafka.home).err, changes()
    captures.remove("dropped")
    captures.add(capture, kafka.admin())
    until(lambda: len(changes()) == 7)
    captures.remove("dropped")

    assert "the replication slot of 'dropped' is missing" in said
    assert [("r", 1), ("c", 2)] == after
    assert [("t", None), ("r", 1), ("r", 2), ("r", 3), ("r", 4)] == changes()[2:]
