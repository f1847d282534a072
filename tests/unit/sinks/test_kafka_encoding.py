"""Rows of a kafka sink by a schema: made of the columns, or of a file."""

import datetime
import json
import pickle
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from penstock.errors import BadInput, NotFound
from penstock.record.schema import parse
from penstock.schemas.serializer import Deserializer
from penstock.sinks.kafka_encoding import Encode, avro_of, encoding

from support.registry_stub import RegistryStub, registry_stub

COLUMNS = (
    "b boolean, t tinyint, s smallint, i int, l bigint, f float, d double, n string, r binary, day date, at timestamp,"
    " clock timestamp_ntz, price decimal(9,2), tags array<string>, counts map<string, int>,"
    " place struct<x: int, y: int>"
)
NOON = datetime.datetime(2026, 1, 31, 12, tzinfo=datetime.UTC)
ROW: dict[str, Any] = {
    "b": True, "t": 1, "s": 2, "i": 3, "l": 2**40, "f": 1.5, "d": 0.1, "n": "é", "r": b"\xff",
    "day": datetime.date(2026, 1, 31), "at": NOON, "clock": NOON.replace(tzinfo=None), "price": Decimal("1.50"),
    "tags": ["a", None], "counts": {"k": 1}, "place": {"x": 1, "y": None},
}  # fmt: skip


@pytest.fixture
def stub() -> Iterator[RegistryStub]:
    with registry_stub() as running:
        yield running


def test_every_kind_of_column_comes_back_by_the_schema_that_is_made_of_them(stub: RegistryStub) -> None:
    schema = parse(COLUMNS)
    made = pickle.loads(pickle.dumps(encoding(Encode(registry=stub.registry), "orders.out", schema)))  # noqa: S301
    nothing = dict.fromkeys(ROW)

    values = made.values(pa.RecordBatch.from_pylist([ROW, nothing], schema))

    reader = Deserializer(stub.registry)
    assert [ROW, nothing] == [reader.decode(each).value for each in values]
    assert ["orders.out-value"] == list(stub.subjects)


def test_a_schema_of_a_file_is_found_under_its_subject_and_rows_are_checked_by_it(
    stub: RegistryStub, tmp_path: Path
) -> None:
    file = tmp_path / "order.json"
    file.write_text(json.dumps({"type": "object", "properties": {"id": {"type": "integer", "minimum": 1}}}))
    stub.add("shared", file.read_text(), "JSON")
    encode = Encode(registry=stub.registry, schema_file=file, subject="shared", register_schema=False)
    made = encoding(encode, "orders", parse("id bigint"))

    values = made.values(pa.RecordBatch.from_pydict({"id": [1]}))

    assert [b'\x00\x00\x00\x00\x01{"id":1}'] == values
    with pytest.raises(ValueError, match="id: 0 is less than the minimum"):
        made.values(pa.RecordBatch.from_pydict({"id": [0]}))
    with pytest.raises(NotFound, match="'orders-value' does not have this schema"):
        encoding(encode.model_copy(update={"subject": None}), "orders", parse("id bigint"))


def test_a_null_that_protobuf_has_no_word_for_is_refused(stub: RegistryStub, tmp_path: Path) -> None:
    file = tmp_path / "order.proto"
    file.write_text(
        'syntax = "proto3"; message Order { int64 id = 1; optional string note = 2; repeated int32 n = 3; }'
    )
    schema = parse("id bigint, note string, n array<int>")
    made = encoding(Encode(registry=stub.registry, schema_file=file), "orders", schema)

    values = made.values(pa.RecordBatch.from_pylist([{"id": 1, "note": None, "n": None}], schema))

    assert [b"\x00\x00\x00\x00\x01\x00\x08\x01"] == values
    with pytest.raises(ValueError, match="id: null, which the field could not tell from a value"):
        made.values(pa.RecordBatch.from_pylist([{"id": None}], schema))


