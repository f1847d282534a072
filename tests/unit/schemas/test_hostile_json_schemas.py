"""JSON Schemas that anybody may have registered: a reader says what is wrong with one, and goes on."""

import json
import time
from collections.abc import Iterator
from typing import Any

import pytest

from penstock.decoders.json import Json
from penstock.errors import BadInput
from penstock.schemas.client import RegistryClient
from penstock.schemas.compatibility import check
from penstock.schemas.schema import Schema
from penstock.schemas.serializer import Deserializer
from penstock.schemas.wire import framed

from support.registry_stub import RegistryStub, registry_stub

OURS = {"type": "object", "properties": {"a": {"type": "number", "minimum": 1}}, "required": ["a"]}
DRAFT_4 = "http://json-schema.org/draft-04/schema#"


@pytest.fixture
def stub() -> Iterator[RegistryStub]:
    with registry_stub() as running:
        yield running


def nested(depth: int) -> str:
    return '{"properties":{"a":' * depth + "{}" + "}}" * depth


def chained(length: int) -> dict[str, Any]:
    """Return a schema each part of which names the next one."""
    parts: dict[str, Any] = {"p0": {"type": "integer"}}
    for number in range(1, length):
        parts[f"p{number}"] = {"type": "object", "properties": {"a": {"$ref": f"#/definitions/p{number - 1}"}}}
    return {"definitions": parts, "$ref": f"#/definitions/p{length - 1}"}


NO_SCHEMAS = ["5", "null", '"x"', "[]", {"$schema": ["x"]}, {"$schema": {}}, {"$id": 5, "properties": {}}, nested(400)]
ODD_PARTS: list[dict[str, Any]] = [
    {"type": "object", "properties": 5},
    {"type": "object", "properties": {"a": {"type": "string"}}, "required": 5},
    {"type": 5},
    {"type": [[]]},
    {"enum": 5},
    {"anyOf": [5]},
    {"properties": {"a": {"minimum": "x"}}},
    {"properties": {"a": {"multipleOf": 0}}},
    {"patternProperties": {"(": {}}},
    {"oneOf": [{"type": "null"}, 5]},
    {"dependencies": 5},
]


@pytest.mark.parametrize("schema", NO_SCHEMAS)
def test_what_is_no_schema_is_said_to_be_none(stub: RegistryStub, schema: Any) -> None:
    schema_id = stub.add("orders-value", schema, "JSON")
    referring = {"properties": {"a": {"$ref": "other.json"}}}
    reference = {"name": "other.json", "subject": "orders-value", "version": 1}
    referring_id = stub.add("referring-value", referring, "JSON", [reference])

    for each in (schema_id, referring_id):
        with pytest.raises(BadInput, match="JSON Schema"):
            Deserializer(stub.registry).decode(framed(each, b'{"a":1}'))
    with pytest.raises(BadInput, match="JSON Schema"):
        Json(registry=stub.registry, schema="registry").resolved(["orders"])


@pytest.mark.parametrize("part", ODD_PARTS)
def test_a_part_that_a_reference_alone_leads_to_may_be_anything(stub: RegistryStub, part: dict[str, Any]) -> None:
    text = json.dumps({"x": part, "$ref": "#/x"})
    schema_id = stub.add("orders-value", text, "JSON")

    with pytest.raises(BadInput, match="a part of its schema is not a JSON Schema"):
        Deserializer(stub.registry).decode(framed(schema_id, b'{"a":1}'))
    with pytest.raises(BadInput, match="the schema of 'orders-value' gives no columns"):
        Json(registry=stub.registry, schema="registry").resolved(["orders"])
    check(RegistryClient(stub.registry), "orders-value", Schema(text=json.dumps(OURS), format="JSON"))


def test_schemas_whose_parts_lead_on_and_on_are_left_to_the_registry(stub: RegistryStub) -> None:
    schema = Schema(text=json.dumps(chained(1_500)), format="JSON")
    stub.add("orders-value", schema.text, "JSON")
    found = check(RegistryClient(stub.registry), "orders-value", schema)

    assert (True, ()) == (found.is_compatible, found.breakages)


@pytest.mark.parametrize("head", [{"$schema": DRAFT_4}, {}])
def test_long_lists_of_objects_are_refused_at_once(stub: RegistryStub, head: dict[str, Any]) -> None:
    odd: list[Any] = [{"x": number} for number in range(20_000)]
    stub.add("orders-value", {**head, "properties": {"a": {"enum": odd, "required": odd}}}, "JSON")
    begun = time.thread_time()

    with pytest.raises(BadInput, match="its lists take too long to be compared"):
        Json(registry=stub.registry, schema="registry").resolved(["orders"])
    assert time.thread_time() - begun < 2


@pytest.mark.parametrize("values", [[str(each) for each in range(20_000)], list(range(20_000))])
def test_long_lists_of_texts_or_numbers_are_as_good_as_short_ones(stub: RegistryStub, values: list[Any]) -> None:
    schema_id = stub.add("orders-value", {"$schema": DRAFT_4, "properties": {"a": {"enum": values}}}, "JSON")

    value = json.dumps({"a": values[-1]}).encode()
    assert {"a": values[-1]} == Deserializer(stub.registry).decode(framed(schema_id, value)).value
