import random
import sys
from collections.abc import Iterator
from typing import Any, ClassVar

import pytest

from penstock import Batcher, BatchInfo, Message, Pipeline
from penstock.decoders.json import Json
from penstock.sinks.console import Console
from penstock.sources.kafka import Kafka
from penstock.testing import Record, run

batches: list[tuple[BatchInfo, list[int]]] = []
"""What came to `handle_batch`: what it was told, and the offsets."""


@pytest.fixture(autouse=True)
def nothing_of_other_tests() -> Iterator[None]:
    path = list(sys.path)
    batches.clear()
    yield
    batches.clear()
    sys.path[:] = path


class Batching(Pipeline):
    source = Kafka(topics=["hits"])
    decode = Json(schema="id bigint, s string")
    sinks = (Console(),)

    def handle_batch(self, batcher: str, messages: list[Message], info: BatchInfo) -> list[Message]:
        assert batcher == info.batcher
        batches.append((info, [message.offset for message in messages]))
        return messages


def numbered(count: int, partition: int = 0) -> list[Record]:
    return [Record({"id": number}, partition=partition) for number in range(count)]


def told() -> list[tuple[str, list[int]]]:
    return [(info.trigger, offsets) for info, offsets in batches]


class Threes(Batching):
    name = "threes"
    batchers: ClassVar = {"default": Batcher(batch_size=3)}


def test_a_batch_is_full_at_its_size_and_what_is_left_makes_a_smaller_one() -> None:
    outcome = run(Threes, numbered(8))

    assert [("size", [0, 1, 2]), ("size", [3, 4, 5]), ("flush", [6, 7])] == told()
    assert {"default": {"size": 2, "flush": 1}} == outcome.handlers["batches"]
    assert list(range(8)) == [row["id"] for row in outcome.rows]


def test_no_batch_is_empty_when_the_messages_fill_the_last_one() -> None:
    run(Threes, numbered(6))

    assert [("size", [0, 1, 2]), ("size", [3, 4, 5])] == told()


def test_a_batch_never_mixes_partitions() -> None:
    run(Threes, [Record({"id": number}, partition=number % 2) for number in range(8)])

    assert [(0, [0, 1, 2]), (0, [3]), (1, [0, 1, 2]), (1, [3])] == [(info.partition, at) for info, at in batches]


def test_records_that_cannot_be_decoded_take_no_place_in_a_batch() -> None:
    run(Threes, ["no json", {"id": 1}, None, {"id": 3}, {"id": 4}])

    assert [("size", [1, 3, 4])] == told()


class Ones(Batching):
    name = "ones"
    batchers: ClassVar = {"default": Batcher(batch_size=1)}


def test_a_batch_size_of_one_gives_each_message_a_batch() -> None:
    run(Ones, numbered(3))

    assert [("size", [0]), ("size", [1]), ("size", [2])] == told()


class Huge(Batching):
    name = "huge"
    batchers: ClassVar = {"default": Batcher(batch_size=1_000_000)}


def test_a_batch_that_never_fills_holds_everything_and_loses_nothing() -> None:
    outcome = run(Huge, numbered(20_000))

    assert [("flush", list(range(20_000)))] == told()
    assert list(range(20_000)) == [row["id"] for row in outcome.rows]


class Bytes(Batching):
    name = "bytes"
    batchers: ClassVar = {"default": Batcher(batch_size=4, max_bytes=30)}


def test_a_batch_also_ends_at_its_bytes_which_are_those_of_the_values() -> None:
    values = [f'{{"id":{number}}}' + " " * (2 if number < 3 else 12) for number in range(5)]

    run(Bytes, [*values, *['{"id":9}'] * 5])

    assert [10, 10, 10, 20, 20] == [len(value) for value in values]
    assert [("bytes", [0, 1, 2]), ("bytes", [3, 4]), ("size", [5, 6, 7, 8]), ("flush", [9])] == told()


def test_one_message_beyond_the_bytes_makes_a_batch_alone() -> None:
    run(Bytes, [Record('{"id":1}' + " " * 100), Record('{"id":2}')])

    assert [("bytes", [0]), ("flush", [1])] == told()


class Keyed(Batching):
    name = "keyed"
    batchers: ClassVar = {"default": Batcher(batch_size=2), "other": Batcher(batch_size=3)}
    key: ClassVar[Any] = staticmethod(lambda number: ("tenant", number % 2))

    def handle_message(self, message: Message) -> Message:
        assert message.data is not None
        return message.put_batch_key(self.key(message.data["id"])).put_batcher(message.data["s"] or "default")


def test_messages_share_a_batch_with_those_of_the_same_batcher_and_key() -> None:
    run(Keyed, [{"id": number, "s": "other" if number in {1, 2} else None} for number in range(6)])

    assert [
        ("default", ("tenant", 0), "size", [0, 4]),
        ("default", ("tenant", 1), "size", [3, 5]),
        ("other", ("tenant", 1), "flush", [1]),
        ("other", ("tenant", 0), "flush", [2]),
    ] == [(info.batcher, info.batch_key, info.trigger, offsets) for info, offsets in batches]


