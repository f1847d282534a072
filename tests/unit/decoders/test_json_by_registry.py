"""JSON behind the id of its schema: which column each type gives, and what fails."""

import datetime
import json
import pickle
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
from pydantic import ValidationError

from penstock.decoders.json import Json
from penstock.errors import BadInput, SchemaChanged
from penstock.record.decoded import Decoded
from penstock.schemas.wire import framed

from support.events import OPENING
from support.registry_stub import RegistryStub, registry_stub

TEXT = {"type": "string"}
NOON = datetime.datetime(2026, 1, 31, 12, tzinfo=datetime.UTC)


@pytest.fixture
def stub() -> Iterator[RegistryStub]:
    with registry_stub() as running:
        yield running


def schema_of(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties}


def written(stub: RegistryStub, schema: Any, value: Any, references: Any = ()) -> bytes:
    return framed(stub.add("orders-value", schema, "JSON", references), json.dumps(value).encode())


def decoded(stub: RegistryStub, *values: bytes, **options: Any) -> tuple[pa.Schema, Decoded]:
    decoder = Json(**{"registry": stub.url, "schema": "registry", **options}).resolved(["orders"])
    travelled = pickle.loads(pickle.dumps(decoder))  # noqa: S301 - as it comes to a task
    assert travelled.arrow_schema is not None
    return travelled.arrow_schema, travelled.open(OPENING).decode(values)


@pytest.mark.parametrize(
    ("kind", "value", "column", "expected"),
    [
        ({"type": "string"}, "x", pa.string(), "x"),
        ({"type": "integer"}, 2**40, pa.int64(), 2**40),
        ({"type": "integer", "connect.type": "int32"}, 5, pa.int32(), 5),
        ({"type": "number"}, 1.5, pa.float64(), 1.5),
        ({"type": "boolean"}, True, pa.bool_(), True),
        ({"type": ["null", "integer"]}, None, pa.int64(), None),
        ({"oneOf": [{"type": "null"}, {"type": "string"}]}, "x", pa.string(), "x"),
        ({"anyOf": [{"type": "null"}, {"$ref": "#/properties/other"}]}, 1.5, pa.float64(), 1.5),
        ({"type": "string", "format": "date-time"}, "2026-01-31T12:00:00Z", pa.timestamp("us", tz="UTC"), NOON),
        ({"type": "string", "format": "date"}, "2026-01-31", pa.date32(), NOON.date()),
        ({"enum": ["a", "b"]}, "a", pa.string(), "a"),
        ({"type": "array", "items": {"type": "integer"}}, [1], pa.list_(pa.int64()), [1]),
        (schema_of(x={"type": "integer"}), {"x": 1}, pa.struct([("x", pa.int64())]), {"x": 1}),
        (
            {"type": "object", "additionalProperties": {"type": "integer"}},
            {"a": 1},
            pa.map_(pa.string(), pa.int64()),
            [("a", 1)],
        ),
        ({"$ref": "other.json#/definitions/n"}, 3, pa.int64(), 3),
    ],
)
def test_each_type_gives_its_column(
    stub: RegistryStub, kind: Any, value: Any, column: pa.DataType, expected: Any
) -> None:
    stub.add("other", {"definitions": {"n": {"type": "integer"}}}, "JSON")
    named = [{"name": "other.json", "subject": "other", "version": 1}]
    schema, found = decoded(stub, written(stub, schema_of(c=kind, other={"type": "number"}), {"c": value}, named))

    assert [None] == found.record_errors
    assert (column, [expected]) == (schema.field("c").type, found.columns[0].to_pylist())


@pytest.mark.parametrize(
    ("schema", "told"),
    [
        ({"type": "string"}, "its outermost type is not an object"),
        (schema_of(c={"type": ["string", "integer"]}), "no column can have several types"),
        (schema_of(c={"oneOf": [{"type": "string"}, {"type": "integer"}]}), "no column can have several types"),
        (schema_of(c=True), "anything is allowed there"),
        ({**schema_of(a=TEXT), "allOf": [schema_of(b=TEXT)]}, "`allOf` may bring more fields"),
        ({**schema_of(a=TEXT), "allOf": [{"$ref": "#/definitions/base"}]}, "`allOf` may bring more fields"),
        ({**schema_of(a=TEXT), "if": schema_of(a={"const": "x"}), "then": schema_of(b=TEXT)}, "`then` may bring more"),
        (schema_of(c={"$ref": "#/nowhere"}), "its reference leads nowhere"),
        (schema_of(c={"$ref": "#"}), "holds itself"),
        (schema_of(c={"$ref": "other.json"}), "not among the references"),
    ],
)
def test_a_schema_that_no_table_can_hold_is_refused_when_the_driver_opens(
    stub: RegistryStub, schema: Any, told: str
) -> None:
    stub.add("orders-value", schema, "JSON")

    with pytest.raises(BadInput, match=told):
        Json(registry=stub.registry, schema="registry").resolved(["orders"])


def test_parts_of_a_schema_that_only_narrow_its_fields_change_no_column(stub: RegistryStub) -> None:
    narrowed = {**schema_of(a=TEXT), "allOf": [{"required": ["a"]}, schema_of(a={"minLength": 1})]}

    schema, found = decoded(stub, written(stub, narrowed, {"a": "x"}))

    assert (["a"], ["x"]) == (schema.names, found.columns[0].to_pylist())


def test_records_fail_as_without_a_registry_and_for_want_of_an_id(stub: RegistryStub) -> None:
    schema = {**schema_of(id={"type": "integer"}, note={"type": "string"}), "required": ["id"]}
    good = written(stub, schema, {"id": 1})

    _, found = decoded(stub, good, good[:-1], written(stub, schema, {"note": "x"}), b'{"id": 1}', framed(9, b"{}"))

    told = [each and each["error"] for each in found.record_errors]
    assert [None, "Malformed", "SchemaMismatch", "WrongMagicByte", "UnknownSchema"] == told


def test_columns_of_the_file_are_taken_and_a_new_version_of_the_subject_is_noticed(stub: RegistryStub) -> None:
    good = written(stub, schema_of(id={"type": "integer"}), {"id": 1})
    decoder = Json(registry=stub.registry, schema="registry").resolved(["orders"])
    newer = written(stub, schema_of(id={"type": "integer"}, note={"type": "string"}), {"id": 2, "note": "n"})

    _, found = decoded(stub, good, schema="id int")

    assert [1] == found.columns[0].to_pylist()
    with pytest.raises(SchemaChanged):
        decoder.open(OPENING).decode([newer])


def test_a_registry_is_needed_for_its_columns_and_its_subject() -> None:
    with pytest.raises(ValidationError, match="is not a list of columns"):
        Json(schema="registry")
    with pytest.raises(ValidationError, match="a subject belongs to a `registry`"):
        Json(schema="id int", subject="x")
