from collections.abc import Callable

import pytest
from pydantic import TypeAdapter, ValidationError

from penstock.quantities import (
    UNLIMITED,
    DurationMs,
    SizeBytes,
    parse_duration_ms,
    parse_size_bytes,
)

Parse = Callable[[str], int]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("250ms", 250),
        ("90s", 90_000),
        ("15m", 900_000),
        ("1.5h", 5_400_000),
        ("7d", 604_800_000),
        ("2w", 1_209_600_000),
        (" 7 D ", 604_800_000),
        ("0s", 0),
        ("0.1s", 100),
    ],
)
def test_a_duration_is_read_into_milliseconds(text: str, expected: int) -> None:
    assert expected == parse_duration_ms(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("17B", 17),
        ("1KB", 1000),
        ("1KiB", 1024),
        ("512MB", 512_000_000),
        ("512MiB", 536_870_912),
        ("1GB", 10**9),
        ("1GiB", 2**30),
        ("2TB", 2 * 10**12),
        ("2TiB", 2 * 2**40),
        ("1.5gb", 1_500_000_000),
    ],
)
def test_a_size_is_read_into_bytes(text: str, expected: int) -> None:
    assert expected == parse_size_bytes(text)


@pytest.mark.parametrize("parse", [parse_duration_ms, parse_size_bytes])
@pytest.mark.parametrize("text", ["forever", "unlimited", "-1", " Forever "])
def test_no_limit_is_read_as_minus_one(parse: Parse, text: str) -> None:
    assert UNLIMITED == parse(text)


@pytest.mark.parametrize("parse", [parse_duration_ms, parse_size_bytes])
@pytest.mark.parametrize("text", ["", "7", "d", "B", "-7d", "-1B", "1e3s", "7 7d", "7days", "1,5h", "NaN", "infs"])
def test_what_is_no_quantity_is_refused(parse: Parse, text: str) -> None:
    with pytest.raises(ValueError, match="write a number and one of"):
        parse(text)


def test_a_bad_unit_is_answered_with_the_good_ones_and_an_example() -> None:
    expected = "'7x' is not a duration: write a number and one of ms, s, m, h, d, w, such as 7d"

    with pytest.raises(ValueError, match="7x") as caught:
        parse_duration_ms("7x")

    assert expected == str(caught.value)


@pytest.mark.parametrize(
    ("parse", "text", "meant"), [(parse_duration_ms, "5", "5d"), (parse_size_bytes, "1.5 ", "1.5GB")]
)
def test_a_number_without_a_unit_is_answered_with_one_that_has_it(parse: Parse, text: str, meant: str) -> None:
    with pytest.raises(ValueError, match=f"such as {meant}$"):
        parse(text)


def test_a_duration_is_no_size() -> None:
    expected = "'7d' is not a size: write a number and one of B, KB, MB, GB, TB, KiB, MiB, GiB, TiB, such as 1GB"

    with pytest.raises(ValueError, match="7d") as caught:
        parse_size_bytes("7d")

    assert expected == str(caught.value)


@pytest.mark.parametrize(
    ("kind", "text", "expected"),
    [(DurationMs, "7d", 604_800_000), (DurationMs, "forever", UNLIMITED), (SizeBytes, "1GB", 10**9)],
)
def test_a_field_of_a_model_takes_the_text(kind: type, text: str, expected: int) -> None:
    assert expected == TypeAdapter(kind).validate_python(text)


@pytest.mark.parametrize("kind", [DurationMs, SizeBytes])
def test_a_field_of_a_model_refuses_a_text_without_a_unit(kind: type) -> None:
    with pytest.raises(ValidationError, match="write a number and one of"):
        TypeAdapter(kind).validate_python("7")
