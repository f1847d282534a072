"""Pipelines that decode by the schemas of a registry, from Kafka into a table."""

import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest

from penstock.config.local_services import ServiceAddress, folder_of
from penstock.driver.paths import Progress
from penstock.kafka.reader import read_all
from penstock.lab.bench.throwaway_postgres import RunningPostgres
from penstock.schemas.avro import AvroSchema
from penstock.schemas.client import RegistryClient, client_of
from penstock.schemas.registry import Registry
from penstock.schemas.schema import Schema
from penstock.schemas.serializer import Deserializer, Serializer
from penstock.schemas.wire import framed
from penstock.services import status

from support.iceberg_tables import iceberg_rows
from support.pipelines import Lab, drive

ID = {"name": "id", "type": "long"}
NAME = {"name": "name", "type": "string"}
NOTE = {"name": "note", "type": ["null", "string"], "default": None}


def avro(client: RegistryClient, topic: str, fields: list[dict[str, Any]], *rows: dict[str, Any]) -> list[bytes]:
    schema = Schema(text=json.dumps({"type": "record", "name": "Order", "fields": fields}))
    schema_id = client.register(f"{topic}-value", schema)
    return [framed(schema_id, AvroSchema(schema).encode(row)) for row in rows]


def test_a_new_field_becomes_a_column_while_the_pipeline_runs_and_bad_records_are_dead_letters(
    lab: Lab, registry: ServiceAddress, postgres: RunningPostgres
) -> None:
    topic, client = lab.kafka.topic("avro"), client_of(Registry(url=registry.url))
    first = avro(client, topic, [ID, NAME], {"id": 1, "name": "a"}, {"id": 2, "name": "b"})
    lab.send(topic, *first, b'{"id": 3}', framed(7777, b"x"), first[0][:-1])
    out, server, lake = lab.kafka.topic("avro-out"), postgres.database(), lab.folder / "lake"
    sinks = [
        {"type": "delta", "path": str(lab.table)},
        {"type": "kafka", "topic": out, "key": "id", "encode": {"registry": registry.url, "keys": True}},
        {"type": "postgres", "table": "orders", "server": server},
        {"type": "iceberg", "path": str(lake)},
    ]
    spec = lab.spec(topic, decode={"type": "avro", "registry": registry.url}, sinks=sinks)
    with lab.runner(spec) as runner:
        drive(runner)
        runner.stopping.clear()
        lab.send(topic, *avro(client, topic, [ID, NAME, NOTE], {"id": 4, "name": "d", "note": "new"}), first[1])
        runner.available = runner.source.available()
        drive(runner)

    reader = Deserializer(registry.url)
    messages = list(read_all(lab.connection, out))
    sent = [reader.decode(bytes(message.value() or b"")) for message in messages]
    with postgres.connect(server.database) as connection:
        in_postgres = connection.execute("SELECT id, name, note FROM orders ORDER BY _offset").fetchall()
    in_iceberg = [(row["id"], row["name"], row["note"]) for row in iceberg_rows(lake, "id, name, note, _offset")]
    wanted = [(1, "a", None), (2, "b", None), (4, "d", "new"), (2, "b", None)]
    assert wanted == [(row["id"], row["name"], row["note"]) for row in lab.rows()]
    assert wanted == [(each.value["id"], each.value["name"], each.value.get("note")) for each in sent]
    assert [1, 2, 4, 2] == [reader.decode(bytes(message.key() or b"")).value for message in messages]
    assert wanted == in_postgres
    assert sorted(wanted, key=str) == sorted(in_iceberg, key=str)
    assert [1, 2] == client.versions(f"{out}-value")
    assert [
        (2, "WrongMagicByte"),
        (3, "UnknownSchema"),
        (4, "Malformed"),
    ] == [(letter.offset, letter.error) for letter in lab.letters(topic)]


PROTO = 'syntax = "proto3"; message Order { int64 id = 1; string name = 2;'
CLOSED = {"title": "Order", "type": "object", "required": ["id"], "additionalProperties": False}
IN_JSON = {"id": {"type": "integer"}, "name": {"type": "string"}}
GROWING = {
    "protobuf": (f"{PROTO} }}", f"{PROTO} optional string note = 3; }}"),
    "json": tuple(
        json.dumps({**CLOSED, "properties": each}) for each in (IN_JSON, {**IN_JSON, "note": {"type": "string"}})
    ),
}
"""A schema and a newer one that has a field more, by the decoder."""


@pytest.mark.parametrize("kind", GROWING)
def test_a_new_field_of_the_other_formats_becomes_a_column_while_the_pipeline_runs_too(
    lab: Lab, registry: ServiceAddress, kind: str
) -> None:
    topic = lab.kafka.topic(f"grows-{kind}")
    old, new = (Serializer(registry.url, Schema(text=each, format=kind.upper())) for each in GROWING[kind])
    lab.send(topic, old.encode(topic, {"id": 1, "name": "a"}))
    with lab.runner(lab.spec(topic, decode={"type": kind, "registry": registry.url, "schema": "registry"})) as runner:
        drive(runner)
        runner.stopping.clear()
        lab.send(topic, *(each.encode(topic, {"id": 2, "name": "b"}) for each in (old, new)))
        lab.send(topic, new.encode(topic, {"id": 3, "name": "c", "note": "new"}))
        runner.available = runner.source.available()
        drive(runner)

    found = [(row["id"], row["name"], row["note"]) for row in lab.rows()]
    assert [(1, "a", None), (2, "b", None), (2, "b", None), (3, "c", "new")] == found
    assert [] == lab.letters(topic)


def test_a_registry_that_is_killed_under_a_pipeline_is_waited_for_and_nothing_is_lost(
    lab: Lab, registry: ServiceAddress, registry_home: Path
) -> None:
    topic, client = lab.kafka.topic("avro-outage"), RegistryClient(Registry(url=registry.url))
    lab.send(topic, *avro(client, topic, [ID, NAME], {"id": 1, "name": "a"}))
    spec = lab.spec(topic, decode={"type": "avro", "registry": registry.url})
    heard: list[Progress] = []
    with lab.runner(spec) as runner:
        drive(runner)
        runner.stopping.clear()
        lab.send(topic, *avro(client, topic, [ID, NAME, NOTE], {"id": 2, "name": "b", "note": "new"}))
        folder = folder_of(registry_home, "registry")
        supervisor = status.supervisor_of(folder)
        assert supervisor is not None
        supervisor.suspend()  # or the registry may be back before it is missed
        os.kill(status.load(folder).pids["apicurio"], signal.SIGKILL)
        runner.available = runner.source.available()

        def tell(progress: Progress) -> None:
            heard.append(progress)
            supervisor.resume()

        try:
            runner.run(tell)
        finally:
            supervisor.resume()

    assert any("the schema registry" in each.waiting_for for each in heard)
    assert [(1, "a", None), (2, "b", "new")] == [(row["id"], row["name"], row["note"]) for row in lab.rows()]
    assert [] == lab.letters(topic)
