"""The events of the pipeline bench by schemas of a registry: the same fields as Avro and as Protobuf."""

import datetime
import io
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from penstock.config.services import RegistryService, Services
from penstock.kafka.connection import Connection
from penstock.schemas.avro import AvroSchema
from penstock.schemas.client import client_of
from penstock.schemas.formats import Format
from penstock.schemas.protobuf import ProtobufSchema
from penstock.schemas.registry import Registry
from penstock.schemas.schema import Schema
from penstock.schemas.wire import framed
from penstock.services import control
from penstock.services.context import ServiceContext

AVRO = json.dumps(
    {
        "type": "record",
        "name": "Order",
        "fields": [
            {"name": "id", "type": "long"},
            {"name": "customer", "type": "string"},
            {"name": "item", "type": "string"},
            {"name": "price", "type": "double"},
            {"name": "quantity", "type": "int"},
            {"name": "country", "type": "string"},
            {"name": "at", "type": {"type": "long", "logicalType": "timestamp-micros"}},
            {"name": "note", "type": ["null", "string"], "default": None},
        ],
    }
)
_PROTOBUF = """
syntax = "proto3";
import "google/protobuf/timestamp.proto";
message Order {
  int64 id = 1; string customer = 2; string item = 3; double price = 4; int32 quantity = 5; string country = 6;
  google.protobuf.Timestamp at = 7; optional string note = 8;
}
"""
Encode = Callable[[dict[str, Any]], bytes]
"""Makes the value of a record of an event as JSON has it."""


def in_json(event: dict[str, Any]) -> bytes:
    """Return an event as the JSON that it is."""
    return json.dumps(event).encode()


@contextmanager
def registry(home: Path, jar_folder: Path, connection: Connection) -> Iterator[Registry]:
    """Run a throwaway registry."""
    try:
        context = ServiceContext(home, jar_folder, connection, nodes=1, secure=False)
        yield Registry(
            url=control.LocalServices(context).up(Services(registry=RegistryService(port=0)))["registry"].url
        )
    finally:
        control.stop(home, "registry")


def encoder(where: Registry, topic: str, format_: Format) -> Encode:
    """Register the schema of a topic, and return what writes with it."""
    schema = Schema(text=AVRO if format_ == "AVRO" else _PROTOBUF, format=format_)
    schema_id = client_of(where).register(f"{topic}-value", schema)
    write = _avro(schema) if format_ == "AVRO" else _protobuf(schema)
    return lambda event: framed(schema_id, write({**event, "at": datetime.datetime.fromisoformat(event["at"])}))


def _avro(schema: Schema) -> Encode:
    import fastavro

    parsed = AvroSchema(schema).parsed

    def write(event: dict[str, Any]) -> bytes:
        # Not by `AvroSchema.encode`, which looks at each value first: millions of events are made here.
        written = io.BytesIO()
        fastavro.schemaless_writer(written, parsed, event)
        return written.getvalue()

    return write


def _protobuf(schema: Schema) -> Encode:
    message = ProtobufSchema(schema).message_class()

    def write(event: dict[str, Any]) -> bytes:
        written: bytes = message(**event).SerializeToString()
        return b"\x00" + written

    return write
