import random
import sys
from collections.abc import Iterator
from typing import Any, ClassVar

import pyarrow as pa
import pytest

from penstock import Batcher, BatchInfo, Message, Pipeline
from penstock.decoders.json import Json
from penstock.sinks.console import Console
from penstock.sources.kafka import Kafka
from penstock.steps.handlers import Handlers
from penstock.steps.step import StepContext
from penstock.testing import Outcome, Record, run

from support.events import batch

Calls = list[tuple[str, Any]]
calls: Calls = []
"""What the handlers below were called with, in order."""


@pytest.fixture(autouse=True)
def nothing_of_other_tests() -> Iterator[None]:
    path = list(sys.path)
    calls.clear()
    yield
    calls.clear()
    sys.path[:] = path


class Landing(Pipeline):
    source = Kafka(topics=["hits"])
    decode = Json(schema="id bigint, s string")
    sinks = (Console(),)


def ids(outcome: Outcome) -> list[int]:
    return [row["id"] for row in outcome.rows]


def numbered(count: int) -> list[dict[str, Any]]:
    return [{"id": number, "s": "x"} for number in range(count)]


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
        calls.append(("prepare_messages", [message.offset for message in messages]))
        return messages

    def handle_message(self, message: Message) -> Message:
        calls.append(("handle_message", message.offset))
        return message.failed("odd") if message.offset % 2 else message

    def handle_batch(self, batcher: str, messages: list[Message], info: BatchInfo) -> list[Message]:
        calls.append(("handle_batch", (batcher, [message.offset for message in messages], info.size)))
        return messages

    def handle_failed(self, messages: list[Message]) -> None:
        calls.append(("handle_failed", [message.offset for message in messages]))


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
    ] == calls


def test_what_the_handlers_did_is_counted() -> None:
    told = run(All, numbered(7)).handlers

    expected = {"messages": 7, "failed": 3, "dropped": 0, "batches": {"default": {"size": 2}}}
    assert expected == {name: told[name] for name in expected}
    assert {"prepare_messages", "handle_message", "handle_batch"} == set(told["seconds"])


def test_an_empty_pipeline_calls_no_handler() -> None:
    outcome = run(All, [])

    assert [] == calls
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
        calls.append(("seen", {name: getattr(message, name) for name in ("topic", "partition", "offset", "key")}))
        calls.append(("value", (message.value, message.headers, message.data, message.error, message.is_dropped)))
        return message


def test_a_message_carries_its_record_byte_for_byte() -> None:
    run(Nosy, [Record(b'{ "id":1}', key="k", headers={"h": "v", "n": b"\xff"}, partition=3)])

    assert [
        ("seen", {"topic": "messages", "partition": 3, "offset": 0, "key": b"k"}),
        ("value", (b'{ "id":1}', [("h", b"v"), ("n", b"\xff")], {"id": 1, "s": None}, None, False)),
    ] == calls


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
    assert [{"id": 0, "s": "x", "queue": "default"}] == run(Lying, numbered(1)).rows


class Nested(Pipeline):
    name = "nested"
    source = Kafka(topics=["hits"])
    decode = Json(
        schema="m map<string,bigint>, l array<struct<a:int,b:string>>, t timestamp, d decimal(20,3), y binary"
    )
    sinks = (Console(),)

    def handle_message(self, message: Message) -> Message:
        assert message.data is not None
        calls.append(("types", {name: type(value).__name__ for name, value in message.data.items()}))
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
    assert [("types", {"m": "dict", "l": "list", "t": "datetime", "d": "Decimal", "y": "bytes"})] == calls


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


class Dice(Landing):
    """Does anything that a handler may do, by the message alone, so that a test knows what to expect."""

    name = "dice"
    returns = "id bigint, s string, n int NOT NULL"
    batchers: ClassVar = {
        "default": Batcher(batch_size=7),
        "small": Batcher(batch_size=1),
        "bytes": Batcher(batch_size=50, max_bytes=200),
    }

    def handle_message(self, message: Message) -> Message:
        assert message.data is not None
        dice = random.Random(message.data["id"])
        message.data["n"] = message.data["id"] % 1000 if dice.random() > 0.1 else None
        if dice.random() < 0.1:
            raise ValueError("rolled")
        if dice.random() < 0.1:
            return message.failed("rolled")
        if dice.random() < 0.1:
            return message.drop()
        if dice.random() < 0.2:
            message.put_batch_mode("flush")
        name = dice.choice(["default", "default", "small", "bytes", "nowhere"])
        return message.put_batcher(name).put_batch_key(dice.randrange(5))

    def handle_batch(self, batcher: str, messages: list[Message], info: BatchInfo) -> list[Message]:
        calls.append(("batch", (batcher, info, [(message.offset, message.batch_key) for message in messages])))
        random.Random(messages[0].offset).shuffle(messages)
        for message in messages:
            if message.offset % 17 == 0:
                message.drop()
            elif message.offset % 13 == 0:
                message.failed("thirteen")
        return messages


