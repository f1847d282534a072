import sys
import threading
from collections.abc import Callable
from typing import Any

import pytest

from penstock import Message, Pipeline
from penstock.errors import BadInput, PipelineHalted, SinkUnavailable, Transient
from penstock.steps.handlers import OnFailure
from penstock.testing import FakeClock, run

from support.handlers import (
    Handled,
    Mute,
    Threes,
    behaviour,
    dead,
    ids,
    nothing_of_other_tests,  # noqa: F401 - for every test here
    numbered,
    raising,
    seen,
)


class Stopping(Handled):
    name = "stopping"
    on_failure = "stop"


class StoppingThrees(Stopping, Threes):
    name = "stopping-threes"


class Retrying(Handled):
    name = "retrying"
    on_failure = OnFailure(then="retry", attempts=4, backoff=100, growth=3.0, max_backoff=500)


class RetryingThrees(Retrying, Threes):
    name = "retrying-threes"


@pytest.mark.parametrize("handler", ["prepare_messages", "handle_message", "handle_batch", "handle_failed"])
@pytest.mark.parametrize("error", [Transient("no answer"), SinkUnavailable("no answer"), BadInput("no such tenant")])
@pytest.mark.parametrize("kind", [Threes, RetryingThrees])
def test_an_error_of_penstock_that_a_handler_raises_ends_the_run_and_blames_no_message(
    handler: str, error: Exception, kind: type[Pipeline]
) -> None:
    calls = []

    def fail(_: Any) -> None:
        calls.append(1)
        raise error

    behaviour[handler] = fail

    with FakeClock() as clock, pytest.raises(type(error), match=str(error)):
        run(kind, ["no json", *numbered(3)])

    assert ([], 1) == (clock.slept_s, len(calls))


@pytest.mark.parametrize("kind", [Threes, RetryingThrees])
def test_a_handler_that_wants_to_end_python_is_not_kept_from_it(kind: type[Pipeline]) -> None:
    behaviour["handle_message"] = lambda _: sys.exit(3)

    with pytest.raises(SystemExit):
        run(kind, numbered(1))


def test_stop_ends_the_run_at_the_first_message_that_a_handler_refuses() -> None:
    handled: list[int] = []

    def handle(message: Message) -> Message:
        handled.append(message.offset)
        if message.offset >= 2:
            raise ValueError("odd")
        return message

    behaviour["handle_message"] = handle

    with pytest.raises(PipelineHalted, match="the pipeline stops at message 2: ValueError: odd"):
        run(Stopping, numbered(5))

    assert [0, 1, 2] == handled
    assert [2] == [offset for offset, _, _ in seen]


@pytest.mark.parametrize(
    ("handler", "first"), [("prepare_messages", 0), ("handle_batch", 0)], ids=["prepare_messages", "handle_batch"]
)
def test_stop_ends_the_run_when_many_fail_at_once(handler: str, first: int) -> None:
    behaviour[handler] = lambda _: 1 / 0

    with pytest.raises(PipelineHalted, match=f"the pipeline stops at message {first}: ZeroDivisionError"):
        run(StoppingThrees, numbered(7))


def test_stop_leaves_no_batch_to_be_handled_after_it() -> None:
    def handle(message: Message) -> Message:
        if message.offset == 2:
            raise ValueError("odd")
        return message.put_batch_mode("flush")

    batches: list[list[Message]] = []
    behaviour["handle_message"] = handle
    behaviour["handle_batch"] = batches.append

    with pytest.raises(PipelineHalted, match="at message 2"):
        run(StoppingThrees, numbered(5))

    assert [] == batches


def test_stop_at_a_batch_leaves_the_other_batches_alone() -> None:
    sizes: list[int] = []

    def handle(messages: list[Message]) -> list[Message]:
        sizes.append(len(messages))
        raise ValueError("odd")

    behaviour["handle_message"] = lambda message: message.put_batch_key(message.offset % 2)
    behaviour["handle_batch"] = handle

    with pytest.raises(PipelineHalted, match="at message 0"):
        run(StoppingThrees, numbered(4))

    assert [2] == sizes


