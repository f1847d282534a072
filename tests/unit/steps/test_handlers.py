"""Handlers of a pipeline class: when each is called, and what becomes of the messages that it gives back."""

from typing import ClassVar

from penstock import Batcher, BatchInfo, Message, Pipeline
from penstock.decoders.json import Json
from penstock.sinks.console import Console
from penstock.sources.kafka import Kafka
from penstock.testing import Record, run

from support.handlers import (
    Landing,
    nothing_of_other_tests,  # noqa: F401 - for every test here
    numbered,
    seen,
)


class Nothing(Landing):
    name = "nothing"


def test_a_class_without_handlers_lands_every_message_as_it_was_decoded() -> None:
    outcome = run(Nothing, [{"id": 1, "s": "a"}, {"id": 2}])

    assert [{"id": 1, "s": "a"}, {"id": 2, "s": None}] == outcome.rows
    assert (2, [], {"console": 0}) == (outcome.read, outcome.dead, outcome.dropped)


class All(Landing):
    name = "all"
    batchers: ClassVar = {"default": Batcher(batch_size=2)}

    def prepare_messages(self, messages: list[Message]) -> list[Message]:
        seen.append(("prepare_messages", [message.offset for message in messages]))
        return messages

    def handle_message(self, message: Message) -> Message:
        seen.append(("handle_message", message.offset))
        return message.failed("odd") if message.offset % 2 else message

    def handle_batch(self, batcher: str, messages: list[Message], info: BatchInfo) -> list[Message]:
        seen.append(("handle_batch", (batcher, [message.offset for message in messages], info.size)))
        return messages

    def handle_failed(self, messages: list[Message]) -> None:
        seen.append(("handle_failed", [message.offset for message in messages]))


def test_the_handlers_are_called_in_the_order_prepare_message_batch_failed() -> None:
    run(All, numbered(4))

    assert [
        ("prepare_messages", [0, 1, 2, 3]),
        ("handle_message", 0),
        ("handle_message", 1),
        ("handle_message", 2),
        ("handle_batch", ("default", [0, 2], 2)),
        ("handle_message", 3),
        ("handle_failed", [1, 3]),
    ] == seen


def test_what_the_handlers_did_is_counted() -> None:
    told = run(All, numbered(7)).handlers

    expected = {"messages": 7, "failed": 3, "dropped": 0, "batches": {"default": {"size": 2}}}
    assert expected == {name: told[name] for name in expected}
    assert {"prepare_messages", "handle_message", "handle_batch"} == set(told["seconds"])


def test_an_empty_pipeline_calls_no_handler() -> None:
    outcome = run(All, [])

    assert [] == seen
    assert (0, [], []) == (outcome.read, outcome.rows, outcome.dead)


class Prepared(Landing):
    name = "prepared"

    def __init__(self) -> None:
        self._looked_up: dict[int, str] = {}

    def prepare_messages(self, messages: list[Message]) -> list[Message]:
        self._looked_up = {each.offset: f"{len(messages)} at once" for each in messages}
        return messages[::-1]

    def handle_message(self, message: Message) -> Message:
        assert message.data is not None
        message.data["s"] = self._looked_up[message.offset]
        return message


def test_what_prepare_messages_looks_up_is_there_for_each_and_its_order_changes_nothing() -> None:
    outcome = run(Prepared, numbered(3))

    assert [(0, "3 at once"), (1, "3 at once"), (2, "3 at once")] == [(row["id"], row["s"]) for row in outcome.rows]


class Nosy(Landing):
    name = "nosy"

    def handle_message(self, message: Message) -> Message:
        seen.append(("seen", {name: getattr(message, name) for name in ("topic", "partition", "offset", "key")}))
        seen.append(("value", (message.value, message.headers, message.data, message.error, message.is_dropped)))
        return message


def test_a_message_carries_its_record_byte_for_byte() -> None:
    run(Nosy, [Record(b'{ "id":1}', key="k", headers={"h": "v", "n": b"\xff"}, partition=3)])

    assert [
        ("seen", {"topic": "messages", "partition": 3, "offset": 0, "key": b"k"}),
        ("value", (b'{ "id":1}', [("h", b"v"), ("n", b"\xff")], {"id": 1, "s": None}, None, False)),
    ] == seen


