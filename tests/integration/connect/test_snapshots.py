"""A snapshot that is taken a second time: the mirror has no row too many, and lacks none."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, LiteralString

import psutil
import pytest
from deltalake import DeltaTable

from penstock.config.local_services import ServiceAddress, folder_of
from penstock.connect import snapshots
from penstock.connect.cdc import Capture, Captures, forgetful_topics
from penstock.connect.client import ConnectClient
from penstock.connect.postgres import slot_of
from penstock.kafka import topics
from penstock.kafka.reader import read_all
from penstock.lab.bench.throwaway_postgres import RunningPostgres
from penstock.services import status
from penstock.sinks.postgres_server import Server

from conftest import Cli
from support.pipelines import Lab
from support.postgres_driver import ask
from support.shop import KEY, NAMES, SCHEMA, mirrored_rows, shop, source_rows
from support.waiting import until


@pytest.fixture
def server(logical_postgres: RunningPostgres) -> Server:
    return shop(logical_postgres)


def test_rows_that_were_deleted_while_the_snapshot_was_interrupted_are_gone_from_the_mirror(
    lab: Lab, connect: ServiceAddress, server: Server, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    ask(server, "INSERT INTO orders (id, part, n) SELECT id, 'x', id FROM generate_series(1, 9) AS id")
    for table in ("emptied", "waiting"):  # Debezium reads tables in the order of their names
        ask(server, f"CREATE TABLE {table} AS TABLE orders")
        ask(server, f"ALTER TABLE {table} ADD PRIMARY KEY (id, part)")
    captures = Captures(lab.kafka.home, ConnectClient(connect))
    tables = ["public.emptied", "public.orders", "public.waiting"]
    capture = Capture(name="cutoff", server=server, tables=tables)
    monkeypatch.setattr(Captures, "_wait_until_read", lambda *_given: None)
    config = Captures._config
    waits = "SELECT * FROM public.waiting WHERE (SELECT pg_advisory_xact_lock(7)::text) IS NOT NULL"
    override = "snapshot.select.statement.overrides"
    waiting = {override: "public.waiting", f"{override}.public.waiting": waits}
    monkeypatch.setattr(Captures, "_config", lambda *given: {**config(*given), **waiting})

    with server.connect() as holding:
        holding.execute("SELECT pg_advisory_xact_lock(7)")
        captures.add(capture, lab.kafka.admin())
        until(lambda: len(read_all(lab.connection, capture.topic("public.orders"))) > 5)
        psutil.Process(status.load(folder_of(lab.kafka.home, "connect")).pids["worker"]).kill()
        ask(server, "DELETE FROM emptied")
        ask(server, "DELETE FROM orders WHERE id > 3")
        ask(server, "UPDATE orders SET part = 'y' WHERE id = 1")
        ask(server, "INSERT INTO orders (id, part) VALUES (10, 'x')")
        ask(server, "DELETE FROM waiting WHERE id > 1")

    def is_same() -> bool:
        return all(_mirrored(lab, capture, table) == source_rows(server, NAMES, table) for table in tables)

    def shown() -> str:
        return str(cli("cdc", "status", "cutoff", "--json", home=lab.kafka.home).json[0]["snapshot"])

    until(lambda: shown() == "complete", timeout_s=120)
    until(is_same)
    ask(server, "INSERT INTO emptied (id, part) VALUES (1, 'again')")
    until(is_same)
    captures.remove("cutoff")


def test_a_commit_that_is_under_way_when_a_snapshot_restarts_is_in_the_mirror(
    lab: Lab, connect: ServiceAddress, server: Server, logical_postgres: RunningPostgres
) -> None:
    ask(server, "INSERT INTO orders (id, part) VALUES (1, 'x')")
    captures, admin = Captures(lab.kafka.home, ConnectClient(connect)), lab.kafka.admin()
    capture = Capture(name="underway", server=server, tables=["public.orders"])
    captures.add(capture, admin)
    until(lambda: snapshots.state(admin, "underway") == "complete")

    with _waiting_for_a_replica(logical_postgres):
        # Its commit is in the log, and nobody sees its row yet.
        committing = threading.Thread(
            target=ask, args=(server, "SET synchronous_commit = on; INSERT INTO orders (id, part) VALUES (2, 'x')")
        )
        committing.start()
        until(lambda: _commits_waiting(logical_postgres) == 1)
        ask(server, "INSERT INTO orders (id, part) VALUES (3, 'x')")
        captures.client.stop("underway")
        until(lambda: captures.client.connector("underway").tasks.endswith("/0"))
        captures.client.reset_offsets("underway")
        captures.client.resume("underway")
        until(lambda: snapshots.state(admin, "underway") == "interrupted")
        until(lambda: snapshots.state(admin, "underway") == "complete" or _slots_waiting(logical_postgres) == 1)
    committing.join(60)

    until(lambda: snapshots.state(admin, "underway") == "complete")
    ask(server, "INSERT INTO orders (id, part) VALUES (4, 'x')")
    until(lambda: (4, "x") in [row[:2] for row in _mirrored(lab, capture, "public.orders")])
    captures.remove("underway")
    assert source_rows(server, NAMES) == _mirrored(lab, capture, "public.orders")


def test_a_topic_that_was_deleted_is_made_again_when_its_snapshot_restarts(
    lab: Lab, connect: ServiceAddress, server: Server
) -> None:
    captures, admin = Captures(lab.kafka.home, ConnectClient(connect)), lab.kafka.admin()
    capture = Capture(name="deleted", server=server, tables=["public.orders"])  # of which there is no row to write
    captures.add(capture, admin)
    until(lambda: snapshots.state(admin, "deleted") == "complete")

    captures.client.stop("deleted")
    until(lambda: captures.client.connector("deleted").tasks.endswith("/0"))
    topics.delete(admin, capture.topic("public.orders"))
    captures.client.reset_offsets("deleted")
    captures.client.resume("deleted")
    until(lambda: _times_begun(lab, "deleted") == 2)
    until(lambda: snapshots.state(admin, "deleted") == "complete")
    ask(server, "INSERT INTO orders (id, part) VALUES (1, 'x')")
    until(lambda: _mirrored(lab, capture, "public.orders") == source_rows(server, NAMES))
    kept = forgetful_topics(capture, admin)
    captures.remove("deleted")

    assert {} == kept


def test_a_capture_that_is_removed_while_its_snapshot_restarts_leaves_nothing_and_can_be_added_again(
    lab: Lab, connect: ServiceAddress, server: Server
) -> None:
    captures, admin = Captures(lab.kafka.home, ConnectClient(connect)), lab.kafka.admin()
    capture = Capture(name="midway", server=server, tables=["public.orders"])
    ask(server, "INSERT INTO orders (id, part) SELECT id, 'x' FROM generate_series(1, 9) AS id")
    captures.add(capture, admin)
    until(lambda: snapshots.state(admin, "midway") == "complete")

    captures.client.stop("midway")
    until(lambda: captures.client.connector("midway").tasks.endswith("/0"))
    captures.client.reset_offsets("midway")
    captures.client.resume("midway")
    until(lambda: snapshots.state(admin, "midway") == "restarting")
    captures.remove("midway")
    with server.connect() as connection:
        slot = slot_of(connection, capture.slot)
    there = [each.name for each in captures.client.connectors()]
    ask(server, "DELETE FROM orders WHERE id > 3")
    captures.add(capture, admin)

    until(lambda: _mirrored(lab, capture, "public.orders") == source_rows(server, NAMES))
    captures.remove("midway")
    assert slot is None
    assert "midway" not in there


def _times_begun(lab: Lab, name: str) -> int:
    return [each.value() for each in read_all(lab.connection, snapshots.topic_of(name))].count(b"begun")


@contextmanager
def _waiting_for_a_replica(postgres: RunningPostgres) -> Iterator[None]:
    """Have commits that ask for it wait for a replica that does not come."""
    try:
        _alter_system(postgres, "SET synchronous_commit = local", "SET synchronous_standby_names = 'nobody'")
        yield
    finally:
        _alter_system(postgres, "RESET synchronous_standby_names", "RESET synchronous_commit")


def _alter_system(postgres: RunningPostgres, *changes: LiteralString) -> None:
    with postgres.connect() as connection:
        connection.autocommit = True
        for change in changes:
            connection.execute("ALTER SYSTEM " + change)
        connection.execute("SELECT pg_reload_conf()")


def _commits_waiting(postgres: RunningPostgres) -> int:
    return _count(postgres, "pg_stat_activity WHERE wait_event = 'SyncRep'")


def _slots_waiting(postgres: RunningPostgres) -> int:
    """Count slots that are being made, until the transactions that are open have ended."""
    return _count(postgres, "pg_replication_slots WHERE confirmed_flush_lsn IS NULL")


def _count(postgres: RunningPostgres, what: LiteralString) -> int:
    with postgres.connect() as connection:
        (found,) = connection.execute("SELECT count(*) FROM " + what).fetchone() or (0,)  # noqa: S608 - our own words
    return int(found)


def _mirrored(lab: Lab, capture: Capture, table: str) -> list[tuple[Any, ...]]:
    """Bring the mirror of one of several tables up to date, and return its rows."""
    place = lab.folder / table
    spec = lab.spec(
        capture.topic(table),
        name=table.replace(".", "-"),
        decode={"type": "raw"},
        steps=[{"cdc": "state", "schema": SCHEMA}],
        sinks=[{"type": "delta", "path": str(place), "key": KEY}],
    )
    lab.run(spec)
    return mirrored_rows(DeltaTable(str(place)), NAMES)
