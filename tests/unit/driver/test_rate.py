"""A limit of rate: evenly filled, saved up for one interval at most, changed by a command while it holds."""

from pathlib import Path

import pytest

from penstock.driver.rate import Override, RateLimit, forget
from penstock.pipeline.rate import Rate
from penstock.testing.fake_clock import FakeClock

TEN_A_SECOND = Rate(events=10, per=1000)


def test_without_a_limit_everything_is_allowed(tmp_path: Path) -> None:
    assert None is RateLimit(None, tmp_path).allowance()


def test_it_begins_with_a_full_interval_and_fills_evenly(tmp_path: Path) -> None:
    with FakeClock() as clock:
        limit = RateLimit(TEN_A_SECOND, tmp_path)
        first = limit.allowance()
        limit.take(10)
        empty = limit.allowance()
        clock.advance(0.35)
        later = limit.allowance()

    assert (10, 0, 3) == (first, empty, later)


def test_what_is_not_used_is_saved_up_for_one_interval_and_no_longer(tmp_path: Path) -> None:
    with FakeClock() as clock:
        limit = RateLimit(TEN_A_SECOND, tmp_path)
        limit.take(10)
        clock.advance(3600)

        assert 10 == limit.allowance()


def test_over_a_long_time_no_more_is_allowed_than_the_rate_and_one_interval(tmp_path: Path) -> None:
    taken = 0
    with FakeClock() as clock:
        limit = RateLimit(Rate(events=7, per=1000), tmp_path)
        for _ in range(1000):
            allowed = limit.allowance() or 0
            limit.take(allowed)
            taken += allowed
            clock.advance(0.037)

    assert 7 * 36 <= taken <= 7 * 38 + 7


def test_a_fraction_of_an_event_is_kept_until_it_is_whole(tmp_path: Path) -> None:
    with FakeClock() as clock:
        limit = RateLimit(Rate(events=1, per=60_000), tmp_path)
        limit.allowance()
        limit.take(1)
        seen = []
        for _ in range(61):
            clock.advance(1)
            seen.append(limit.allowance())

    assert [0] * 59 == seen[:59]
    assert 1 == seen[60]


def test_a_batch_that_took_more_than_was_allowed_is_paid_off_first(tmp_path: Path) -> None:
    with FakeClock() as clock:
        limit = RateLimit(TEN_A_SECOND, tmp_path)
        limit.allowance()
        limit.take(15)
        in_debt = limit.allowance()
        clock.advance(1)

        assert (0, 5) == (in_debt, limit.allowance())


def test_a_command_wins_over_the_file_at_once_until_it_is_forgotten(tmp_path: Path) -> None:
    with FakeClock():
        limit = RateLimit(TEN_A_SECOND, tmp_path)
        limit.allowance()
        limit.take(10)
        Override(rate=Rate(events=3, per=60_000)).save(tmp_path)
        changed = limit.allowance()
        Override(rate=None).save(tmp_path)
        off = limit.allowance()
        forget(tmp_path)
        forget(tmp_path)

        assert (3, None, 10) == (changed, off, limit.allowance())


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"[]", b'{"format": 1, "rate": {"events": 0}}', b'{"format": 1, "rate": {"events": "many"}}'],
)
def test_a_word_that_cannot_be_read_leaves_it_to_the_file(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "rate.json").write_bytes(content)

    assert 10 == RateLimit(TEN_A_SECOND, tmp_path).allowance()
