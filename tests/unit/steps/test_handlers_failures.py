"""Messages that a handler fails, or spoils: each is a dead letter with its record as it came, and the others land."""

from collections.abc import Callable
from typing import Any, cast

import pytest

from penstock import Message
from penstock.testing import Record, run

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
    setting,
)


class Wrong(Exception):
    def __str__(self) -> str:
        return cast("str", 5)


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (ValueError("too odd"), ("ValueError", "too odd")),
        (KeyError("id"), ("KeyError", "'id'")),
        (ValueError(), ("ValueError", "ValueError")),
        (Mute(), ("Mute", "Mute")),
        (Wrong(), ("Wrong", "Wrong")),
        (StopIteration("next"), ("StopIteration", "next")),
        (ValueError("x" * 9999), ("ValueError", "x" * 500)),
        (ValueError("half \ud83d"), ("ValueError", "half ?")),
        (RecursionError("deep"), ("RecursionError", "deep")),
        (MemoryError(), ("MemoryError", "MemoryError")),
        (ExceptionGroup("two", [ValueError()]), ("ExceptionGroup", "two (1 sub-exception)")),
    ],
    ids=lambda value: repr(type(value).__name__) if isinstance(value, Exception) else "",
)
def test_a_message_whose_handler_raises_is_a_dead_letter_and_the_others_land(
    error: Exception, expected: tuple[str, str]
) -> None:
    behaviour["handle_message"] = raising(error, at=1)

    outcome = run(Handled, numbered(3))

    assert [0, 2] == ids(outcome)
    assert [(1, *expected)] == dead(outcome)


def test_a_dead_letter_holds_the_record_as_it_came_whatever_was_made_of_its_data() -> None:
    def spoil(message: Message) -> Message:
        assert message.data is not None
        message.data.clear()
        message.value = b"other"
        return message.failed("spoilt")

    behaviour["handle_message"] = spoil

    (letter,) = run(Handled, [Record('{ "id" : 1 }', partition=2)]).dead

    assert (2, 0, b'{ "id" : 1 }', None) == (letter.partition, letter.offset, letter.value, letter.sink)


@pytest.mark.parametrize("reason", ["", "why", 5, "x" * 9999, None])
def test_a_message_can_be_failed_with_a_reason(reason: Any) -> None:
    behaviour["handle_message"] = lambda message: message.failed(reason)

    assert [(0, "MessageFailed", str(reason)[:500])] == dead(run(Handled, numbered(1)))


@pytest.mark.parametrize(
    ("result", "kind"),
    [
        pytest.param(lambda _: None, "NoneType", id="none"),
        pytest.param(lambda message: [message], "list", id="a list"),
        pytest.param(lambda message: message.data, "dict", id="its data"),
        pytest.param(lambda message: Message(message.data, offset=message.offset), "Message", id="another one"),
    ],
)
def test_a_message_that_does_not_come_back_is_a_dead_letter_that_says_so(
    result: Callable[[Message], Any], kind: str
) -> None:
    behaviour["handle_message"] = result

    expected = f"handle_message returned {kind}: return the message, or message.drop()"
    assert [(0, "TypeError", expected)] == dead(run(Handled, numbered(1)))


def test_a_message_that_is_dropped_and_then_raises_is_not_lost() -> None:
    def handle(message: Message) -> Message:
        message.drop()
        raise ValueError("after all")

    behaviour["handle_message"] = handle

    outcome = run(Handled, numbered(1))

    assert [(0, "ValueError", "after all")] == dead(outcome)
    assert (1, 0) == (outcome.handlers["failed"], outcome.handlers["dropped"])


@pytest.mark.parametrize("value", [None, [], "text", 5, Message({})], ids=lambda value: type(value).__name__)
def test_data_that_is_no_dictionary_is_a_dead_letter(value: Any) -> None:
    def handle(message: Message) -> Message:
        if message.offset == 1:
            message.data = value
        return message

    behaviour["handle_message"] = handle

    outcome = run(Threes, numbered(3))

    assert [0, 2] == ids(outcome)
    assert [(1, "AttributeError")] == [each[:2] for each in dead(outcome)]


@pytest.mark.parametrize(
    "data",
    [
        pytest.param({"id": "text"}, id="text for a number"),
        pytest.param({"id": 1.5}, id="no whole number"),
        pytest.param({"id": 2**63}, id="too large"),
        pytest.param({"id": object()}, id="anything"),
        pytest.param({"s": 5}, id="number for text"),
        pytest.param({"s": "\ud83d"}, id="half a character"),
        pytest.param({"s": ["a"]}, id="list for text"),
        pytest.param({"s": object()}, id="anything for text"),
    ],
)
def test_values_that_do_not_fit_are_dead_letters_that_are_counted_and_shown(data: dict[str, Any]) -> None:
    def handle(message: Message) -> Message:
        if message.offset == 1:
            message.data = {"id": 1, **data}
        return message

    behaviour["handle_message"] = handle

    outcome = run(Handled, numbered(3))

    assert [0, 2] == ids(outcome)
    ((offset, error, message),) = dead(outcome)
    assert (1, "SchemaMismatch", next(iter(data))) == (offset, error, message.partition(":")[0])
    assert ([1], 1) == ([number for number, _, _ in seen], outcome.handlers["failed"])


@pytest.mark.parametrize(
    "record_error",
    [
        "text",
        {},
        {"error": "x"},
        {"stage": "handler", "error": "x"},
        {"stage": None, "error": "x", "message": "y"},
        {"stage": "task_summary", "error": "x", "message": "{}"},
        5,
    ],
)
def test_an_error_that_says_too_little_is_refused_and_its_message_not_written(record_error: Any) -> None:
    def handle(message: Message) -> Message:
        if message.offset == 1:
            message.error = record_error
        return message

    behaviour["handle_message"] = handle

    outcome = run(Threes, numbered(3))

    expected = "an error has a stage, a class and a message: use message.failed(reason)"
    assert ([0, 2], [(1, "TypeError", expected)]) == (ids(outcome), dead(outcome))


def test_a_fault_of_a_stage_of_its_own_may_be_given() -> None:
    record_error = {"stage": "pricing", "error": "NoPrice", "message": "sold out"}
    behaviour["handle_message"] = setting("error", record_error)

    (letter,) = run(Handled, numbered(1)).dead

    assert ("pricing", "NoPrice", "sold out") == (letter.stage, letter.error, letter.message)


@pytest.mark.parametrize(
    ("name", "value"),
    [("value", 5), ("value", None), ("partition", "x"), ("offset", None), ("headers", 1), ("key", {})],
)
def test_what_is_known_of_the_record_may_be_overwritten_and_changes_nothing(name: str, value: Any) -> None:
    behaviour["handle_message"] = setting(name, value)

    outcome = run(Threes, numbered(4))

    assert ([0, 1, 2, 3], []) == (ids(outcome), outcome.dead)


@pytest.mark.parametrize(("mark", "count"), [(1, 2), ("yes", 2), (0, 0), (None, 0)])
def test_a_drop_is_whatever_is_true(mark: Any, count: int) -> None:
    behaviour["handle_message"] = setting("is_dropped", mark)

    outcome = run(Handled, numbered(2))

    assert (count, {"console": count}) == (outcome.handlers["dropped"], outcome.dropped)


class Required(Handled):
    name = "required"
    returns = "id bigint NOT NULL, l array<string>"


def test_a_value_that_is_required_and_not_given_is_a_dead_letter() -> None:
    behaviour["handle_message"] = setting("data", {"l": ["a"]})

    assert [(0, "SchemaMismatch", "id: null, and it is required")] == dead(run(Required, numbered(1)))
