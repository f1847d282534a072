import time
from collections.abc import Iterator

import pytest

from penstock.errors import BadInput
from penstock.kafka.positions import EARLIEST, LATEST, Position, offset_within

TP = ("orders", 2)
NOON_UTC_MS = 1_769_860_800_000


@pytest.fixture
def three_hours_east(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", "XXX-3")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("earliest", EARLIEST),
        ("beginning", EARLIEST),
        ("start", EARLIEST),
        ("latest", LATEST),
        (" end ", LATEST),
        ("0", Position("offset", 0)),
        ("42", Position("offset", 42)),
        ("20260131", Position("offset", 20_260_131)),
        ("2026-01-31T12:00:00Z", Position("timestamp", NOON_UTC_MS)),
        ("2026-01-31T12:00:00.250+00:00", Position("timestamp", NOON_UTC_MS + 250)),
        ("2026-01-31T15:00+03:00", Position("timestamp", NOON_UTC_MS)),
        # -1 would be the end to Kafka, and -2 the beginning.
        ("1969-12-31T23:59:59.999+00:00", Position("timestamp", 0)),
        ("99999999999d", Position("timestamp", 0)),
    ],
)
def test_a_position_is_read(text: str, expected: Position) -> None:
    assert expected == Position.parse(text)


@pytest.mark.usefixtures("three_hours_east")
@pytest.mark.parametrize("text", ["2026-01-31T15:00", "2026-01-31 15:00:00"])
def test_a_time_without_a_zone_is_the_users_own(text: str) -> None:
    assert Position("timestamp", NOON_UTC_MS) == Position.parse(text)


@pytest.mark.usefixtures("three_hours_east")
def test_a_day_begins_at_the_users_midnight() -> None:
    assert Position("timestamp", NOON_UTC_MS - 15 * 3_600_000) == Position.parse("2026-01-31")


@pytest.mark.parametrize(("text", "ago_ms"), [("15m", 900_000), ("1.5 h", 5_400_000), ("7d", 604_800_000)])
def test_a_duration_counts_back_from_now(text: str, ago_ms: int) -> None:
    before_ms = int(time.time() * 1000)
    position = Position.parse(text)
    after_ms = int(time.time() * 1000)

    assert "timestamp" == position.kind
    assert before_ms - ago_ms <= position.value <= after_ms - ago_ms


@pytest.mark.parametrize(
    "text", ["", "yesterday", "-1", "1.5", "15x", "forever", "Earliest", "2026-13-01", "2026-01-31T25:00", "42 43"]
)
def test_what_is_no_position_is_refused_with_what_is(text: str) -> None:
    expected = (
        f"'{text}' is not a position in a topic: say earliest, latest, an offset (42),"
        " a time (2026-01-31T12:00) or how long ago (15m)"
    )

    with pytest.raises(BadInput) as caught:
        Position.parse(text)

    assert expected == str(caught.value)


@pytest.mark.parametrize(
    ("position", "expected"),
    [
        pytest.param(EARLIEST, 10, id="earliest"),
        pytest.param(LATEST, 50, id="latest"),
        pytest.param(Position("offset", 10), 10, id="first offset"),
        pytest.param(Position("offset", 33), 33, id="offset inside"),
        pytest.param(Position("offset", 50), 50, id="next offset"),
        pytest.param(Position("before_end", 0), 50, id="none before the end"),
        pytest.param(Position("before_end", 5), 45, id="five before the end"),
        pytest.param(Position("before_end", 40), 10, id="all before the end"),
        pytest.param(Position("before_end", 1000), 10, id="more than there are"),
    ],
)
def test_a_position_is_settled_inside_what_the_partition_holds(position: Position, expected: int) -> None:
    assert expected == offset_within(position, TP, (10, 50))


@pytest.mark.parametrize("offset", [0, 9, 51, 10**12])
def test_an_offset_outside_is_refused_with_what_is_there(offset: int) -> None:
    expected = f"offset {offset} is not in orders/2, which holds 10 to 50"

    with pytest.raises(BadInput) as caught:
        offset_within(Position("offset", offset), TP, (10, 50))

    assert expected == str(caught.value)


@pytest.mark.parametrize("position", [EARLIEST, LATEST, Position("offset", 7), Position("before_end", 3)])
def test_in_an_empty_partition_every_position_is_the_same(position: Position) -> None:
    assert 7 == offset_within(position, TP, (7, 7))
