from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from penstock.decoders.json import Json
from penstock.record.decoded import Decoded
from penstock.sinks.rows import plain_rows

from support.events import OPENING


def decode(schema: str, *values: bytes | None, **options: Any) -> Decoded:
    return Json(schema=schema, **options).open(OPENING).decode(values)


def error_of(schema: str, value: bytes | None, **options: Any) -> str | None:
    """Return the class of the error; a failed record has no values, and is not dropped."""
    decoded = decode(schema, value, **options)
    assert [False] == decoded.dropped
    (record_error,) = decoded.record_errors
    if record_error is not None:
        assert "decode" == record_error["stage"]
        assert [[None]] * len(decoded.columns) == [column.to_pylist() for column in decoded.columns]
    return record_error["error"] if record_error is not None else None


WIDTHS = {"tinyint": 8, "smallint": 16, "int": 32, "bigint": 64}


@pytest.mark.parametrize(("kind", "bits"), WIDTHS.items())
def test_an_integer_beyond_its_width_fails(kind: str, bits: int) -> None:
    beyond = [-(2 ** (bits - 1)) - 1, 2 ** (bits - 1), 10**30, int("1" * 4000)]

    assert {"SchemaMismatch"} == {error_of(f"a {kind}", b'{"a": ' + str(value).encode() + b"}") for value in beyond}


@pytest.mark.parametrize("written", [b"1e39", b"-1e39", b"3.5e38"])
def test_a_number_beyond_a_float_fails_rather_than_becoming_infinite(written: bytes) -> None:
    assert "SchemaMismatch" == error_of("a float", b'{"a": ' + written + b"}")


@pytest.mark.parametrize("kind", ["array<float>", "struct<x: float>", "map<string, float>"])
def test_a_number_beyond_a_float_fails_inside_of_others_too(kind: str) -> None:
    written = {"array<float>": b"[1e39]"}.get(kind, b'{"x": 1e39}')

    assert "SchemaMismatch" == error_of(f"a {kind}", b'{"a": ' + written + b"}")


@pytest.mark.parametrize("written", [b"1e400", b"-1e400", b"1" * 400])
def test_a_number_beyond_a_double_fails(written: bytes) -> None:
    assert "SchemaMismatch" == error_of("a double", b'{"a": ' + written + b"}")


@pytest.mark.parametrize(
    ("kind", "written"),
    [
        ("int", b'"1"'),
        ("int", b"1.0"),
        ("int", b"1.5"),
        ("int", b"1e2"),
        ("int", b"true"),
        ("int", b"[1]"),
        ("string", b"1"),
        ("string", b"true"),
        ("string", b'{"x": 1}'),
        ("boolean", b"1"),
        ("boolean", b'"true"'),
        ("double", b'"1.5"'),
        ("double", b'"NaN"'),
        ("decimal(5,2)", b"true"),
        ("decimal(5,2)", b'"x"'),
        ("decimal(5,2)", b'"NaN"'),
        ("decimal(5,2)", b'"Infinity"'),
        ("binary", b'"!!"'),
        ("binary", b'"QQ"'),
        ("date", b'"2026-13-01"'),
        ("date", b'"2026-01-31T00:00:00"'),
        ("date", b"20484"),
        ("timestamp", b'"2026-02-30T00:00:00Z"'),
        ("timestamp", b'"2026-01-31"'),
        ("timestamp", b"1769817600"),
        ("array<int>", b"{}"),
        ("array<int>", b'["x"]'),
        ("array<int>", b"[2147483648]"),
        ("map<string, int>", b"[]"),
        ("map<string, int>", b'{"x": "y"}'),
        ("struct<x: int>", b"[]"),
        ("struct<x: int>", b'{"x": "y"}'),
    ],
)
def test_a_wrong_type_fails_and_nothing_is_coerced(kind: str, written: bytes) -> None:
    assert "SchemaMismatch" == error_of(f"a {kind}", b'{"a": ' + written + b"}")


@pytest.mark.parametrize("written", [b"1.234", b"12345.6", b"1000", b"999.995", b"1e400", b'"1e-3"', b"1" * 5000])
def test_a_decimal_that_does_not_fit_fails_rather_than_being_rounded(written: bytes) -> None:
    assert "SchemaMismatch" == error_of("a decimal(5,2)", b'{"a": ' + written + b"}")


@pytest.mark.parametrize(
    ("kind", "written"), [("array<decimal(3,1)>", b"[1000]"), ("struct<x: decimal(3,1)>", b'{"x": 1.25}')]
)
def test_a_decimal_that_does_not_fit_fails_inside_of_others_too(kind: str, written: bytes) -> None:
    assert "SchemaMismatch" == error_of(f"a {kind}", b'{"a": ' + written + b"}")


