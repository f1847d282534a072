"""`handle_failed`: it sees what failed, may drop it or name another reason, and fixes nothing."""

import pytest

from penstock import Message
from penstock.testing import run

from support.handlers import (
    Handled,
    Threes,
    behaviour,
    dead,
    ids,
    nothing_of_other_tests,  # noqa: F401 - for every test here
    numbered,
    raising,
    seen,
    setting,
)


def test_handle_failed_sees_what_could_not_be_decoded_and_what_a_handler_refused() -> None:
    behaviour["handle_message"] = raising(ValueError("odd"), at=2)

    run(Handled, ["no json", {"id": 1}, {"id": 2}, None])

    assert [0, 2, 3] == sorted(offset for offset, _, _ in seen)
    by_offset = {offset: (data, error) for offset, data, error in seen}
    assert ({"id": 2, "s": None}, "ValueError") == by_offset[2]
    assert (None, None) == (by_offset[0][0], by_offset[3][0])


def test_handle_failed_may_drop_a_message() -> None:
    behaviour["handle_failed"] = lambda messages: messages[0].drop()

    outcome = run(Handled, ["no json", {"id": 1}])

    assert [1] == ids(outcome)
    assert ([], 1, {"console": 1}) == (outcome.dead, outcome.handlers["dropped"], outcome.dropped)


def test_handle_failed_may_drop_a_message_whose_values_did_not_fit() -> None:
    behaviour["handle_message"] = setting("data", {"id": "text"})
    behaviour["handle_failed"] = lambda messages: [message.drop() for message in messages]

    outcome = run(Handled, numbered(2))

    assert ([], [], {"console": 2}) == (ids(outcome), outcome.dead, outcome.dropped)


def test_handle_failed_may_name_another_reason() -> None:
    behaviour["handle_failed"] = lambda messages: messages[0].failed("call the vendor")

    outcome = run(Handled, ["no json"])

    assert [(0, "MessageFailed", "call the vendor")] == dead(outcome)


def test_handle_failed_makes_no_message_good() -> None:
    def fix(messages: list[Message]) -> None:
        for message in messages:
            message.error, message.data = None, {"id": 7}

    behaviour["handle_failed"] = fix

    outcome = run(Handled, ["no json"])

    assert ([], [(0, "Malformed")]) == (ids(outcome), [(each.offset, each.error) for each in outcome.dead])


def test_handle_failed_that_raises_changes_nothing_and_is_counted(capfd: pytest.CaptureFixture[str]) -> None:
    behaviour["handle_message"] = raising(ValueError("odd"), at=1)
    behaviour["handle_failed"] = lambda _: 1 / 0

    outcome = run(Handled, numbered(3))

    assert [0, 2] == ids(outcome)
    assert [(1, "ValueError", "odd")] == dead(outcome)
    assert 1 == outcome.handlers["handle_failed_raised"]
    assert "ZeroDivisionError" in capfd.readouterr().err


def test_handle_failed_is_not_called_when_nothing_failed() -> None:
    behaviour["handle_failed"] = lambda _: 1 / 0

    outcome = run(Threes, numbered(4))

    assert (0, "handle_failed_raised" in outcome.handlers) == (outcome.handlers["failed"], False)
