"""What `penstock cdc add` refuses is one clear line, and leaves nothing behind; what it only warns of is said."""

import pytest

from penstock.config.local_services import ServiceAddress
from penstock.connect import postgres
from penstock.connect.cdc import Captures
from penstock.connect.client import ConnectClient
from penstock.kafka import topics
from penstock.kafka.topic_spec import TopicSpec
from penstock.lab.bench.throwaway_postgres import RunningPostgres
from penstock.sinks.postgres_server import Server

from conftest import Cli, RunningKafka, Said
from support.postgres_driver import ask


@pytest.fixture
def server(logical_postgres: RunningPostgres) -> Server:
    made = logical_postgres.database("refused")
    ask(made, "CREATE TABLE orders (id bigint PRIMARY KEY)")
    ask(made, "CREATE TABLE loose (id bigint)")
    return made


def password(server: Server) -> dict[str, str]:
    assert server.password is not None
    return {"DATABASE_PASSWORD": server.password.reveal()}


def add(cli: Cli, kafka: RunningKafka, server: Server, name: str, table: str = "orders", **given: str) -> Said:
    env = {**password(server), **given}
    to = ("--host", server.host, "--port", server.port, "--database", server.database, "--user", server.user)
    command = ("cdc", "add", "postgres", name, *to, "--tables", table, "--password", "env:DATABASE_PASSWORD")
    return cli(*command, home=kafka.home, **env)


def left(kafka: RunningKafka, connect: ServiceAddress, server: Server, name: str) -> list[object]:
    """Return what there is of a capture."""
    client = ConnectClient(connect)
    with server.connect() as connection:
        slot = postgres.slot_of(connection, f"penstock_{name}")
    found = [each for each in Captures(kafka.home, client).names() if each == name]
    connectors = [each.name for each in client.connectors() if each.name == name]
    publications = ask(server, "SELECT pubname FROM pg_publication")
    return [*found, *connectors, *publications, *([] if slot is None else [slot])]


def test_a_wrong_password_of_the_database_is_one_line_without_it(
    cli: Cli, kafka: RunningKafka, connect: ServiceAddress, server: Server
) -> None:
    said = add(cli, kafka, server, "locked", DATABASE_PASSWORD="mistaken")

    (line,) = said.error_lines
    assert "does not let this user in: password authentication failed" in line
    assert "mistaken" not in said.out + said.err
    assert "env:DATABASE_PASSWORD" in said.err
    assert [] == left(kafka, connect, server, "locked")
    assert "locked.public.orders" not in {each.topic for each in topics.list_topics(kafka.admin())}


def test_a_table_without_a_key_is_told_with_the_statement_that_gives_it_one(
    cli: Cli, kafka: RunningKafka, connect: ServiceAddress, server: Server
) -> None:
    said = add(cli, kafka, server, "keyless", "loose")

    assert 1 == len(said.error_lines)
    assert "the table loose has no primary key" in said.err
    assert "ALTER TABLE loose ADD PRIMARY KEY" in said.err
    assert [] == left(kafka, connect, server, "keyless")


def test_a_topic_of_several_partitions_is_refused_and_nothing_is_captured(
    cli: Cli, kafka: RunningKafka, connect: ServiceAddress, server: Server
) -> None:
    topics.create(kafka.admin(), "wide.public.orders", TopicSpec(partitions=3))

    said = add(cli, kafka, server, "wide")

    (line,) = said.error_lines
    assert "topic 'wide.public.orders' has 3 partitions" in line
    assert [] == left(kafka, connect, server, "wide")


def test_topics_that_delete_changes_are_said_when_their_tables_are_captured(
    cli: Cli, kafka: RunningKafka, connect: ServiceAddress, server: Server
) -> None:
    topics.create(kafka.admin(), "brief.public.orders", TopicSpec(partitions=1, retention="7d"))

    said = add(cli, kafka, server, "brief")
    removed = cli("cdc", "remove", "brief", "--yes", home=kafka.home, **password(server))

    assert (0, 0) == (said.code, removed.code)
    assert "topic 'brief.public.orders' deletes changes (retention.ms 604800000" in said.err
    assert "penstock topic alter brief.public.orders --cleanup delete --retention forever" in said.err
    assert [] == left(kafka, connect, server, "brief")


def test_a_plugin_that_the_worker_has_not_got_is_one_line(
    cli: Cli, kafka: RunningKafka, connect: ServiceAddress
) -> None:
    said = cli("connect", "add", "strange", "--set", "connector.class=com.example.None", home=kafka.home)

    (line,) = said.error_lines
    assert "connector.class: the worker has no plugin 'com.example.None'" in line
    assert "strange" not in [each.name for each in ConnectClient(connect).connectors()]
