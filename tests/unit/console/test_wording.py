"""What people read and type: JSON on lines of its own, and times in their zone."""

import json
from zoneinfo import ZoneInfo

import pytest

from penstock.console.pages.indented import indented
from penstock.console.pages.wording import in_zone

BERLIN = ZoneInfo("Europe/Berlin")


@pytest.mark.parametrize(
    "held", [{"a": [1, {"b": 'x:{[,\\"} y'}], "e": [], "o": {}, "n": None}, [], {}, [[1], [{}]], {"ü": "\n"}]
)
def test_json_is_written_on_lines_of_its_own(held: object) -> None:
    assert json.dumps(held, indent=2) == indented(json.dumps(held))
    assert json.dumps(held, indent=2) == indented(json.dumps(held, separators=(",", ":")))


def test_numbers_keep_their_digits_and_a_name_that_is_there_twice_stays_so() -> None:
    text = '{"id":12345678901234567890123,"price":1.10,"id":1e4}'

    assert '{\n  "id": 12345678901234567890123,\n  "price": 1.10,\n  "id": 1e4\n}' == indented(text)


@pytest.mark.parametrize("text", ["no json", '{"a": 1', "17", '"{}"', "[" * 50 + "]" * 50, f"[{'1,' * 200_000}1]"])
def test_what_is_no_json_or_would_grow_beyond_reading_stays_as_it_is(text: str) -> None:
    assert text == indented(text)


def test_a_time_that_is_typed_is_one_of_the_readers_zone_as_those_that_are_shown() -> None:
    typed = ["2026-01-31T12:00", " 2026-07-31 12:00 ", "2026-01-31T12:00Z", "15m", "42", "20260131", "latest", ""]

    assert [
        "2026-01-31T12:00:00+01:00",
        "2026-07-31T12:00:00+02:00",
        "2026-01-31T12:00Z",
        "15m",
        "42",
        "20260131",
        "latest",
        "",
    ] == [in_zone(each, BERLIN) for each in typed]
