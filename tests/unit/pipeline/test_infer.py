"""Columns from a sample of records."""

import json

import pytest

from penstock.pipeline.infer import Sample, infer
from penstock.record.schema import parse


def sample(*documents: object, key: bytes | None = None) -> Sample:
    return infer((key, json.dumps(each).encode()) for each in documents)


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([1, 2], "bigint"),
        ([1, 2.5], "double"),
        ([2**64], "double"),
        ([True, None], "boolean"),
        (["2026-01-31T12:00:00Z", "2026-01-31T12:00:00.5+02:00"], "timestamp"),
        (["2026-01-31"], "date"),
        (["2026-01-31T12:00:00Z", "soon"], "string"),
        (["2026-01-31T12:00:00"], "string"),
        ([None], "string"),
        ([[1], [2.5], []], "array<double>"),
        ([{"a": 1}, {"b": "x"}], "struct<a: bigint, b: string>"),
        ([{}], "string"),
        ([[{"a": [1]}]], "array<struct<a: array<bigint>>>"),
        ([1, 2, "three"], "bigint"),
    ],
)
def test_a_type_takes_most_of_what_was_seen(values: list[object], expected: str) -> None:
    (column,) = sample(*({"v": value} for value in values)).columns

    assert expected == column.type
    assert ["v"] == parse(column.definition).names


def test_what_would_not_fit_is_counted_and_what_is_not_always_there_is_said() -> None:
    columns = sample({"id": 1, "a": 1}, {"id": "two", "a": None}, {"id": 3}).columns

    assert [("id", "in 3 of 3, 1 would be a dead letter (string)"), ("a", "in 2 of 3, 1 null")] == [
        (each.name, each.note) for each in columns
    ]


def test_a_column_is_required_only_after_many_records_without_an_exception() -> None:
    few, many = [{"id": 1}] * 99, [{"id": 1}] * 100

    assert [False, True, False] == [sample(*each).columns[0].is_required for each in (few, many, [*many, {"id": None}])]


def test_fields_that_cannot_be_columns_are_named() -> None:
    found = sample({"id": 1, "_at": 2, "with space": 3, "ID": 4})

    assert ["id"] == [each.name for each in found.columns]
    assert ["_at", "with space", "ID"] == found.left_out


def test_the_column_that_the_key_repeats_is_found() -> None:
    same = sample({"customer": "ada", "n": 1}, {"customer": "ada", "n": 2}, key=b"ada")
    without = sample({"customer": "ada"})

    assert ("customer", None) == (same.key_column, without.key_column)


def test_values_that_are_no_json_objects_give_no_columns() -> None:
    found = infer([(None, b"plain"), (None, None), (None, b"[1]"), (None, b"\xff")])

    assert (4, 0, []) == (found.records, found.objects, found.columns)


@pytest.mark.parametrize(("opens", "closes"), [(b'{"a":', b"}"), (b'{"a":[', b"]}")])
def test_a_field_that_is_nested_too_deeply_is_left_out_and_keeps_nobody_from_the_others(
    opens: bytes, closes: bytes
) -> None:
    found = infer([(None, opens * 500 + b"1" + closes * 500), (None, b'{"id": 1}')])

    assert (2, 2, ["id"], ["a"]) == (
        found.records,
        found.objects,
        [each.name for each in found.columns],
        found.left_out,
    )
