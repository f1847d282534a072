from typing import Any

import pytest

from penstock.decoders.json import Json

from support.events import OPENING

SCHEMA = (
    "at timestamp, local timestamp_ntz, ratio double, small float, nested struct<at: timestamp, ratios: array<double>>"
)
INEXACT = {
    '{"at": "2026-01-31T12:00:00"}': "timezone component - at `$.at`",
    '{"at": "2026-01-31T12:00:00.123456789Z"}': "beyond the microsecond - at `$.at`",
    '{"local": "2026-01-31T12:00:00.0000001"}': "beyond the microsecond - at `$.local`",
    '{"ratio": 9007199254740993}': "in 64 bits - at `$.ratio`",
    '{"ratio": -123456789012345678901234567890}': "in 64 bits - at `$.ratio`",
    '{"small": 16777217}': "in 32 bits - at `$.small`",
    '{"nested": {"at": "2026-01-31T12:00:00"}}': "timezone component - at `$.nested.at`",
    '{"nested": {"ratios": [1, 9007199254740993]}}': "in 64 bits - at `$.nested.ratios[1]`",
}
EXACT = [
    "{}",
    '{"at": "2026-01-31T12:00:00.1234560Z", "local": "2026-01-31T12:00:00.123456", "ratio": 9007199254740992}',
    '{"at": "2026-01-31T12:00:00+02:00", "ratio": 0.1, "small": 16777216}',
    '{"at": null, "ratio": -0.0, "small": 0.1, "nested": {"at": "2026-01-31T12:00:00Z", "ratios": [1, null, 0.5]}}',
]
NEVER = ['{"at": 5}', '{"ratio": true}', '{"ratio": "1"}', '{"small": 1e39}', '{"ratio": 1e400}', '{"local": ""}']


def decoded(*values: str, strict: bool) -> Any:
    decoder = Json(schema=SCHEMA, strict=strict).open(OPENING)
    return decoder.decode([value.encode() for value in values])


@pytest.mark.parametrize(("value", "message"), INEXACT.items())
def test_what_a_column_cannot_hold_exactly_fails_if_strict_and_is_taken_otherwise(value: str, message: str) -> None:
    (strict,), (lenient,) = decoded(value, strict=True).record_errors, decoded(value, strict=False).record_errors

    assert lenient is None
    assert strict is not None
    assert ("SchemaMismatch", True) == (strict["error"], strict["message"].endswith(message))


@pytest.mark.parametrize("value", EXACT)
def test_what_a_column_holds_exactly_is_the_same_strict_or_not(value: str) -> None:
    strict, lenient = decoded(value, strict=True), decoded(value, strict=False)

    assert [None] == strict.record_errors == lenient.record_errors
    assert [column.to_pylist() for column in lenient.columns] == [column.to_pylist() for column in strict.columns]


@pytest.mark.parametrize("value", NEVER)
def test_what_is_no_time_or_number_fails_strict_or_not(value: str) -> None:
    assert [True, True] == [decoded(value, strict=strict).record_errors[0] is not None for strict in (True, False)]


def test_what_is_taken_is_what_the_decoder_says() -> None:
    found = decoded('{"at": "2026-01-31T12:00:00.9999996", "ratio": 9007199254740993}', strict=False)

    at, ratio = found.columns[0][0].as_py(), found.columns[2][0].as_py()
    assert ("2026-01-31T12:00:01+00:00", 9007199254740992.0) == (at.isoformat(), ratio)
