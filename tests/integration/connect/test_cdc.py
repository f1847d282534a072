"""Changes of a real PostgreSQL through Debezium, Kafka and a pipeline, compared row by row."""

import json
import random
import socket
import struct
import threading
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from penstock.config.local_services import ServiceAddress, folder_of
from penstock.connect import connectors, postgres, restarts
from penstock.connect.cdc import Capture, Captures
from penstock.connect.client import ConnectClient
from penstock.errors import BadInput
from penstock.kafka import topics
from penstock.kafka.reader import read_all
from penstock.lab.bench.throwaway_postgres import RunningPostgres
from penstock.secret import Secret
from penstock.sinks.postgres_server import Server

from conftest import Cli
from support.pipelines import Lab
from support.postgres_driver import ask
from support.shop import KEY, NAMES, SCHEMA, grow, mirrored_rows, play, shop, source_rows
from support.waiting import eventually, until


@pytest.fixture
def server(logical_postgres: RunningPostgres) -> Server:
    return shop(logical_postgres)


def test_a_mirrored_table_is_the_same_row_by_row_with_columns_that_come_and_go_and_removing_leaves_no_slot(
    lab: Lab, connect: ServiceAddress, server: Server, logical_postgres: RunningPostgres
) -> None:
    dice = random.Random(5)
    with server.connect() as connection:
        play(connection, dice, 40)
        assert [] == postgres.capture_problems(connection, ["orders"], "penstock_shop")
        assert [] == postgres.warnings(connection, ["orders"])
    captures = Captures(lab.kafka.home, ConnectClient(connect))
    capture = Capture(name="shop", server=server, tables=["public.orders"])
    captures.add(capture, lab.kafka.admin())
    topic = capture.topic("public.orders")

    mirror = logical_postgres.database("mirror")
    spec = lab.spec(
        topic,
        name="mirror",
        decode={"type": "raw"},
        steps=[{"cdc": "state", "schema": SCHEMA, "new_columns": "add"}],
        sinks=[
            {"type": "delta", "path": str(lab.table), "key": KEY},
            {"type": "postgres", "server": mirror, "table": "mirror", "mode": "upsert", "key": KEY},
        ],
    )

    def is_same(*added: str) -> bool:
        lab.run(spec)
        columns = [*NAMES, *added]
        expected = source_rows(server, columns)
        in_delta = mirrored_rows(DeltaTable(str(lab.table)), columns)
        return expected == in_delta == source_rows(mirror, columns, "mirror")

    with server.connect() as connection:
        play(connection, dice, 150)
    until(is_same)
    grow(server, "price", "numeric(8,2)", "12.30")
    until(lambda: is_same("price"))
    ask(server, "ALTER TABLE orders DROP COLUMN price")
    grow(server, "seen", "timestamp", "2024-02-29 12:30:15.123456")
    until(lambda: is_same("seen"))

    assert server.password is not None
    assert server.password.reveal() not in str(captures.client.config("shop"))
    assert [] == lab.letters(topic)
    captures.remove("shop")
    with server.connect() as connection:
        assert None is postgres.slot_of(connection, "penstock_shop")
    assert [] == ask(server, "SELECT 1 FROM pg_publication")
    assert "shop" not in [each.name for each in captures.client.connectors()]


def test_changes_of_partitions_and_large_ones_arrive_and_generated_columns_are_left_out(
    lab: Lab, connect: ServiceAddress, logical_postgres: RunningPostgres
) -> None:
    server = logical_postgres.database("parts")
    ask(
        server,
        "CREATE TABLE orders (id int, day date, term interval, doc text,"
        " double int GENERATED ALWAYS AS (id * 2) STORED, PRIMARY KEY (id, day)) PARTITION BY RANGE (day)",
    )
    for year in (2024, 2025):
        bounds = f"FROM ('{year}-01-01') TO ('{year + 1}-01-01')"
        ask(server, f"CREATE TABLE orders_{year} PARTITION OF orders FOR VALUES {bounds}")
    insert = "INSERT INTO orders VALUES (%s, %s, %s, %s)"
    ask(server, insert, 1, "2024-05-05", "1 month", "small")
    captures = Captures(lab.kafka.home, ConnectClient(connect))
    capture = Capture(name="parts", server=server, tables=["public.orders"])
    captures.add(capture, lab.kafka.admin())
    ask(server, insert, 2, "2025-05-05", "30 days 10:30:00", "large" * 600_000)
    ask(server, "UPDATE orders SET day = '2025-06-06' WHERE id = 1")  # into another partition

    def changes() -> list[tuple[Any, ...]]:
        values = [each.value() for each in read_all(lab.connection, capture.topic("public.orders"))]
        found = [json.loads(each)["payload"] for each in values if each is not None]
        rows = [(each["op"], each["after"] or each["before"]) for each in found]
        return [(op, row["id"], row["term"], "double" in row) for op, row in rows]

    month, days = "P0Y1M0DT0H0M0S", "P0Y0M30DT10H30M0S"
    expected = [("r", 1, month, False), ("c", 2, days, False), ("d", 1, None, False), ("c", 1, month, False)]
    until(lambda: len(changes()) >= len(expected))
    captures.remove("parts")
    assert expected == changes()


