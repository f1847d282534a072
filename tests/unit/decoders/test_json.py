import datetime
import json
import pickle
import random
import re
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from pydantic import ValidationError

from penstock.decoders.json import Json
from penstock.record.decoded import Decoded
from penstock.sinks.rows import plain_rows

from support.events import OPENING

UTC = datetime.UTC


def decode(schema: str, *values: bytes | None, **options: Any) -> Decoded:
    return Json(schema=schema, **options).open(OPENING).decode(values)


def value_of(schema: str, value: bytes, **options: Any) -> Any:
    """Return the one column of the one record, which must not fail."""
    decoded = decode(schema, value, **options)
    assert [None] == decoded.record_errors
    return decoded.columns[0].to_pylist()[0]


@pytest.mark.parametrize(
    ("kind", "written", "expected"),
    [
        ("string", b'"x"', "x"),
        ("string", b'""', ""),
        ("string", b'"\\u0000"', "\x00"),
        ("string", b'"\\ud83d\\ude00"', "😀"),
        ("boolean", b"true", True),
        ("double", b"1.5", 1.5),
        ("double", b"1", 1.0),
        ("double", b"-0.0", -0.0),
        ("double", b"1E5", 100_000.0),
        ("float", b"1.5", 1.5),
        ("binary", b'"AAEC"', b"\x00\x01\x02"),
        ("date", b'"2026-01-31"', datetime.date(2026, 1, 31)),
        ("decimal(5,2)", b"1.23", Decimal("1.23")),
        ("decimal(5,2)", b'"1.23"', Decimal("1.23")),
        ("decimal(5,2)", b'"1_0"', Decimal("10.00")),
        ("decimal(5,2)", b"1", Decimal("1.00")),
        ("decimal(5,2)", b"1e2", Decimal("100.00")),
        (
            "decimal(38,10)",
            b"1234567890123456789012345678.0123456789",
            Decimal("1234567890123456789012345678.0123456789"),
        ),
        ("array<int>", b"[1, null, 2]", [1, None, 2]),
        ("array<int>", b"[]", []),
        ("array<array<string>>", b'[["a"], [], null]', [["a"], [], None]),
        ("map<string, int>", b'{"x": 1, "": null}', [("x", 1), ("", None)]),
        ("map<string, struct<x: int>>", b'{"k": {"x": 1}, "l": {}}', [("k", {"x": 1}), ("l", {"x": None})]),
        ("struct<x: int, y: array<string>>", b'{"x": 1, "y": ["a"]}', {"x": 1, "y": ["a"]}),
        ("struct<x: struct<y: decimal(3,1)>>", b'{"x": {"y": 1.5}}', {"x": {"y": Decimal("1.5")}}),
    ],
)
def test_each_type_is_read_as_it_stands(kind: str, written: bytes, expected: Any) -> None:
    assert expected == value_of(f"a {kind}", b'{"a": ' + written + b"}")


@pytest.mark.parametrize(("kind", "bits"), [("tinyint", 8), ("smallint", 16), ("int", 32), ("bigint", 64)])
def test_the_least_and_the_greatest_integer_of_each_width_fit(kind: str, bits: int) -> None:
    least, greatest = -(2 ** (bits - 1)), 2 ** (bits - 1) - 1

    assert [least, greatest] == [value_of(f"a {kind}", b'{"a": %d}' % value) for value in (least, greatest)]


def test_white_space_around_the_object_is_no_fault() -> None:
    assert 1 == value_of("a int", b'\r\n\t {"a": 1} \r\n\t')


def test_a_field_that_is_missing_and_not_required_is_null() -> None:
    decoded = decode("a int, b string", b'{"a": 1}', b'{"b": "x"}', b"{}", b'{"a": null}')

    assert [None] * 4 == decoded.record_errors
    assert [[1, None, None, None], [None, "x", None, None]] == [each.to_pylist() for each in decoded.columns]


def test_a_struct_that_is_null_needs_no_required_fields() -> None:
    assert None is value_of("a struct<x: int NOT NULL>", b'{"a": null}')


def test_unknown_fields_are_ignored_unless_told_otherwise() -> None:
    value = b'{"a": {"x": 1, "y": 2}, "b": [{}, {"c": 1e400}]}'

    assert {"x": 1} == value_of("a struct<x: int>", value)


def test_known_fields_pass_where_unknown_ones_fail() -> None:
    assert {"x": 1} == value_of("a struct<x: int>", b'{"a": {"x": 1}}', unknown_fields="dead_letter")