def test_stop_lets_what_cannot_be_decoded_pass_for_no_handler_refused_it() -> None:
    outcome = run(Stopping, ["no json", {"id": 1}])

    assert ([1], [0]) == (ids(outcome), [each.offset for each in outcome.dead])


def test_stop_does_not_mind_a_message_that_is_dropped() -> None:
    behaviour["handle_message"] = lambda message: message.drop()

    outcome = run(Stopping, numbered(1))

    assert ([], [], {"console": 1}) == (outcome.rows, outcome.dead, outcome.dropped)


def test_continue_is_what_happens_if_nothing_is_said_and_pauses_nowhere() -> None:
    behaviour["handle_message"] = raising(ValueError("odd"))

    with FakeClock() as clock:
        outcome = run(Handled, numbered(2))

    assert (2, [], False) == (len(outcome.dead), clock.slept_s, "retries" in outcome.handlers)


def test_retry_pauses_longer_each_time_up_to_a_limit_and_then_gives_the_message_up() -> None:
    behaviour["handle_message"] = raising(ValueError("odd"), at=1)

    with FakeClock() as clock:
        outcome = run(Retrying, numbered(3))

    assert [0.1, 0.3, 0.5] == pytest.approx(clock.slept_s)
    assert 3 == outcome.handlers["retries"]
    assert ([0, 2], [(1, "ValueError", "odd")]) == (ids(outcome), dead(outcome))
    assert 1 == len(seen)


@pytest.mark.parametrize("handler", ["prepare_messages", "handle_message", "handle_batch"])
def test_retry_lands_what_gets_through_at_a_later_attempt(handler: str) -> None:
    left = [ValueError(), KeyError(), OSError()]

    def handle(given: Any) -> Any:
        if left:
            raise left.pop()
        return given

    behaviour[handler] = handle

    with FakeClock() as clock:
        outcome = run(RetryingThrees, numbered(3))

    assert ([0, 1, 2], [], 3, 3) == (ids(outcome), outcome.dead, len(clock.slept_s), outcome.handlers["retries"])


def test_retry_begins_each_message_with_the_first_pause() -> None:
    behaviour["handle_message"] = raising(ValueError("odd"))

    with FakeClock() as clock:
        run(Retrying, numbered(2))

    assert [0.1, 0.3, 0.5] * 2 == pytest.approx(clock.slept_s)


def test_retry_is_for_what_is_raised_and_not_for_messages_that_are_failed_or_forgotten() -> None:
    behaviour["handle_message"] = lambda message: message.failed("odd") if message.offset else None

    with FakeClock() as clock:
        outcome = run(Retrying, numbered(2))

    assert ([], ["TypeError", "MessageFailed"]) == (clock.slept_s, [each.error for each in outcome.dead])


def test_retry_gives_a_batch_all_of_its_messages_again_whatever_was_done_to_the_list() -> None:
    sizes: list[int] = []

    def handle(messages: list[Message]) -> list[Message]:
        sizes.append(len(messages))
        while len(sizes) == 1:
            if not messages:
                raise ValueError("odd")
            messages.pop()
        return messages

    behaviour["handle_batch"] = handle

    with FakeClock():
        outcome = run(RetryingThrees, numbered(3))

    assert ([3, 3], [0, 1, 2]) == (sizes, ids(outcome))


@pytest.mark.parametrize("mark", [Message.drop, lambda message: message.failed("early")])
@pytest.mark.parametrize("kind", [Retrying, RetryingThrees])
def test_retry_forgets_what_the_attempt_that_raised_had_marked(
    mark: Callable[[Message], Message], kind: type[Pipeline]
) -> None:
    attempts: list[int] = []

    def handle(given: Any) -> Any:
        attempts.append(1)
        if len(attempts) == 1:
            mark(given[0] if isinstance(given, list) else given)
            raise ValueError("odd")
        return given

    behaviour["handle_batch" if kind is RetryingThrees else "handle_message"] = handle

    with FakeClock():
        outcome = run(kind, numbered(3))

    assert ([0, 1, 2], []) == (ids(outcome), outcome.dead)


