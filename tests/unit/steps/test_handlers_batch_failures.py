"""Batches and preparations that fail, or do not give back every message: none is lost, none goes on twice."""

from collections.abc import Callable
from typing import Any, ClassVar

import pytest

from penstock import Batcher, Message, Pipeline
from penstock.testing import run

from support.handlers import (
    Handled,
    Threes,
    behaviour,
    dead,
    ids,
    nothing_of_other_tests,  # noqa: F401 - for every test here
    numbered,
    seen,
)


class Ones(Handled):
    name = "ones"
    batchers: ClassVar = {"default": Batcher(batch_size=1)}


def test_a_batch_that_drops_some_and_then_raises_loses_none() -> None:
    def handle(messages: list[Message]) -> list[Message]:
        messages[0].drop()
        messages[1].failed("a reason of its own")
        raise ValueError("after all")

    behaviour["handle_batch"] = handle

    outcome = run(Threes, numbered(3))

    expected = [(0, "ValueError", "after all"), (1, "MessageFailed", "a reason of its own")]
    assert [*expected, (2, "ValueError", "after all")] == dead(outcome)
    assert (3, 0) == (outcome.handlers["failed"], outcome.handlers["dropped"])


def test_preparing_that_raises_fails_the_messages_at_hand_and_handles_none() -> None:
    behaviour["prepare_messages"] = lambda _: 1 / 0
    behaviour["handle_message"] = seen.append

    outcome = run(Handled, numbered(2))

    assert [(0, "ZeroDivisionError", "division by zero"), (1, "ZeroDivisionError", "division by zero")] == dead(outcome)
    assert [(0, {"id": 0, "s": None}, "ZeroDivisionError"), (1, {"id": 1, "s": None}, "ZeroDivisionError")] == seen


def test_preparing_may_drop_and_fail_messages_which_are_then_not_handled() -> None:
    def prepare(messages: list[Message]) -> list[Message]:
        messages[0].drop()
        messages[1].failed("early")
        return messages

    def handle(message: Message) -> Message:
        handled.append(message.offset)
        return message

    handled: list[int] = []
    behaviour["prepare_messages"] = prepare
    behaviour["handle_message"] = handle

    outcome = run(Handled, numbered(3))

    assert ([2], [2], [(1, "MessageFailed", "early")]) == (handled, ids(outcome), dead(outcome))


@pytest.mark.parametrize("handler", ["prepare_messages", "handle_batch"])
@pytest.mark.parametrize(
    ("result", "expected"),
    [
        pytest.param(lambda _: None, "returned NoneType: return the list of messages", id="none"),
        pytest.param(lambda messages: (each for each in messages), "returned generator: return the", id="generator"),
        pytest.param(tuple, "returned tuple: return the list of messages", id="tuple"),
        pytest.param(lambda _: [], "got 3 messages and returned 0, or others", id="nothing"),
        pytest.param(lambda messages: messages[1:], "got 3 messages and returned 2, or others", id="forgets one"),
        pytest.param(
            lambda messages: [*messages[1:], messages[1]], "got 3 messages and returned 3", id="one for other"
        ),
        pytest.param(lambda messages: [*messages, Message({})], "got 3 messages and returned 4", id="adds one"),
        pytest.param(lambda messages: [*messages, None], "got 3 messages and returned 4", id="adds nothing"),
        pytest.param(lambda messages: [each.data for each in messages], "got 3 messages and returned 3", id="data"),
        pytest.param(lambda messages: messages.clear() or messages, "got 3 messages and returned 0", id="empties it"),
    ],
)
def test_messages_that_do_not_all_come_back_are_dead_letters_that_say_so(
    handler: str, result: Callable[[list[Message]], Any], expected: str
) -> None:
    behaviour[handler] = result

    outcome = run(Threes, numbered(3))

    assert [] == ids(outcome)
    assert [(0, "TypeError"), (1, "TypeError"), (2, "TypeError")] == [each[:2] for each in dead(outcome)]
    assert all(each.message.startswith(f"{handler} {expected}") for each in outcome.dead)


@pytest.mark.parametrize("handler", ["prepare_messages", "handle_batch"])
def test_messages_that_come_back_twice_go_on_once(handler: str) -> None:
    behaviour[handler] = lambda messages: messages + messages

    outcome = run(Threes, numbered(4))

    assert ([0, 1, 2, 3], []) == (ids(outcome), outcome.dead)


def test_a_batch_that_raises_fails_as_a_whole_and_other_batches_land() -> None:
    def handle(messages: list[Message]) -> list[Message]:
        if messages[0].offset == 3:
            raise OSError("no route")
        return messages

    behaviour["handle_batch"] = handle

    outcome = run(Threes, numbered(8))

    assert [0, 1, 2, 6, 7] == ids(outcome)
    assert [(at, "OSError", "no route") for at in (3, 4, 5)] == dead(outcome)


@pytest.mark.parametrize("kind", [Ones, Threes])
def test_a_message_that_fails_in_a_batch_is_shown_and_counted_once(kind: type[Pipeline]) -> None:
    behaviour["handle_batch"] = lambda _: 1 / 0

    outcome = run(kind, numbered(4))

    assert [0, 1, 2, 3] == [offset for offset, _, _ in seen]
    assert 4 == outcome.handlers["failed"]


class Mistaken:
    def __str__(self) -> str:
        raise RuntimeError


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("nowhere", "nowhere"),
        ("", ""),
        (None, "NoneType"),
        (5, "int"),
        (["default"], "list"),
        ({}, "dict"),
        (Mistaken(), "Mistaken"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_message_for_a_batcher_that_is_not_there_is_a_dead_letter(name: Any, shown: str) -> None:
    behaviour["handle_message"] = lambda message: message.put_batcher(name) if message.offset == 1 else message

    outcome = run(Threes, numbered(3))

    assert [0, 2] == ids(outcome)
    assert [(1, "UnknownBatcher", f"there is no batcher '{shown}'")] == dead(outcome)


class Unequal:
    def __hash__(self) -> int:
        return 1

    def __eq__(self, other: object) -> bool:
        raise RuntimeError


class Unhashable:
    def __hash__(self) -> int:
        raise RuntimeError


@pytest.mark.parametrize("make", [list, dict, lambda: ([],), Unhashable])
def test_a_message_whose_batch_key_cannot_be_hashed_is_a_dead_letter(make: Callable[[], Any]) -> None:
    behaviour["handle_message"] = lambda message: message.put_batch_key(make()) if message.offset == 1 else message

    outcome = run(Threes, numbered(3))

    assert [0, 2] == ids(outcome)
    assert [(1, "TypeError", "a batch key must be hashable: a string, a number, a tuple")] == dead(outcome)


def test_batch_keys_that_cannot_be_compared_lose_no_message_and_stop_nothing() -> None:
    behaviour["handle_message"] = lambda message: message.put_batch_key(Unequal())

    assert [1, 2] == [each[0] for each in dead(run(Threes, numbered(3)))]
