"""The clock that stands still: pauses of pipelines pass at once, and the machine's own clock comes back."""

import datetime
import time

import pytest

from penstock import Message
from penstock.clock import clock
from penstock.steps.handlers import OnFailure
from penstock.testing import FakeClock, Record, run

from support.kit import NOON, Timely, times


def test_a_record_has_the_time_it_is_given_or_that_of_the_clock() -> None:
    given = NOON.astimezone(datetime.timezone(datetime.timedelta(hours=5)))

    with FakeClock(NOON + datetime.timedelta(hours=1)):
        run(Timely, [Record({"id": 1}, timestamp=given), {"id": 2}])

    assert [NOON, NOON + datetime.timedelta(hours=1)] == times


class Flaky(Timely):
    name = "flaky"
    on_failure = OnFailure(then="retry", attempts=3, backoff=60_000, max_backoff=3_600_000)

    def handle_message(self, message: Message) -> Message:
        times.append(clock().now())
        raise OSError(f"no route for {message.offset}")


def test_pauses_pass_at_once_on_the_fake_clock_and_are_on_record() -> None:
    began = time.monotonic()

    with FakeClock(NOON) as fake:
        outcome = run(Flaky, [{"id": 1}])

    assert time.monotonic() - began < 60
    assert ([60.0, 120.0], 180.0) == (fake.slept_s, fake.monotonic())
    assert [0, 60, 180] == [(at - NOON).total_seconds() for at in times if at]
    assert 1 == len(outcome.dead)


def test_a_fake_clock_stands_still_until_it_is_told_to_go_on() -> None:
    fake = FakeClock()

    before = fake.now(), fake.now()
    fake.advance(90)

    assert before[0] == before[1]
    assert (datetime.timedelta(seconds=90), 90.0, []) == (fake.now() - before[0], fake.monotonic(), fake.slept_s)


def test_fake_clocks_nest_and_the_clock_of_the_machine_comes_back_even_after_an_error() -> None:
    machine = clock()

    with FakeClock() as outer:
        with pytest.raises(ZeroDivisionError), FakeClock() as inner:
            assert inner is clock()
            raise ZeroDivisionError
        assert outer is clock()

    assert machine is clock()
    assert datetime.timedelta(minutes=1) > datetime.datetime.now(datetime.UTC) - machine.now()


def test_the_clock_of_the_machine_sleeps_and_never_goes_back() -> None:
    machine = clock()
    before = machine.monotonic()

    machine.sleep(0.01)

    assert machine.monotonic() - before >= 0.01