@pytest.mark.parametrize("handler", ["prepare_messages", "handle_message", "handle_batch"])
def test_retry_begins_with_the_data_that_the_attempt_before_had(handler: str) -> None:
    attempts: list[int] = []

    def handle(given: Any) -> Any:
        attempts.append(1)
        for message in given if isinstance(given, list) else [given]:
            message.data["id"] += 10
            message.data.setdefault("tags", []).append("seen")
            message.headers.append(("seen", b""))
            message.put_batch_key(len(message.headers))
        if len(attempts) < 3:
            raise ValueError("odd")
        return given

    def look(message: Message) -> Message:
        looked.append((message.data["tags"], message.headers, message.batch_key))
        return message

    looked: list[Any] = []
    behaviour[handler] = handle
    if handler == "prepare_messages":
        behaviour["handle_message"] = look

    with FakeClock():
        outcome = run(RetryingThrees, numbered(1))

    assert ([10], 3) == (ids(outcome), len(attempts))
    assert looked == ([(["seen"], [("seen", b"")], 1)] if handler == "prepare_messages" else [])


def test_messages_that_hold_what_cannot_be_copied_are_handled_and_get_no_second_try() -> None:
    def hold(messages: list[Message]) -> list[Message]:
        for message in messages:
            message.data["lock"] = threading.Lock()
        return messages

    behaviour["prepare_messages"] = hold
    behaviour["handle_message"] = raising(ValueError("odd"), at=1)

    with FakeClock() as clock:
        outcome = run(Retrying, numbered(3))

    assert ([0, 2], [(1, "ValueError", "odd")], []) == (ids(outcome), dead(outcome), clock.slept_s)


@pytest.mark.parametrize("error", [ValueError("no key"), StopIteration(), Mute()])
def test_a_class_that_cannot_be_made_is_a_mistake_of_the_pipeline_and_no_messages(error: Exception) -> None:
    def fail(_: Any) -> None:
        raise error

    behaviour["__init__"] = fail

    with pytest.raises(BadInput, match=rf"Handled' cannot be made: {type(error).__name__}"):
        run(Handled, numbered(1))


def test_an_outage_while_the_class_is_made_is_an_outage() -> None:
    def fail(_: Any) -> None:
        raise SinkUnavailable("no answer")

    behaviour["__init__"] = fail

    with pytest.raises(SinkUnavailable, match="no answer"):
        run(Handled, numbered(1))


class Needy(Handled):
    name = "needy"

    def __init__(self, server: str) -> None:
        self._server = server


def test_a_class_that_needs_arguments_is_refused_and_says_so() -> None:
    with pytest.raises(BadInput, match=r"Needy' cannot be made: TypeError: .*missing 1 required .* 'server'"):
        run(Needy, numbered(1))


class Uncallable(Handled):
    name = "uncallable"
    handle_message = 5  # type: ignore[assignment]


def test_a_handler_that_is_none_fails_its_messages() -> None:
    assert [(0, "TypeError", "'int' object is not callable")] == dead(run(Uncallable, numbered(1)))


class Asynchronous(Handled):
    name = "asynchronous"

    async def handle_message(self, message: Message) -> Message:  # type: ignore[override]
        return message


@pytest.mark.filterwarnings("ignore:coroutine:RuntimeWarning", "ignore::pytest.PytestUnraisableExceptionWarning")
def test_an_asynchronous_handler_fails_its_messages_and_says_what_came_back() -> None:
    ((_, error, message),) = dead(run(Asynchronous, numbered(1)))

    assert ("TypeError", "handle_message returned coroutine") == (error, message.partition(":")[0])