def fate(number: int, offset: int) -> str:
    """Tell what `Dice` makes of a message, without its code being run."""
    dice = random.Random(number)
    fits = dice.random() > 0.1
    if dice.random() < 0.1 or dice.random() < 0.1:
        return "dead"
    if dice.random() < 0.1:
        return "dropped"
    if dice.random() < 0.2:
        pass
    if dice.choice(["default", "default", "small", "bytes", "nowhere"]) == "nowhere":
        return "dead"
    if offset % 17 == 0:
        return "dropped"
    return "dead" if offset % 13 == 0 or not fits else "row"


@pytest.mark.parametrize("seed", range(8))
def test_order_is_that_of_each_partition_and_nothing_is_lost_however_batches_mix(seed: int) -> None:
    dice = random.Random(seed)
    sent = [(dice.randrange(10**6), dice.randrange(4)) for _ in range(dice.randrange(1, 600))]

    outcome = run(
        Dice,
        [
            Record({"id": number, "s": "x" * (number % 50)}, partition=source_partition)
            for number, source_partition in sent
        ],
    )

    expected: dict[str, list[tuple[int, int]]] = {"row": [], "dead": [], "dropped": []}
    for partition in range(4):
        of_partition = [number for number, source_partition in sent if source_partition == partition]
        for offset, number in enumerate(of_partition):
            expected[fate(number, offset)].append((partition, number if fate(number, offset) == "row" else offset))
    assert [number for _, number in expected["row"]] == ids(outcome)
    assert expected["dead"] == sorted((letter.partition, letter.offset) for letter in outcome.dead)
    assert {"console": len(expected["dropped"])} == outcome.dropped
    assert (len(expected["dropped"]), len(sent)) == (outcome.handlers["dropped"], outcome.read)
    assert len(expected["dead"]) == outcome.handlers["failed"]


@pytest.mark.parametrize("seed", range(3))
def test_a_batch_keeps_the_order_of_its_messages_and_never_mixes_keys(seed: int) -> None:
    dice = random.Random(seed)

    run(Dice, [Record({"id": dice.randrange(10**6)}, partition=number % 2) for number in range(300)])

    assert 20 < len(calls)
    for _, (batcher, info, members) in calls:
        assert sorted(members) == members
        assert {info.batch_key} == {key for _, key in members}
        assert (batcher, len(members)) == (info.batcher, info.size)
    assert {0, 1} == {info.partition for _, (_, info, _) in calls}


def through(kind: type[Pipeline], chunks: list[pa.RecordBatch], tmp_path: Any) -> list[pa.RecordBatch]:
    """Run the task of the handlers over several chunks, as a long offset range has them."""
    step = kind.spec().steps[-1]
    assert isinstance(step, Handlers)
    task = step.open(StepContext(chunks[0].schema, tmp_path, tmp_path / "notes"))
    out = list(task(iter(chunks), 0))
    pa.Table.from_batches(out, task.schema).validate(full=True)
    return out


def sliced(count: int, each: int) -> list[pa.RecordBatch]:
    whole = batch("id bigint, s string", [(number, "x") for number in range(count)])
    return [whole.slice(first, each) for first in range(0, count, each)]


class Pairs(Landing):
    name = "pairs"
    batchers: ClassVar = {"default": Batcher(batch_size=4)}

    def handle_message(self, message: Message) -> Message:
        calls.append(("message", message.offset))
        return message.put_batch_key(message.offset % 2)

    def handle_batch(self, batcher: str, messages: list[Message], info: BatchInfo) -> list[Message]:
        calls.append((f"{batcher} {info.batch_key} {info.trigger}", [message.offset for message in messages]))
        return messages


def test_batches_reach_over_chunks_and_rows_still_leave_in_order(tmp_path: Any) -> None:
    out = through(Pairs, sliced(10, 3), tmp_path)

    assert [
        ("default 0 size", [100, 102, 104, 106]),
        ("default 1 size", [101, 103, 105, 107]),
        ("default 0 flush", [108]),
        ("default 1 flush", [109]),
    ] == [call for call in calls if call[0] != "message"]
    rows = [row for each in out for row in each.to_pylist()]
    assert list(range(100, 110)) == [row["_offset"] for row in rows[:-1]]
    assert "task_summary" == rows[-1]["_error"]["stage"]


def test_a_chunk_leaves_as_soon_as_each_of_its_messages_is_settled(tmp_path: Any) -> None:
    step = Pairs.spec().steps[-1]
    assert isinstance(step, Handlers)
    chunks = sliced(16, 8)
    taken: list[int] = []

    def source() -> Iterator[pa.RecordBatch]:
        for number, chunk in enumerate(chunks):
            taken.append(number)
            yield chunk

    first = next(step.open(StepContext(chunks[0].schema, tmp_path, tmp_path / "notes"))(source(), 0))

    assert ([0], 8) == (taken, first.num_rows)


def test_a_failed_record_among_chunks_keeps_its_place_and_its_reason(tmp_path: Any) -> None:
    whole = batch("id bigint, s string", [(number, "x") for number in range(6)], failed=(1, 4))

    out = through(Pairs, [whole.slice(0, 3), whole.slice(3, 3)], tmp_path)

    rows = [row for each in out for row in each.to_pylist()][:-1]
    assert list(range(100, 106)) == [row["_offset"] for row in rows]
    assert [101, 104] == [row["_offset"] for row in rows if row["_error"] and row["_error"]["error"] == "Malformed"]
    assert {100, 102, 103, 105} == {number for name, number in calls if name == "message"}


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
