"""Small records that stand for endless values: they are refused, and never end or fill the process that reads them."""

import json
import subprocess
from typing import Any

import pytest

from penstock.errors import BadInput
from penstock.interpreter import SAFE_PYTHON
from penstock.schemas.avro import AvroSchema
from penstock.schemas.schema import Schema

CHAIN = {"type": "record", "name": "Link", "fields": [{"name": "next", "type": ["null", "Link"]}]}
TREE = {
    "type": "record",
    "name": "Node",
    "fields": [
        {"name": "name", "type": "string"},
        {"name": "weights", "type": {"type": "map", "values": ["null", "double", "boolean"]}},
        {"name": "kind", "type": {"type": "enum", "name": "Kind", "symbols": ["LEAF", "FORK"]}},
        {"name": "mark", "type": {"type": "fixed", "name": "Mark", "size": 3}},
        {"name": "size", "type": ["float", "long"]},
        {"name": "below", "type": {"type": "array", "items": "Node"}},
    ],
}
HUGE = b"\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01"
"""The greatest number that Avro has."""


def avro(schema: Any) -> AvroSchema:
    return AvroSchema(Schema(text=json.dumps(schema)))


def nested(depth: int) -> Any:
    kind: Any = "int"
    for _ in range(depth):
        kind = {"type": "array", "items": kind}
    return kind


def doubled(count: int) -> Any:
    """Return a schema of few records that each name the next one twice, the last of which takes no bytes."""
    kind: Any = {"type": "record", "name": "R0", "fields": [{"name": "x", "type": "null"}]}
    for number in range(1, count):
        fields = [{"name": "a", "type": kind}, {"name": "b", "type": f"R{number - 1}"}]
        kind = {"type": "record", "name": f"R{number}", "fields": fields}
    return kind


def test_a_record_that_holds_itself_a_million_times_does_not_end_its_reader() -> None:
    # In a process of its own: one that reads it without a limit is gone.
    program = (
        "from penstock.schemas.avro import AvroSchema\nfrom penstock.schemas.schema import Schema\n"
        f"AvroSchema(Schema(text={json.dumps(CHAIN)!r})).decode(b'\\2' * 1_000_000 + b'\\0')"
    )
    ended = subprocess.run([*SAFE_PYTHON, "-c", program], capture_output=True, text=True, check=False)

    assert (1, True) == (ended.returncode, "ValueError: the bytes do not fit the schema 'Link'" in ended.stderr)


@pytest.mark.parametrize(
    ("schema", "payload"),
    [
        ({"type": "array", "items": "null"}, HUGE + b"\x00"),
        ({"type": "array", "items": {"type": "fixed", "name": "F", "size": 0}}, HUGE + b"\x00"),
        ({"type": "array", "items": {"type": "record", "name": "R", "fields": []}}, HUGE + b"\x00"),
        ({"type": "record", "name": "R", "fields": [{"name": "r", "type": "R"}]}, b""),
        (doubled(60), b""),
    ],
)
def test_values_that_take_no_bytes_are_not_read_without_end(schema: Any, payload: bytes) -> None:
    with pytest.raises(ValueError, match="they hold more, or deeper, than is read"):
        avro(schema).decode(payload)


def test_a_record_that_holds_itself_is_read_as_it_was_written() -> None:
    schema = avro(TREE)
    value: dict[str, Any] = {"name": "leaf", "weights": {}, "kind": "LEAF", "mark": b"abc", "size": 0.5, "below": []}
    for number in range(30):
        weights = {"a": None, "b": 0.5, "c": True}
        fork = {"name": "é" * number, "weights": weights, "kind": "FORK", "mark": b"\x00\xff\x01", "size": -(2**40)}
        value = {**fork, "below": [value, {**value, "below": []}]}

    assert value == schema.decode(schema.encode(value))


def test_arrays_of_what_takes_no_bytes_are_read_if_they_are_no_longer_than_arrays_are() -> None:
    schema = avro({"type": "array", "items": "null"})
    blocks = b"\x03\x00" + b"\x02\x00"  # a block of two with its size, which is nothing, and one of one

    assert ([None] * 1000, [None] * 3) == (schema.decode(schema.encode([None] * 1000)), schema.decode(blocks))


@pytest.mark.parametrize("payload", [b"", b"\x02", b"\x04", b"\x02" * 20, b"\xff" * 20])
def test_bytes_that_are_no_such_record_are_refused_as_ever(payload: bytes) -> None:
    with pytest.raises(ValueError, match="the bytes do not fit the schema"):
        avro(CHAIN).decode(payload)


@pytest.mark.parametrize(
    "schema",
    [
        nested(201),
        nested(450),
        {"type": "array", "items": {}},
        {"type": "enum", "name": "E", "symbols": []},
        {"type": "fixed", "name": "F", "size": -1},
    ],
)
def test_a_schema_that_nothing_can_be_read_by_is_none(schema: Any) -> None:
    with pytest.raises(BadInput, match="this is not an Avro schema"):
        avro(schema)
