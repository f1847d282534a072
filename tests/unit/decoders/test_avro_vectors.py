"""Columns of many records at once are those of reading them one by one; what is odd is marked, and left to that."""

import json
import random
import struct
from typing import Any

import pyarrow as pa
import pytest

from penstock.decoders.avro import AvroPayloads
from penstock.decoders.avro_columns import avro_columns
from penstock.decoders.avro_vectors import AvroVectors
from penstock.decoders.columns import settled
from penstock.decoders.vectors import Chunk
from penstock.schemas.avro import AvroSchema
from penstock.schemas.schema import Schema

FIELDS: list[dict[str, Any]] = [
    {"name": "b", "type": "boolean"},
    {"name": "i", "type": "int"},
    {"name": "l", "type": "long"},
    {"name": "f", "type": "float"},
    {"name": "d", "type": "double"},
    {"name": "s", "type": "string"},
    {"name": "r", "type": "bytes"},
    {"name": "e", "type": {"type": "enum", "name": "E", "symbols": ["A", "B", "C"]}},
    {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
    {"name": "day", "type": {"type": "int", "logicalType": "date"}},
    {"name": "ol", "type": ["null", "long"]},
    {"name": "os", "type": ["string", "null"]},
    {"name": "oe", "type": ["null", "E"]},
    {"name": "ot", "type": ["null", {"type": "long", "logicalType": "timestamp-micros"}]},
    {"name": "fx", "type": {"type": "fixed", "name": "F", "size": 3}},
    {
        "name": "p",
        "type": {
            "type": "record",
            "name": "P",
            "fields": [{"name": "x", "type": "int"}, {"name": "n", "type": ["null", "string"]}],
        },
    },
    {"name": "op", "type": ["null", "P"]},
]


def flat(*fields: dict[str, Any]) -> AvroSchema:
    return AvroSchema(Schema(text=json.dumps({"type": "record", "name": "R", "fields": list(fields)})))


def row(dice: random.Random) -> dict[str, Any]:
    def number(bits: int) -> int:
        return dice.getrandbits(dice.randint(1, bits)) * dice.choice([1, -1])

    def text() -> str:
        return "".join(dice.choices("aé漢😀\x00", k=dice.choice([0, 1, 5, 70, 200])))

    return {
        "b": dice.random() < 0.5,
        "i": number(31),
        "l": number(63),
        "f": struct.unpack("<f", struct.pack("<f", dice.uniform(-9, 9)))[0],
        "d": dice.choice([0.0, -0.0, float("inf"), dice.uniform(-1e300, 1e300)]),
        "s": text(),
        "r": dice.randbytes(dice.choice([0, 1, 130])),
        "e": dice.choice("ABC"),
        "at": number(40),
        "day": number(16),
        "ol": dice.choice([None, number(63)]),
        "os": dice.choice([None, text()]),
        "oe": dice.choice([None, "C"]),
        "ot": dice.choice([None, number(50)]),
        "fx": dice.randbytes(3),
        "p": {"x": number(31), "n": dice.choice([None, text()])},
        "op": dice.choice([None, {"x": number(31), "n": dice.choice([None, text()])}]),
    }


def both(schema: AvroSchema, payloads: list[bytes]) -> tuple[Any, Any]:
    """Decode with and without; give columns and errors of each."""
    payloads_of = AvroPayloads(schema, tuple(map(settled, avro_columns(schema).columns)))
    fast = payloads_of.decode(payloads)
    payloads_of._vectors = None
    return fast, payloads_of.decode(payloads)


@pytest.mark.parametrize("seed", range(8))
def test_random_records_give_the_same_columns_as_one_by_one(seed: int) -> None:
    dice, schema = random.Random(seed), flat(*FIELDS)
    payloads = [schema.encode(row(dice)) for _ in range(dice.choice([1, 2, 300]))]
    vectors, chunk = AvroVectors.of(schema, avro_columns(schema)), Chunk(payloads)
    assert vectors is not None
    vectors.read(chunk)
    assert not chunk.odd.any()

    (columns, errors), (expected, expected_errors) = both(schema, payloads)

    assert expected_errors == errors
    assert [True] * len(expected) == [mine.equals(other) for mine, other in zip(columns, expected, strict=True)]


@pytest.mark.parametrize("seed", range(20))
def test_damaged_records_fail_exactly_as_one_by_one(seed: int) -> None:
    dice, schema = random.Random(seed), flat(*FIELDS)
    payloads = [schema.encode(row(dice)) for _ in range(20)]
    for _ in range(dice.randint(1, 5)):
        index = dice.randrange(len(payloads))
        damaged = bytearray(payloads[index])
        match dice.randrange(4):
            case 0:
                damaged = damaged[: dice.randrange(len(damaged))]
            case 1:
                damaged += dice.randbytes(dice.randint(1, 12))
            case 2:
                damaged[dice.randrange(len(damaged))] = dice.randrange(256)
            case _:
                damaged = bytearray(dice.randbytes(dice.randint(0, 60)))
        payloads[index] = bytes(damaged)

    (columns, errors), (expected, expected_errors) = both(schema, payloads)

    assert expected_errors == errors
    # By their texts: a damaged number may be none.
    assert [str(each.to_pylist()) for each in expected] == [str(each.to_pylist()) for each in columns]


@pytest.mark.parametrize(
    "kind",
    [
        {"type": "array", "items": "int"},
        {"type": "map", "values": "int"},
        ["null", "int", "string"],
        {"type": "bytes", "logicalType": "decimal", "precision": 5, "scale": 2},
        {"type": "record", "name": "Inner", "fields": []},
        {"type": "record", "name": "Inner", "fields": [{"name": "a", "type": {"type": "array", "items": "int"}}]},
    ],
)
def test_what_has_several_values_or_types_is_read_one_by_one(kind: Any) -> None:
    schema = flat({"name": "l", "type": "long"}, {"name": "c", "type": kind})

    assert None is AvroVectors.of(schema, avro_columns(schema))


def test_no_records_give_no_rows() -> None:
    schema = flat(*FIELDS)

    (columns, errors), _ = both(schema, [])

    assert ([], {0}) == (errors, {len(each) for each in columns})
    assert pa.timestamp("us", tz="UTC") == columns[8].type