def test_batches_are_counted_by_batcher_and_trigger() -> None:
    outcome = run(Keyed, [{"id": number, "s": "other" if number in {1, 2} else None} for number in range(6)])

    assert {"default": {"size": 2}, "other": {"flush": 2}} == outcome.handlers["batches"]


class NoKeys(Keyed):
    name = "no-keys"
    key: ClassVar[Any] = staticmethod(lambda number: None if number % 2 else float("nan"))


def test_odd_keys_lose_no_message() -> None:
    outcome = run(NoKeys, numbered(6))

    assert list(range(6)) == [row["id"] for row in outcome.rows]
    assert [("size", [1, 3]), ("flush", [0]), ("flush", [2]), ("flush", [4]), ("flush", [5])] == told()


class Flushing(Batching):
    name = "flushing"
    batchers: ClassVar = {"default": Batcher(batch_size=10), "other": Batcher(batch_size=10)}

    def handle_message(self, message: Message) -> Message:
        assert message.data is not None
        message.put_batch_key(message.data["id"] % 2)
        return message.put_batch_mode("flush") if message.data["s"] == "now" else message


def test_flush_ends_the_batch_of_its_key_first_and_with_all_the_messages_at_hand() -> None:
    run(Flushing, [{"id": number, "s": "now" if number == 1 else None} for number in range(6)])

    assert [(1, [1, 3, 5]), (0, [0, 2, 4])] == [(info.batch_key, offsets) for info, offsets in batches]
    assert ["flush", "flush"] == [info.trigger for info, _ in batches]


class Reordering(Batching):
    name = "reordering"
    batchers: ClassVar = {"default": Batcher(batch_size=5)}

    def handle_batch(self, batcher: str, messages: list[Message], info: BatchInfo) -> list[Message]:
        super().handle_batch(batcher, messages, info)
        return random.Random(1).sample(messages, len(messages))


def test_a_batch_may_come_back_in_any_order_and_rows_keep_theirs() -> None:
    assert list(range(12)) == [row["id"] for row in run(Reordering, numbered(12)).rows]


class Spoiling(Batching):
    name = "spoiling"
    batchers: ClassVar = {"default": Batcher(batch_size=2)}

    def prepare_messages(self, messages: list[Message]) -> list[Message]:
        given = list(messages)
        messages.clear()
        return given

    def handle_batch(self, batcher: str, messages: list[Message], info: BatchInfo) -> list[Message]:
        given = super().handle_batch(batcher, list(messages), info)
        messages.clear()
        return given

    def handle_failed(self, messages: list[Message]) -> None:
        messages.clear()


def test_what_handlers_do_to_their_lists_loses_nothing() -> None:
    outcome = run(Spoiling, [*numbered(3), "no json"])

    assert [0, 1, 2] == [row["id"] for row in outcome.rows]
    assert [3] == [letter.offset for letter in outcome.dead]


class Partly(Batching):
    name = "partly"
    batchers: ClassVar = {"default": Batcher(batch_size=4)}

    def handle_batch(self, batcher: str, messages: list[Message], info: BatchInfo) -> list[Message]:
        super().handle_batch(batcher, messages, info)
        for message in messages:
            assert message.data is not None
            message.data["s"] = f"{info.size} together"
        messages[1].drop()
        messages[2].failed("the third")
        return messages


def test_of_a_batch_one_may_be_dropped_and_one_fail_while_the_others_go_on() -> None:
    outcome = run(Partly, numbered(4))

    assert [(0, "4 together"), (3, "4 together")] == [(row["id"], row["s"]) for row in outcome.rows]
    assert [(2, "MessageFailed", "the third")] == [(each.offset, each.error, each.message) for each in outcome.dead]
    assert ({"console": 1}, 1, 1) == (outcome.dropped, outcome.handlers["dropped"], outcome.handlers["failed"])


class Dropping(Batching):
    name = "dropping"
    batchers: ClassVar = {"default": Batcher(batch_size=2)}

    def handle_message(self, message: Message) -> Message:
        return message.drop() if message.offset % 2 else message


def test_dropped_messages_take_no_place_in_a_batch() -> None:
    outcome = run(Dropping, numbered(6))

    assert [("size", [0, 2]), ("flush", [4])] == told()
    assert ([], {"console": 3}) == (outcome.dead, outcome.dropped)


class DropsAll(Dropping):
    name = "drops-all"

    def handle_message(self, message: Message) -> Message:
        return message.drop()


def test_a_pipeline_may_drop_every_message() -> None:
    outcome = run(DropsAll, numbered(3))

    assert ([], [], {"console": 3}, []) == (outcome.rows, outcome.dead, outcome.dropped, batches)


class Unbatched(Batching):
    name = "unbatched"

    def handle_message(self, message: Message) -> Message:
        return message.put_batcher("anywhere").put_batch_key([]).put_batch_mode("flush")


def test_without_batchers_there_are_no_batches_whatever_a_message_chose() -> None:
    outcome = run(Unbatched, numbered(2))

    assert ([], 2, {}) == (batches, len(outcome.rows), outcome.handlers["batches"])
