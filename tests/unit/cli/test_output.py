"""What commands show, and whether it can be typed back."""

import time

import pytest

from penstock.cli.output import moment
from penstock.kafka.positions import Position


def test_a_time_that_is_shown_is_the_same_time_when_it_is_typed_back_in_any_zone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    shown = moment(1_800_000_000)
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    time.tzset()
    try:
        actual = Position.parse(shown)
    finally:
        monkeypatch.undo()
        time.tzset()

    assert Position("timestamp", 1_800_000_000_000) == actual
    assert "2027-01-15 08:00:00Z" == shown


@pytest.mark.parametrize("seconds", [1e15, -1e15])
def test_a_time_that_no_calendar_has_is_shown_as_its_number(seconds: float) -> None:
    assert f"{seconds:.0f} s since 1970" == moment(seconds)