def test_a_schema_deeper_than_the_limit_still_decodes_shallow_records() -> None:
    schema = "a " + "struct<x: " * 100 + "int" + ">" * 100

    assert {"x": {"x": None}} == value_of(schema, b'{"a": {"x": {"x": null}}}')


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("2026-01-31T12:00:00Z", datetime.datetime(2026, 1, 31, 12, tzinfo=UTC)),
        ("2026-01-31T12:00:00+02:00", datetime.datetime(2026, 1, 31, 10, tzinfo=UTC)),
        ("2026-01-31T12:00:00-05:30", datetime.datetime(2026, 1, 31, 17, 30, tzinfo=UTC)),
        ("2026-01-31 12:00:00Z", datetime.datetime(2026, 1, 31, 12, tzinfo=UTC)),
        ("2026-01-31T12:00:00.123456Z", datetime.datetime(2026, 1, 31, 12, 0, 0, 123456, tzinfo=UTC)),
        ("0001-01-01T00:00:00Z", datetime.datetime(1, 1, 1, tzinfo=UTC)),
        ("9999-12-31T23:59:59.999999Z", datetime.datetime(9999, 12, 31, 23, 59, 59, 999999, tzinfo=UTC)),
    ],
)
def test_a_time_with_a_zone_is_that_moment(written: str, expected: datetime.datetime) -> None:
    assert expected == value_of("a timestamp", b'{"a": "%s"}' % written.encode())


def test_a_time_without_a_zone_counts_as_utc() -> None:
    expected = datetime.datetime(2026, 1, 31, 12, tzinfo=UTC)

    assert expected == value_of("a timestamp", b'{"a": "2026-01-31T12:00:00"}')


def test_times_of_several_zones_and_of_none_stand_side_by_side() -> None:
    texts = ["2026-03-01T10:00:00Z", "2026-03-01T12:00:00.000001+02:00", None, "1969-12-31T23:59:59.999999Z"]
    with_zone = decode("at timestamp", *(json.dumps({"at": text}).encode() for text in texts))
    one_without = decode(
        "at timestamp", *(json.dumps({"at": text}).encode() for text in [*texts, "2026-03-01T10:00:00"])
    )

    ten = datetime.datetime(2026, 3, 1, 10, tzinfo=datetime.UTC)
    us = datetime.timedelta(microseconds=1)
    expected = [ten, ten + us, None, datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC) - us]
    assert expected == with_zone.columns[0].to_pylist()
    assert [*expected, ten] == one_without.columns[0].to_pylist()


def test_a_column_without_a_zone_takes_times_without_one() -> None:
    expected = datetime.datetime(2026, 1, 31, 12)  # noqa: DTZ001 - that is the point

    assert expected == value_of("a timestamp_ntz", b'{"a": "2026-01-31T12:00:00"}')


def test_keys_that_are_no_identifiers_are_fields_like_any_other() -> None:
    names = ["a b", "a-b", "a.b", "f0", "f1", "1", "class", "ü", "😀", "x`y", "\u00e9", "e\u0301"]
    schema = ", ".join(f"`{name.replace('`', '``')}` int" for name in names)
    value = json.dumps({name: number for number, name in enumerate(names)}).encode()

    decoded = decode(schema, value, unknown_fields="dead_letter")

    assert [None] == decoded.record_errors
    assert [[number] for number in range(len(names))] == [each.to_pylist() for each in decoded.columns]


@pytest.mark.parametrize("name", ['q"q', "back\\slash", "new\nline"])
@pytest.mark.parametrize("schema", ["`{}` int", "a struct<`{}`: int>"])
def test_a_key_that_the_decoder_cannot_look_for_is_refused_with_the_schema_and_not_in_a_task(
    schema: str, name: str
) -> None:
    with pytest.raises(ValidationError, match=f"{re.escape(name)}': quotation marks"):
        Json(schema=schema.format(name))


def test_the_neutral_names_that_fields_have_inside_are_no_keys() -> None:
    assert None is value_of("a int", b'{"f0": 7}')


@pytest.mark.parametrize(
    ("schema", "value", "expected"),
    [
        ("a int", b'{"a": 1, "a": 2}', 2),
        ("a int", b'{"a": 1, "\\u0061": 2}', 2),
        ("a int", b'{"a": 1, "a": null}', None),
        ("a map<string, int>", b'{"a": {"x": 1, "x": 2}}', [("x", 2)]),
        ("a struct<x: int>", b'{"a": {"x": 1, "x": 2}}', {"x": 2}),
    ],
)
def test_of_a_key_that_stands_twice_the_last_counts(schema: str, value: bytes, expected: Any) -> None:
    assert expected == value_of(schema, value)


