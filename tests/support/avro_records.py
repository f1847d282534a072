"""Avro records, written with schemas of a registry's stub and decoded as a task does it."""

import json
import pickle
from typing import Any

import pyarrow as pa

from penstock.decoders.avro import Avro
from penstock.record.decoded import Decoded
from penstock.schemas.avro import AvroSchema
from penstock.schemas.schema import Schema
from penstock.schemas.wire import framed

from support.events import OPENING
from support.registry_stub import RegistryStub


def record(*fields: dict[str, Any]) -> dict[str, Any]:
    return {"type": "record", "name": "Order", "namespace": "shop", "fields": list(fields)}


def written(stub: RegistryStub, schema: Any, value: Any, subject: str = "orders-value") -> bytes:
    """Register a schema, and write a value with it."""
    schema_id = stub.add(subject, schema)
    return framed(schema_id, AvroSchema(Schema(text=json.dumps(schema))).encode(value))


def decoded(stub: RegistryStub, *values: bytes | None, **options: Any) -> tuple[pa.Schema, Decoded]:
    decoder = Avro(registry=stub.registry, **options).resolved(["orders"])
    travelled = pickle.loads(pickle.dumps(decoder))  # noqa: S301 - as it comes to a task
    assert travelled.arrow_schema is not None
    return travelled.arrow_schema, travelled.open(OPENING).decode(values)


def rows(schema: pa.Schema, found: Decoded) -> list[dict[str, Any]]:
    assert [None] * len(found.record_errors) == found.record_errors
    return pa.Table.from_arrays(found.columns, schema=schema).to_pylist()  # type: ignore[no-any-return]


def errors(found: Decoded) -> list[str | None]:
    return [None if each is None else f"{each['error']}: {each['message']}" for each in found.record_errors]