@pytest.mark.parametrize(
    ("row", "told"),
    [
        ({"customer": {"id": None}}, r"customer\.id: null"),
        ({"lines": [{"id": 1}, {"id": None}]}, r"lines\.id: null"),
        ({"shopId": None}, "shopId: null"),
    ],
)
def test_a_null_inside_of_a_message_or_under_its_name_in_json_is_refused_too(
    stub: RegistryStub, tmp_path: Path, row: dict[str, Any], told: str
) -> None:
    file = tmp_path / "order.proto"
    file.write_text(
        'syntax = "proto3"; message Order { Part customer = 1; repeated Part lines = 2; int64 shop_id = 3; }'
        " message Part { int64 id = 1; }"
    )
    schema = parse("customer struct<id: bigint>, lines array<struct<id: bigint>>, shopId bigint")
    made = encoding(Encode(registry=stub.registry, schema_file=file), "orders", schema)
    whole = {"customer": None, "lines": None, "shopId": 1}

    assert [b"\x00\x00\x00\x00\x01\x00\x18\x01"] == made.values(pa.RecordBatch.from_pylist([whole], schema))
    with pytest.raises(ValueError, match=told):
        made.values(pa.RecordBatch.from_pylist([{**whole, **row}], schema))


def test_a_null_inside_of_a_key_is_refused_and_a_null_key_stays_one(stub: RegistryStub, tmp_path: Path) -> None:
    file = tmp_path / "key.proto"
    file.write_text('syntax = "proto3"; message Key { int64 id = 1; }')
    schema = parse("k struct<id: bigint>")
    encode = Encode(registry=stub.registry, keys=True, key_schema_file=file)
    made = encoding(encode, "orders", schema, "k").key

    assert made is not None
    values = made.encoded(pa.RecordBatch.from_pylist([{"k": {"id": 7}}, {"k": None}], schema), "k")

    assert [b"\x00\x00\x00\x00\x02\x00\x08\x07", None] == values
    with pytest.raises(ValueError, match="id: null"):
        made.encoded(pa.RecordBatch.from_pylist([{"k": {"id": None}}], schema), "k")


@pytest.mark.parametrize(
    ("kind", "key"), [("bigint", 7), ("string", "é"), ("struct<a: int, b: string>", {"a": 1, "b": None})]
)
def test_keys_are_by_a_schema_of_their_own_and_a_null_stays_one(stub: RegistryStub, kind: str, key: Any) -> None:
    schema = parse(f"k {kind}, n string")
    made = encoding(Encode(registry=stub.registry, keys=True), "orders.out", schema, "k")
    rows = pa.RecordBatch.from_pylist([{"k": key, "n": "a"}, {"k": None, "n": "b"}], schema)
    assert made.key is not None

    keys = made.key.encoded(rows.select(["k"]), "k")

    assert None is keys[1]
    assert key == Deserializer(stub.registry).decode(keys[0] or b"").value
    assert ["orders.out-value", "orders.out-key"] == list(stub.subjects)


def test_keys_by_a_schema_of_a_file_are_checked_by_it(stub: RegistryStub, tmp_path: Path) -> None:
    file = tmp_path / "key.json"
    file.write_text(json.dumps({"type": "string", "maxLength": 3}))
    encode = Encode(registry=stub.registry, keys=True, key_schema_file=file)
    made = encoding(encode, "orders", parse("k string"), "k")
    assert made.key is not None

    assert [b'\x00\x00\x00\x00\x02"abc"'] == made.key.encoded(pa.RecordBatch.from_pydict({"k": ["abc"]}), "k")
    with pytest.raises(ValueError, match="is too long"):
        made.key.encoded(pa.RecordBatch.from_pydict({"k": ["abcd"]}), "k")
    with pytest.raises(ValueError, match="belongs to `keys: true`"):
        Encode(key_schema_file=file)


def test_a_name_that_avro_does_not_allow_is_told() -> None:
    with pytest.raises(BadInput, match="the column 'a-b' has a name that Avro does not allow"):
        avro_of("orders", pa.schema([("a-b", pa.int32())]))