def test_columns_have_exactly_the_types_of_the_schema_whatever_failed() -> None:
    spec = Json(schema="a tinyint, b map<string, decimal(3,1)>, c timestamp, d struct<x: float>")

    for values in ([], [b"{}"], [b"x", None], [b'{"b": {"x": 1.25}}']):
        decoded = spec.open(OPENING).decode(values)

        assert [field.type for field in spec.arrow_schema or ()] == [column.type for column in decoded.columns]
        assert {len(values)} == {len(column) for column in decoded.columns}
        assert len(values) == len(decoded.record_errors) == len(decoded.dropped)


def test_the_model_travels_to_the_tasks_and_decodes_there() -> None:
    arrived = pickle.loads(pickle.dumps(Json(schema="a int NOT NULL")))  # noqa: S301 - our own bytes

    assert [[1]] == [column.to_pylist() for column in arrived.open(OPENING).decode([b'{"a": 1}']).columns]


@pytest.mark.parametrize(
    "options",
    [
        {"schema": "a bogus"},
        {"schema": ""},
        {"schema": "a int", "max_depth": 0},
        {"schema": "a int", "max_depth": 501},
        {"schema": "a int", "max_record_bytes": 0},
        {"schema": "a int", "max_record_bytes": "unlimited"},
        {"schema": "a int", "unknown_fields": "warn"},
        {"schema": "a int", "tombstones": "keep"},
        {"schema": "a int", "bogus": 1},
        {"columns": "a int"},
        {},
    ],
)
def test_a_model_that_could_not_decode_is_refused(options: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        Json(**options)


@pytest.mark.parametrize("seed", range(20))
def test_what_is_written_as_json_is_read_back_the_same(seed: int) -> None:
    dice = random.Random(seed)
    schema = (
        "i bigint, s string, d double, b boolean, m decimal(20,4), t timestamp,"
        " l array<struct<x: int, y: string>>, k map<string, array<double>>"
    )
    rows = [_row(dice) for _ in range(50)]

    decoded = decode(schema, *(json.dumps(row, default=str, ensure_ascii=dice.random() < 0.5).encode() for row in rows))

    assert [None] * 50 == decoded.record_errors
    names = ["i", "s", "d", "b", "m", "t", "l", "k"]
    table = pa.RecordBatch.from_arrays(decoded.columns, names).to_pylist(maps_as_pydicts="strict")
    assert [{name: row.get(name) for name in names} for row in rows] == table


def _row(dice: random.Random) -> dict[str, Any]:
    def text() -> str:
        return "".join(
            chr(dice.choice([dice.randrange(32, 127), dice.randrange(0xA0, 0xD800), 0x1F600, 0, 34, 92]))
            for _ in range(9)
        )

    def maybe(value: Any) -> Any:
        return None if dice.random() < 0.1 else value

    row = {
        "i": maybe(dice.randrange(-(2**63), 2**63)),
        "s": maybe(text()),
        "d": maybe(dice.uniform(-1e300, 1e300)),
        "b": maybe(dice.random() < 0.5),
        "m": maybe(Decimal(dice.randrange(-(10**20) + 1, 10**20)).scaleb(-4)),
        "t": maybe(datetime.datetime(2026, 1, 1, tzinfo=UTC) + datetime.timedelta(microseconds=dice.randrange(10**15))),
        "l": maybe(
            [maybe({"x": dice.randrange(-(2**31), 2**31), "y": maybe(text())}) for _ in range(dice.randrange(4))]
        ),
        "k": maybe({text(): maybe([maybe(dice.random())]) for _ in range(dice.randrange(4))}),
    }
    for name in list(row):
        if row[name] is None and dice.random() < 0.5:
            del row[name]
    return row


@pytest.mark.parametrize("seed", range(20))
def test_damaged_records_fail_or_pass_and_never_break_the_decoder(seed: int) -> None:
    dice = random.Random(seed)
    whole = json.dumps(_row(dice), default=str).encode()
    damaged = []
    for _ in range(200):
        bytes_ = bytearray(whole)
        for _ in range(dice.randrange(1, 4)):
            bytes_[dice.randrange(len(bytes_))] = dice.randrange(256)
        damaged.append(bytes(bytes_[: dice.randrange(len(bytes_) + 1)]))
    spec = Json(
        schema="i bigint NOT NULL, s string, m decimal(20,4), t timestamp,"
        " l array<struct<x: int>>, k map<string, array<double>>"
    )

    decoded = spec.open(OPENING).decode(damaged)

    assert spec.arrow_schema is not None
    batch = pa.RecordBatch.from_arrays(decoded.columns, spec.arrow_schema.names)
    batch.validate(full=True)
    assert [True] * 200 == [
        record_error is not None or row["i"] is not None
        for record_error, row in zip(decoded.record_errors, plain_rows(batch), strict=True)
    ]
