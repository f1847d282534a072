"""Random schemas and values: what the sink writes is what the decoder reads, and many at once as one by one."""

import datetime
import random
import string
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from penstock.decoders.avro import AvroPayloads
from penstock.decoders.avro_columns import avro_columns
from penstock.decoders.columns import settled
from penstock.schemas.avro import AvroSchema
from penstock.sinks.kafka_encoding import avro_of

EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)


def kind(dice: random.Random, depth: int = 0) -> pa.DataType:
    """Choose a type that a table may have; below the third level a simple one."""
    simple: list[pa.DataType] = [
        *(pa.bool_(), pa.int32(), pa.int64(), pa.float32(), pa.float64(), pa.string(), pa.binary(), pa.date32()),
        *(pa.timestamp("us", tz="UTC"), pa.timestamp("us"), pa.decimal128(dice.randint(3, 38), dice.randint(0, 3))),
    ]
    if depth > 1 or dice.random() < 0.7:
        return dice.choice(simple)
    match dice.randrange(3):
        case 0:
            return pa.list_(kind(dice, depth + 1))
        case 1:
            return pa.map_(pa.string(), kind(dice, depth + 1))
        case _:
            return pa.struct([(f"f{number}", kind(dice, depth + 1)) for number in range(dice.randint(1, 3))])


def value(dice: random.Random, kind: pa.DataType) -> Any:
    """Make a value of a type, often one at an edge of it; null now and then."""
    if dice.random() < 0.15:
        return None
    if pa.types.is_struct(kind):
        return {field.name: value(dice, field.type) for field in kind}
    if pa.types.is_map(kind):
        return {text(dice): value(dice, kind.item_type) for _ in range(dice.randrange(4))}
    if pa.types.is_list(kind):
        return [value(dice, kind.value_type) for _ in range(dice.randrange(4))]
    if pa.types.is_decimal(kind):
        most = 10**kind.precision - 1
        return Decimal(f"{dice.choice([0, most, -most, dice.randint(-most, most)])}e{-kind.scale}")
    if pa.types.is_timestamp(kind):
        at = EPOCH + datetime.timedelta(microseconds=dice.randint(-(10**16), 10**17))
        return at if kind.tz else at.replace(tzinfo=None)
    made: dict[str, Callable[[], Any]] = {
        "bool": lambda: dice.random() < 0.5,
        "int32": lambda: dice.choice([0, 2**31 - 1, -(2**31), dice.randint(-300, 300)]),
        "int64": lambda: dice.choice([0, 2**63 - 1, -(2**63), 2**53 + 1, dice.randint(-300, 300)]),
        "float": lambda: dice.choice([0.0, -0.0, float("inf"), 1.5, -(2.0**100)]),
        "double": lambda: dice.choice([0.0, -0.0, float("-inf"), dice.uniform(-1e300, 1e300)]),
        "string": lambda: text(dice),
        "binary": lambda: dice.randbytes(dice.choice([0, 1, 130])),
        "date32[day]": lambda: datetime.date.fromordinal(dice.randint(1, datetime.date.max.toordinal())),
    }
    return made[str(kind)]()


def text(dice: random.Random) -> str:
    return "".join(dice.choices([*string.ascii_letters, "é", "漢", "😀", "\x00"], k=dice.choice([0, 1, 5, 70, 200])))


@pytest.mark.parametrize("seed", range(60))
def test_what_is_written_by_the_columns_of_a_sink_is_read_as_the_same_rows(seed: int) -> None:
    dice = random.Random(seed)
    columns = pa.schema([(f"c{number}", kind(dice)) for number in range(dice.randint(1, 6))])
    rows = [{field.name: value(dice, field.type) for field in columns} for _ in range(dice.choice([1, 30]))]
    table = pa.RecordBatch.from_pylist(rows, columns)
    schema = AvroSchema(avro_of("orders", columns))
    payloads = [schema.encode(row) for row in table.to_pylist(maps_as_pydicts="strict")]
    decoder = AvroPayloads(schema, tuple(map(settled, avro_columns(schema).columns)))

    at_once, errors = decoder.decode(payloads)
    decoder._vectors = None
    one_by_one, _ = decoder.decode(payloads)

    assert [None] * len(rows) == errors
    assert table.to_pydict() == {name: each.to_pylist() for name, each in zip(columns.names, at_once, strict=True)}
    assert [True] * len(at_once) == [each.equals(other) for each, other in zip(at_once, one_by_one, strict=True)]