def test_a_value_that_does_not_fit_fails_its_own_record_only() -> None:
    decoded = decode("a decimal(3,1), b string", b'{"a":1,"b":"x"}', b'{"a":1.25,"b":"y"}', b'{"a":2,"b":"z"}')

    assert [False, True, False] == [record_error is not None for record_error in decoded.record_errors]
    assert [Decimal("1.0"), None, Decimal("2.0")] == decoded.columns[0].to_pylist()
    assert "a: " == (decoded.record_errors[1] or {})["message"][:3]


@pytest.mark.parametrize(
    "value",
    [
        b"{",
        b'{"a": 1',
        b'{"a": }',
        b'{"a": 1,}',
        b"{,}",
        b"{a: 1}",
        b"{'a': 1}",
        b'{"a": NaN}',
        b'{"a": Infinity}',
        b'{"a": +1}',
        b'{"a": 01}',
        b'{"a": 0x10}',
        b'// x\n{"a": 1}',
        b"not json",
        b"\x00",
        b"\xff",
        b'\xef\xbb\xbf{"a": 1}',
        '{"a": 1}'.encode("utf-16"),
        b"\x1f\x8b\x08",
        b'{"b": [}',
    ],
)
def test_bytes_that_are_no_json_are_malformed(value: bytes) -> None:
    assert "Malformed" == error_of("a int", value)


@pytest.mark.parametrize("value", [b'{"a": 1} x', b'{"a": 1}{"a": 2}', b'{"a": 1}\x00', b'{"a": 1},', b'{"a": 1}}'])
def test_text_after_the_closing_brace_is_malformed(value: bytes) -> None:
    assert "Malformed" == error_of("a int", value)


@pytest.mark.parametrize("value", [b"[]", b'[{"a": 1}]', b"null", b"3", b"1.5", b'"x"', b"true"])
def test_anything_but_an_object_fails(value: bytes) -> None:
    assert "SchemaMismatch" == error_of("a int", value)


@pytest.mark.parametrize("value", [b"", b" ", b"\n", b" \r\n\t "])
def test_a_value_without_anything_in_it_is_empty(value: bytes) -> None:
    assert "EmptyValue" == error_of("a int", value)


@pytest.mark.parametrize(
    "value",
    [
        b'{"a": "\\ud800"}',
        b'{"a": "\\ud800 and more text after it"}',
        b'{"a": "\\udc00"}',
        b'{"a": "\\ud800\\u0041"}',
        b'{"\\ud800": 1}',
        b'{"b": "\\ud800"}',
        b'{"a": "\xed\xa0\x80"}',
        b'{"a": "\xff"}',
    ],
)
def test_half_a_character_is_malformed(value: bytes) -> None:
    assert "Malformed" == error_of("a string", value)


@pytest.mark.parametrize("value", [b'{"a": "x", "b": "\xff"}', b'{"a": "x", "b\xff": 1}'])
def test_text_in_fields_that_nobody_asked_for_is_not_looked_at(value: bytes) -> None:
    assert None is error_of("a string", value)


@pytest.mark.parametrize("value", [b"{}", b'{"a": null}', b'{"A": 1}'])
def test_a_required_field_that_is_missing_or_null_fails(value: bytes) -> None:
    assert "SchemaMismatch" == error_of("a int NOT NULL", value)


@pytest.mark.parametrize("written", [b"{}", b'{"x": null}', b'{"x": 1, "y": [{}]}'])
def test_a_required_field_inside_of_others_that_is_missing_or_null_fails(written: bytes) -> None:
    schema = "a struct<x: int NOT NULL, y: array<struct<z: int NOT NULL>>>"

    assert "SchemaMismatch" == error_of(schema, b'{"a": ' + written + b"}")


@pytest.mark.parametrize("value", [b'{"a": {"x": 1}, "b": 1}', b'{"a": {"x": 1, "y": 2}}', b'{"A": null}'])
def test_unknown_fields_fail_if_they_are_to(value: bytes) -> None:
    assert "SchemaMismatch" == error_of("a struct<x: int>", value, unknown_fields="dead_letter")


def test_a_tombstone_fails_unless_told_otherwise() -> None:
    assert "Tombstone" == error_of("a int", None)