@pytest.mark.parametrize("left", [1, 0])
def test_rows_that_were_deleted_while_nobody_captured_are_gone_from_the_mirror_once_the_table_is_captured_again(
    left: int, lab: Lab, connect: ServiceAddress, server: Server
) -> None:
    ask(server, "INSERT INTO orders (id, part, n) SELECT id, 'x', id FROM generate_series(1, 4) AS id")
    captures = Captures(lab.kafka.home, ConnectClient(connect))
    capture = Capture(name=f"again{left}", server=server, tables=["public.orders"])
    sink = {"type": "delta", "path": str(lab.table), "key": KEY}
    step = {"cdc": "state", "schema": SCHEMA}
    spec = lab.spec(
        capture.topic("public.orders"), name=capture.name, decode={"type": "raw"}, steps=[step], sinks=[sink]
    )

    def is_same() -> bool:
        lab.run(spec)
        return source_rows(server, NAMES) == mirrored_rows(DeltaTable(str(lab.table)), NAMES)

    captures.add(capture, lab.kafka.admin())
    until(is_same)
    captures.remove(capture.name)
    ask(server, "DELETE FROM orders WHERE id > %s", left)
    captures.add(capture, lab.kafka.admin())

    until(is_same)
    captures.remove(capture.name)


def test_a_table_whose_snapshot_takes_long_is_captured_and_one_that_is_recreated_is_said_to_be_captured_no_longer(
    lab: Lab, connect: ServiceAddress, server: Server, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    count = 20_000
    ask(server, "INSERT INTO orders (id, part) SELECT id, 'x' FROM generate_series(1, %s) AS id", count)
    captures = Captures(lab.kafka.home, ConnectClient(connect))
    capture = Capture(name="lengthy", server=server, tables=["public.orders"])
    wait = Captures._wait_until_read

    def wait_for_the_slot_alone(self: Captures, wanted: Capture) -> None:
        with server.connect() as connection:
            until(lambda: postgres.slot_of(connection, wanted.slot) is not None)
        monkeypatch.setattr("penstock.connect.cdc._READY_S", 1.0)
        wait(self, wanted)
        monkeypatch.undo()

    monkeypatch.setattr(Captures, "_wait_until_read", wait_for_the_slot_alone)
    captures.add(capture, lab.kafka.admin())
    until(lambda: len(read_all(lab.connection, capture.topic("public.orders"))) >= count)
    before = cli("cdc", "status", "lengthy", home=lab.kafka.home)
    topic = capture.topic("public.orders")
    topics.alter_config(lab.kafka.admin(), topic, {"retention.ms": "604800000"})
    ask(server, "DROP TABLE orders")
    ask(server, "CREATE TABLE orders (id bigint PRIMARY KEY)")
    after = cli("cdc", "status", "lengthy", home=lab.kafka.home)
    captures.remove("lengthy")

    assert "no longer" not in before.err
    assert "deletes changes" not in before.err
    assert f"topic '{topic}' deletes changes (retention.ms 604800000)" in after.err
    assert "public.orders is no longer captured" in after.err


@pytest.mark.soak
def test_what_changes_leave_out_becomes_dead_letters_until_the_source_logs_whole_rows(
    lab: Lab, connect: ServiceAddress, logical_postgres: RunningPostgres
) -> None:
    server = logical_postgres.database("whole")
    ask(server, "CREATE TABLE orders (id int PRIMARY KEY, n int, doc text, rates numeric(12,2)[])")
    ask(server, "ALTER TABLE orders ALTER doc SET STORAGE EXTERNAL, ALTER rates SET STORAGE EXTERNAL")
    large = (
        "INSERT INTO orders SELECT id, 0, repeat(md5(id::text), 200), {} FROM generate_series(%s::int, %s::int) AS id"
    )
    ask(server, large.format("array_fill(1.25, array[2000])"), 1, 3)
    ask(server, large.format("'{}'"), 4, 5)
    captures = Captures(lab.kafka.home, ConnectClient(connect))
    capture = Capture(name="whole", server=server, tables=["public.orders"])
    captures.add(capture, lab.kafka.admin())
    topic, sink = capture.topic("public.orders"), {"type": "delta", "path": str(lab.table), "key": ["id"]}
    step = {"cdc": "state", "schema": "id bigint NOT NULL, n int, doc string, rates array<decimal(12,2)>"}
    spec = lab.spec(topic, name="whole", decode={"type": "raw"}, steps=[step], sinks=[sink])

    def mirrored(count: int) -> list[tuple[Any, ...]]:
        until(lambda: len(read_all(lab.connection, topic)) >= count)
        lab.run(spec)
        rows = DeltaTable(str(lab.table)).to_pyarrow_table(columns=["id", "n", "doc", "rates"]).to_pylist()
        return sorted(tuple(row.values()) for row in rows)

    def source() -> list[tuple[Any, ...]]:
        return ask(server, "SELECT id, n, doc, rates FROM orders ORDER BY id")

    snapshot = source()
    assert snapshot == mirrored(5)
    ask(server, "UPDATE orders SET n = 1 WHERE id = 1")  # the array comes as null
    ask(server, "UPDATE orders SET id = 14 WHERE id = 4")  # the text is that of the row which goes
    ask(server, "UPDATE orders SET n = 1 WHERE id = 5")
    found = mirrored(5 + 1 + 3 + 1)

    letters = lab.letters(topic)
    assert [*snapshot[:3], *source()[3:]] == found
    assert ["SchemaMismatch"] == [each.error for each in letters]
    assert all("REPLICA IDENTITY FULL" in each.message for each in letters)
    ask(server, "ALTER TABLE orders REPLICA IDENTITY FULL")
    ask(server, "UPDATE orders SET id = id")
    assert source() == mirrored(10 + 5)
    assert len(letters) == len(lab.letters(topic))
    captures.remove("whole")


def test_what_is_in_the_way_is_told_with_the_line_that_fixes_it(postgres: RunningPostgres) -> None:
    from penstock.connect.postgres import capture_problems, warnings

    server = postgres.database("plain")
    ask(server, "CREATE TABLE loose (id bigint)")
    ask(server, "CREATE TABLE other (id bigint PRIMARY KEY, code text NOT NULL UNIQUE, rates numeric[])")
    ask(server, "ALTER TABLE other REPLICA IDENTITY USING INDEX other_code_key")
    ask(server, "CREATE TABLE pairs (id bigint PRIMARY KEY, code text NOT NULL, UNIQUE (id, code))")
    ask(server, "ALTER TABLE pairs REPLICA IDENTITY USING INDEX pairs_id_code_key")
    ask(server, "CREATE TABLE parts (id bigint PRIMARY KEY, rates numeric[]) PARTITION BY RANGE (id)")
    ask(server, "CREATE TABLE part PARTITION OF parts FOR VALUES FROM (0) TO (9)")
    ask(server, "ALTER TABLE part REPLICA IDENTITY NOTHING")
    ask(server, "CREATE TABLE late (id bigint PRIMARY KEY DEFERRABLE)")
    with server.connect() as connection:
        tables = ["loose", "nowhere", "other", "pairs", "parts", "late"]
        told = [str(each) for each in capture_problems(connection, tables, "penstock_plain")]
        connection.execute("ALTER TABLE other REPLICA IDENTITY DEFAULT")
        connection.commit()
        assert [] == capture_problems(connection, ["other"], "penstock_plain")[1:]
        connection.execute("ALTER TABLE parts REPLICA IDENTITY FULL")
        connection.execute("ALTER TABLE part REPLICA IDENTITY DEFAULT")
        told_of = [each.split(",")[0] for each in warnings(connection, ["other", "parts"])]

    assert [
        (
            "the database logs too little to capture changes: wal_level is replica."
            " Run: ALTER SYSTEM SET wal_level = logical; then restart PostgreSQL"
        ),
        (
            "the table loose has no primary key: no change would say which row it is of."
            " Run: ALTER TABLE loose ADD PRIMARY KEY (...)"
        ),
        "there is no table nowhere. Name it with its schema, such as public.orders",
        *(
            f"changes of {name} hold a part of the row as it was: its replica identity is an index."
            f" Run: ALTER TABLE {name} REPLICA IDENTITY DEFAULT, or FULL"
            for name in ("other", "pairs")
        ),
        (
            "updates and deletes of part do not say which row they are of: its replica identity is NOTHING."
            " Run: ALTER TABLE part REPLICA IDENTITY DEFAULT"
        ),
        (
            "the primary key of late is deferrable: it does not tell rows apart at every moment."
            " Run: ALTER TABLE late DROP CONSTRAINT late_pkey, ADD PRIMARY KEY (...)"
        ),
    ] == told
    assert [f"whether a null in rates of {name} is one" for name in ("other", "part")] == told_of


def test_whoever_has_the_databases_port_is_not_told_its_password(connect: ServiceAddress) -> None:
    client = ConnectClient(connect)
    with socket.create_server(("127.0.0.1", 0)) as stranger:
        server = Server(port=stranger.getsockname()[1], database="shop", user="u", password=Secret.of("canary"))
        config = Captures(Path(), client)._config(Capture(name="told", server=server, tables=["orders"]), [])
        said: list[bytes] = []
        asking = threading.Thread(target=_ask_for_password, args=(stranger, said))
        asking.start()
        client.complaints({**config, "name": "told", "database.password": "canary"})  # it connects to judge them
        asking.join(60)

    assert [b""] == said


def _ask_for_password(listener: socket.socket, said: list[bytes]) -> None:
    """Answer one connection as a PostgreSQL does that wants the password as it is."""
    connection, _ = listener.accept()
    with connection:
        connection.settimeout(60)
        while connection.recv(4096)[4:8] != b"\x00\x03\x00\x00":
            connection.sendall(b"N")  # no TLS
        connection.sendall(b"R" + struct.pack("!II", 8, 3))
        said.append(connection.recv(4096))


def test_settings_that_the_worker_refuses_are_told_by_key_and_nothing_is_made(connect: ServiceAddress) -> None:
    client = ConnectClient(connect)
    file_source = "org.apache.kafka.connect.file.FileStreamSourceConnector"

    with pytest.raises(BadInput, match="topic: "):
        client.put("broken", {"connector.class": file_source, "tasks.max": "1"})
    with pytest.raises(BadInput, match="the worker has no plugin"):
        client.put("broken", {"connector.class": "com.example.None"})

    assert "broken" not in [each.name for each in client.connectors()]


def test_connectors_of_the_project_file_are_planned_then_made_and_can_be_looked_after(
    lab: Lab, connect: ServiceAddress
) -> None:
    client = ConnectClient(connect)
    source = lab.folder / "lines.txt"
    source.write_text("one\ntwo\n")
    topic = lab.kafka.topic("lines", partitions=1)
    kind = "org.apache.kafka.connect.file.FileStreamSourceConnector"
    wanted = {"lines": {"connector.class": kind, "file": str(source), "topic": topic}}

    assert ["create"] == [each.action for each in connectors.plan(client, wanted)]
    client.put("lines", wanted["lines"])
    until(lambda: len(list(read_all(lab.connection, topic))) == 2)
    assert ["keep"] == [each.action for each in connectors.plan(client, wanted)]
    other = {"lines": {**wanted["lines"], "batch.size": "7"}}
    assert ["batch.size: unset → 7"] == [each.detail for each in connectors.plan(client, other)]
    client.pause("lines")
    until(lambda: client.connector("lines").state == "PAUSED")
    client.resume("lines")
    client.restart("lines", only_failed=True)
    client.stop("lines")
    until(lambda: client.connector("lines").state == "STOPPED")
    until(lambda: bool(client.offsets("lines")))
    client.remove("lines")

    until(lambda: "lines" not in [each.name for each in client.connectors()])


def test_a_task_that_has_failed_is_started_again_until_it_runs_and_that_is_said(
    lab: Lab, connect: ServiceAddress, cli: Cli
) -> None:
    client, folder = ConnectClient(connect), lab.folder / "later"
    topic = lab.kafka.topic("written", partitions=1)
    kind = "org.apache.kafka.connect.file.FileStreamSinkConnector"
    client.put("writer", {"connector.class": kind, "file": str(folder / "out.txt"), "topics": topic})

    def listed() -> dict[str, Any]:
        rows = cli("connect", "list", "--json", home=lab.kafka.home).json
        return next((dict(each) for each in rows if each["name"] == "writer"), {"restarts": 0})

    def shown(*options: str) -> str:
        said = cli("connect", "show", "writer", *options, home=lab.kafka.home)
        return said.out + said.err

    until(lambda: listed()["restarts"] > 0)
    # Between two failures it runs for a moment, and has nothing to show.
    failed = eventually(shown, lambda told: "NoSuchFileException" in told)
    until(lambda: "\tat org.apache.kafka.connect" in shown("--trace"))
    folder.mkdir()
    until(lambda: client.connector("writer").is_running)

    assert "it failed at " in failed
    assert "it failed at " in cli("connect", "show", "writer", home=lab.kafka.home).err
    client.remove("writer")
    until(lambda: "writer" not in restarts.load(folder_of(lab.kafka.home, "connect")))
