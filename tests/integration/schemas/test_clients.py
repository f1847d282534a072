"""Producers that check and encode by a schema, and `penstock produce` and `consume` with one."""

import json
from pathlib import Path
from typing import Any

import pytest

from penstock.config.local_services import ServiceAddress
from penstock.errors import BadInput, Conflict
from penstock.kafka.producer import Producer
from penstock.kafka.reader import read_all
from penstock.schemas.schema import Schema
from penstock.schemas.serializer import Deserializer, Serializer

from conftest import Cli, RunningKafka

ORDER = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "at", "type": ["null", {"type": "long", "logicalType": "timestamp-micros"}], "default": None},
    ],
}


def test_a_producer_sends_what_fits_and_nothing_of_what_does_not(kafka: RunningKafka, registry: ServiceAddress) -> None:
    topic = kafka.topic("orders")
    schema = Serializer(registry.url, Schema(text=json.dumps(ORDER)))
    with Producer(
        kafka.connection, schema=schema, key_schema=Serializer(registry.url, Schema(text='"long"'))
    ) as producer:
        producer.send(topic, {"id": 1}, key=7)
        with pytest.raises(BadInput, match="id: a value of type str is not long"):
            producer.send(topic, {"id": "2"}, key=7)
        with pytest.raises(BadInput, match="the key does not fit"):
            producer.send_many(topic, [{"value": {"id": 3}, "key": 8}, {"value": {"id": 4}, "key": "x"}])
        producer.send_many(topic, [{"value": {"id": 5}, "key": 9}, {"value": None, "key": 9}])
    reader = Deserializer(registry.url)
    found: list[tuple[Any, Any]] = []
    for message in read_all(kafka.connection, topic):
        key, value = message.key(), message.value()
        assert isinstance(key, bytes)
        found.append((reader.decode(key).value, None if value is None else reader.decode(bytes(value)).value))

    assert [(7, {"id": 1, "at": None}), (9, {"id": 5, "at": None}), (9, None)] == found


def test_a_schema_that_breaks_its_readers_is_refused_before_anything_is_sent(
    kafka: RunningKafka, registry: ServiceAddress, cli: Cli, tmp_path: Path
) -> None:
    topic = kafka.topic("orders")
    with Producer(kafka.connection, schema=Serializer(registry.url, Schema(text=json.dumps(ORDER)))) as producer:
        producer.send(topic, {"id": 1})
    broken = {**ORDER, "fields": [{"name": "id", "type": "long"}, {"name": "needed", "type": "string"}]}
    (tmp_path / "broken.avsc").write_text(json.dumps(broken))
    schema = Serializer(registry.url, tmp_path / "broken.avsc")
    with pytest.raises(Conflict, match="Nothing was sent"), Producer(kafka.connection, schema=schema) as producer:
        producer.send(topic, {"id": 2, "needed": "x"})
    told = cli(
        "produce", topic, "--schema", "broken.avsc", "--registry", registry.url, home=kafka.home, stdin='{"id": 3}'
    )

    assert 6 == told.code
    assert f"See: penstock schema check {topic}-value FILE" in told.err
    assert 1 == len(read_all(kafka.connection, topic))


def test_lines_are_checked_and_encoded_and_read_again_with_the_id_of_their_schema(
    kafka: RunningKafka, registry: ServiceAddress, cli: Cli, tmp_path: Path
) -> None:
    topic = kafka.topic("orders")
    (tmp_path / "order.avsc").write_text(json.dumps(ORDER))
    (tmp_path / "key.avsc").write_text('"long"')
    send = ["produce", topic, "--schema", "order.avsc", "--key-schema", "key.avsc", "--registry", registry.url]
    lines = '{"id": 1, "at": "2026-01-31T12:00:00Z"}\n{"id": 2}\n{"id": "three"}\n'
    sent = cli(*send, "--key-field", "id", home=kafka.home, stdin=lines)
    cli("produce", topic, home=kafka.home, stdin="plain\n")
    read = cli("consume", topic, "--registry", registry.url, "--json", home=kafka.home)
    plainly = cli("consume", topic, "--decode", home=kafka.home, PENSTOCK_REGISTRY_URL=registry.url)

    assert 2 == sent.code
    told = "line 3 cannot be sent: the value does not fit its schema: id: a value of type str is not long. Before it, 2"
    assert told in sent.err
    found = [json.loads(line) for line in read.out.splitlines()]
    value_id, key_id = found[0]["schema_id"], found[0]["key_schema_id"]
    assert [
        (1, key_id, {"id": 1, "at": "2026-01-31T12:00:00+00:00"}, value_id),
        (2, key_id, {"id": 2, "at": None}, value_id),
    ] == [(each["key"], each["key_schema_id"], each["value"], each["schema_id"]) for each in found[:2]]
    assert ("plain", "the first byte is 112, not 0: the value was not written with a schema registry") == (
        found[2]["value"],
        found[2]["error"],
    )
    assert '{"id":2,"at":null}' == plainly.out.splitlines()[1]
    assert f"3 records, written with schema {value_id}, 1 as they are\n" == plainly.err
