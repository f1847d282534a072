from collections.abc import Callable
from typing import Any, ClassVar, cast

import pytest

from penstock import Batcher, Message, Pipeline
from penstock.testing import Record, run

from support.handlers import (
    Mute,
    Obeying,
    behaviour,
    dead,
    ids,
    nothing_of_other_tests,  # noqa: F401 - for every test here
    numbered,
    raising,
    seen,
)


class Handled(Obeying):
    name = "handled"


class Threes(Handled):
    name = "threes"
    batchers: ClassVar = {"default": Batcher(batch_size=3)}


def setting(name: str, value: Any) -> Callable[[Message], Message]:
    def handle(message: Message) -> Message:
        setattr(message, name, value)
        return message

    return handle


class Ones(Handled):
    name = "ones"
    batchers: ClassVar = {"default": Batcher(batch_size=1)}


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

    expected = f"handle_message gave back {kind}: return the message, or message.drop()"
    assert [(0, "TypeError", expected)] == dead(run(Handled, numbered(1)))


def test_a_message_that_is_dropped_and_then_raises_is_not_lost() -> None:
    def handle(message: Message) -> Message:
        message.drop()
        raise ValueError("after all")

    behaviour["handle_message"] = handle

    outcome = run(Handled, numbered(1))

    assert [(0, "ValueError", "after all")] == dead(outcome)
    assert (1, 0) == (outcome.handlers["failed"], outcome.handlers["dropped"])


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
        pytest.param(lambda _: None, "gave back NoneType: return the list of messages", id="none"),
        pytest.param(lambda messages: (each for each in messages), "gave back generator: return the", id="generator"),
        pytest.param(tuple, "gave back tuple: return the list of messages", id="tuple"),
        pytest.param(lambda _: [], "got 3 messages and gave back 0, or others", id="nothing"),
        pytest.param(lambda messages: messages[1:], "got 3 messages and gave back 2, or others", id="forgets one"),
        pytest.param(
            lambda messages: [*messages[1:], messages[1]], "got 3 messages and gave back 3", id="one for other"
        ),
        pytest.param(lambda messages: [*messages, Message({})], "got 3 messages and gave back 4", id="adds one"),
        pytest.param(lambda messages: [*messages, None], "got 3 messages and gave back 4", id="adds nothing"),
        pytest.param(lambda messages: [each.data for each in messages], "got 3 messages and gave back 3", id="data"),
        pytest.param(lambda messages: messages.clear() or messages, "got 3 messages and gave back 0", id="empties it"),
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


def test_handle_failed_mends_nothing() -> None:
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
