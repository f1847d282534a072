"""Confluent's own serializers for Python beside ours, over one registry: each reads what the other has written."""

import json
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.schema_registry.json_schema import JSONDeserializer, JSONSerializer
from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer, ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext

from penstock.config.local_services import ServiceAddress
from penstock.decoders.decoder import DecoderModel
from penstock.decoders.json import Json
from penstock.pipeline.spec import PipelineSpec
from penstock.schemas.protobuf import ProtobufSchema
from penstock.schemas.schema import Schema
from penstock.schemas.serializer import Deserializer, Serializer

from support.events import OPENING

AVRO = {
    "type": "record",
    "name": "Order",
    "namespace": "shop",
    "fields": [{"name": "id", "type": "long"}, {"name": "note", "type": ["null", "string"], "default": None}],
}
JSON = {
    "$schema": "http://json-schema.org/draft-07/schema#",
    "title": "Order",
    "type": "object",
    "properties": {"id": {"type": "integer"}, "note": {"type": ["null", "string"]}},
    "required": ["id"],
}
PROTOBUF = """syntax = "proto3";
package shop;
import "google/protobuf/timestamp.proto";
message Other { int32 n = 1; }
message Order { int64 id = 1; optional string note = 2; google.protobuf.Timestamp at = 3; }
"""
TEXTS = {"avro": json.dumps(AVRO), "json": json.dumps(JSON), "protobuf": PROTOBUF}
ROWS: list[dict[str, Any]] = [{"id": 1, "note": "n"}, {"id": 2, "note": None}]


def rows_of(registry: ServiceAddress, kind: str, topic: str, values: list[bytes]) -> list[dict[str, Any]]:
    """Decode values as a pipeline does."""
    document = {
        "name": "orders",
        "source": {"topics": [topic]},
        "decode": {"type": kind, "registry": registry.url, "schema": "registry"},
        "sinks": [{"type": "console"}],
    }
    if kind == "protobuf":
        document["decode"]["message"] = "Order"  # type: ignore[index]  # it is the mapping above
    decode = PipelineSpec.model_validate(document).resolved().decode
    assert isinstance(decode, DecoderModel | Json)
    assert decode.arrow_schema is not None
    found = decode.open(OPENING).decode(values)
    assert [None] * len(values) == found.record_errors
    return pa.Table.from_arrays(found.columns, schema=decode.arrow_schema).to_pylist()  # type: ignore[no-any-return]


def theirs(client: SchemaRegistryClient, kind: str) -> tuple[Any, Any, Any]:
    """Return Confluent's serializer and deserializer, and what makes their values of ours."""
    if kind == "avro":
        return AvroSerializer(client, TEXTS[kind]), AvroDeserializer(client, TEXTS[kind]), dict
    if kind == "json":
        return JSONSerializer(TEXTS[kind], client), JSONDeserializer(TEXTS[kind], schema_registry_client=client), dict
    message = ProtobufSchema(Schema(text=PROTOBUF, format="PROTOBUF")).message_class((1,))
    options = {"use.deprecated.format": False}
    return (
        ProtobufSerializer(message, client, options),
        ProtobufDeserializer(message, options),
        lambda row: message(**{name: each for name, each in row.items() if each is not None}),
    )


@pytest.mark.parametrize("kind", ["avro", "json", "protobuf"])
def test_what_confluents_serializers_write_our_pipelines_and_clients_read(registry: ServiceAddress, kind: str) -> None:
    topic = f"theirs-{kind}"
    with SchemaRegistryClient({"url": registry.url}) as client:
        serialize, _, made = theirs(client, kind)
        written = [serialize(made(row), SerializationContext(topic, MessageField.VALUE)) for row in ROWS]

    landed = rows_of(registry, kind, topic, written)
    read = [Deserializer(registry.url).decode(each).value for each in written]

    assert ROWS == [{"id": row["id"], "note": row["note"]} for row in landed]
    assert ["n", None] == [each.get("note") for each in read]


@pytest.mark.parametrize("kind", ["avro", "json", "protobuf"])
def test_what_our_clients_write_confluents_deserializers_read(registry: ServiceAddress, kind: str) -> None:
    topic = f"ours-{kind}"
    schema = Schema(text=TEXTS[kind], format=kind.upper())
    serializer = Serializer(registry.url, schema, message="Order" if kind == "protobuf" else None)
    values = [{name: each for name, each in row.items() if each is not None} for row in ROWS]
    written = [serializer.encode(topic, value) or b"" for value in values]
    with SchemaRegistryClient({"url": registry.url}) as client:
        _, deserialize, made = theirs(client, kind)
        read = [deserialize(each, SerializationContext(topic, MessageField.VALUE)) for each in written]

    expected = ROWS if kind == "avro" else values
    assert [made(row) for row in expected] == read
    assert ROWS == [{"id": row["id"], "note": row["note"]} for row in rows_of(registry, kind, topic, written)]