def test_a_tombstone_is_dropped_if_it_is_to_be_and_only_a_tombstone() -> None:
    decoded = decode("a int NOT NULL", None, b'{"a": 1}', b"null", b"", None, tombstones="drop")

    assert [True, False, False, False, True] == decoded.dropped
    assert [None, None, "SchemaMismatch", "EmptyValue", None] == [
        each and each["error"] for each in decoded.record_errors
    ]


def test_a_record_as_large_as_allowed_passes_and_a_larger_one_fails() -> None:
    assert None is error_of("a int", b'{"a": 1}', max_record_bytes=8)
    assert "TooLarge" == error_of("a int", b'{"a": 1 }', max_record_bytes=8)


def test_white_space_that_is_too_large_fails_whatever_it_is_called() -> None:
    assert error_of("a int", b" " * 9, max_record_bytes=8) in {"TooLarge", "EmptyValue"}


@pytest.mark.parametrize("depth", [1, 64, 500])
def test_brackets_as_deep_as_allowed_pass_and_deeper_ones_fail(depth: int) -> None:
    inner = b"[" * (depth - 1) + b"]" * (depth - 1)
    deeper = b"[" * depth + b"]" * depth

    assert None is error_of("a int", b'{"b": %s}' % (inner or b"1"), max_depth=depth)
    assert "TooDeep" == error_of("a int", b'{"b": %s}' % deeper, max_depth=depth)


@pytest.mark.parametrize(
    "value",
    [
        b"[" * 100_000,
        b"{" * 100_000,
        b'{"b":' * 100_000,
        b'{"b": ' + b"[" * 100_000 + b"]" * 100_000 + b"}",
        b'{"a": ' + b'{"x": ' * 100_000 + b"1" + b"}" * 100_001,
    ],
)
def test_a_hundred_thousand_brackets_fail_and_do_no_harm(value: bytes) -> None:
    assert "TooDeep" == error_of("a int", value)


@pytest.mark.parametrize(
    "value",
    [
        b'{"a": "' + b"[{" * 200 + b'"}',
        b'{"a": "\\"' + b"[{" * 200 + b'"}',
        b'{"a": "\\\\", "b": "' + b"[" * 200 + b'"}',
        b'{"a": "x", "b": [' + b",".join([b"[{}]"] * 200) + b"]}",
        b'{"a": "\\\\\\"' + b"[{" * 200 + b'\\n"}',
    ],
)
def test_brackets_in_strings_and_side_by_side_are_not_deep(value: bytes) -> None:
    assert None is error_of("a string", value)


def test_a_column_without_a_zone_does_not_move_the_clock_of_a_time_that_has_one() -> None:
    assert "SchemaMismatch" == error_of("a timestamp_ntz", b'{"a": "2026-01-31T12:00:00+02:00"}')


@pytest.mark.parametrize("kind", ["timestamp", "array<timestamp>", "timestamp_ntz"])
@pytest.mark.parametrize("written", [b'"0001-01-01T00:00:00+14:00"', b'"9999-12-31T23:59:59-14:00"'])
def test_a_time_that_its_zone_moves_beyond_the_calendar_fails_here_and_not_in_a_sink(kind: str, written: bytes) -> None:
    decoded = decode(f"a {kind}", b'{"a": ' + (b"[%s]" % written if "array" in kind else written) + b"}")

    assert ["SchemaMismatch"] == [each and each["error"] for each in decoded.record_errors]
    assert [{"a": None}] == list(plain_rows(pa.RecordBatch.from_arrays(decoded.columns, ["a"])))


@pytest.mark.parametrize(
    "written", ["2026-01-31T12:00:60Z", "2026-01-31T24:00:00Z", "2026-1-31T12:00:00Z", "12:00:00", ""]
)
def test_a_time_that_is_none_fails(written: str) -> None:
    assert "SchemaMismatch" == error_of("a timestamp", b'{"a": "%s"}' % written.encode())


def test_a_key_that_stands_twice_is_checked_each_time() -> None:
    assert "SchemaMismatch" == error_of("a int", b'{"a": "x", "a": 2}')


def test_a_long_complaint_is_cut_for_it_travels_in_a_header() -> None:
    decoded = decode("a int", b'{"' + b"x" * 10_000 + b'": 1}', unknown_fields="dead_letter")

    assert 500 >= len((decoded.record_errors[0] or {})["message"])


def test_a_complaint_can_be_written_as_text_whatever_the_record_held() -> None:
    decoded = decode(
        "a int", b'{"\\ud83d\\ude00\xc3\xbc": 1}', b'{"\xed\xa0\x80": 1}', b"\xff", unknown_fields="dead_letter"
    )

    assert all((record_error or {})["message"].encode() for record_error in decoded.record_errors)