class Changing(Landing):
    name = "changing"
    returns = "total bigint, note string"

    def handle_message(self, message: Message) -> Message:
        assert message.data is not None
        number = message.data["id"]
        message.data = {"total": number * 10, "surplus": "left out"} if number else {"total": 0, "note": "none"}
        return message


def test_data_may_be_replaced_and_only_the_columns_that_are_promised_go_on() -> None:
    assert [{"total": 0, "note": "none"}, {"total": 10, "note": None}] == run(Changing, numbered(2)).rows


class Sorting(Landing):
    name = "sorting"
    batcher_column = "queue"
    batchers: ClassVar = {"default": Batcher(), "big": Batcher()}

    def handle_message(self, message: Message) -> Message:
        assert message.data is not None
        return message.put_batcher("big") if message.data["id"] > 1 else message


def test_a_batcher_column_tells_where_each_message_went() -> None:
    assert ["default", "default", "big"] == [row["queue"] for row in run(Sorting, numbered(3)).rows]


class Naming(Landing):
    name = "naming"
    returns = "id bigint"
    batcher_column = "queue"

    def handle_message(self, message: Message) -> Message:
        return message.put_batcher("of its own")


def test_a_batcher_column_follows_what_is_returned_and_needs_no_batchers() -> None:
    assert [{"id": 0, "queue": "of its own"}] == run(Naming, numbered(1)).rows


class Lying(Landing):
    name = "lying"
    batcher_column = "queue"

    def handle_message(self, message: Message) -> Message:
        assert message.data is not None
        message.data["queue"] = "my own"
        return message


def test_a_batcher_column_cannot_be_forged_by_data() -> None:
    assert [{"id": 0, "s": "x", "queue": "default"}] == run(Lying, [{"id": 0, "s": "x"}]).rows


class Nested(Pipeline):
    name = "nested"
    source = Kafka(topics=["hits"])
    decode = Json(
        schema="m map<string,bigint>, l array<struct<a:int,b:string>>, t timestamp, d decimal(20,3), y binary"
    )
    sinks = (Console(),)

    def handle_message(self, message: Message) -> Message:
        assert message.data is not None
        seen.append(("types", {name: type(value).__name__ for name, value in message.data.items()}))
        message.data["m"]["more"] = 2
        message.data["l"].append({"a": 3, "b": None})
        return message


def test_nested_values_are_plain_python_and_may_be_changed_in_place() -> None:
    value = '{"m":{"a":1},"l":[{"a":1,"b":"x"}],"t":"2026-01-02T03:04:05Z","d":"12.345","y":"aGk="}'

    outcome = run(Nested, [value])

    (row,) = outcome.rows
    assert [] == outcome.dead
    assert {"a": 1, "more": 2} == row["m"]
    assert [{"a": 1, "b": "x"}, {"a": 3, "b": None}] == row["l"]
    assert [("types", {"m": "dict", "l": "list", "t": "datetime", "d": "Decimal", "y": "bytes"})] == seen


class Counting(Landing):
    name = "counting"
    returns = "n bigint"

    def __init__(self) -> None:
        self._count = 0

    def handle_message(self, message: Message) -> Message:
        self._count += 1
        message.data = {"n": self._count}
        return message


def test_each_partition_has_an_instance_of_its_own() -> None:
    outcome = run(Counting, [Record({"id": 1}, partition=number % 3) for number in range(6)])

    assert [1, 2, 1, 2, 1, 2] == [row["n"] for row in outcome.rows]


def test_a_message_knows_how_to_be_chained_and_shown() -> None:
    message = Message({"id": 1}, topic="t", partition=2, offset=3)

    same = message.put_batcher("b").put_batch_key(("k", 1)).put_batch_mode("flush")

    assert same is message
    assert ("b", ("k", 1), "flush", True) == (message.batcher, message.batch_key, message.batch_mode, message.is_good)
    assert "Message(t-2@3, {'id': 1})" == repr(message)


def test_a_message_that_failed_or_was_dropped_is_no_longer_good() -> None:
    failed, dropped = Message({}).failed("why"), Message({}).drop()

    assert (False, {"stage": "handler", "error": "MessageFailed", "message": "why"}) == (failed.is_good, failed.error)
    assert (False, None) == (dropped.is_good, dropped.error)
