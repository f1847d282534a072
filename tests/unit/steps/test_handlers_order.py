"""Handlers and the order of messages: rows leave as they came, however batches mix them."""

import random
from collections.abc import Iterator
from typing import Any, ClassVar

import pyarrow as pa
import pytest

from penstock import Batcher, BatchInfo, Message, Pipeline
from penstock.steps.handlers import Handlers
from penstock.steps.step import StepContext
from penstock.testing import Record, run

from support.events import batch
from support.handlers import (
    Landing,
    ids,
    nothing_of_other_tests,  # noqa: F401 - for every test here
    seen,
)


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
        seen.append(("batch", (batcher, info, [(message.offset, message.batch_key) for message in messages])))
        random.Random(messages[0].offset).shuffle(messages)
        for message in messages:
            if message.offset % 17 == 0:
                message.drop()
            elif message.offset % 13 == 0:
                message.failed("thirteen")
        return messages


def fate(number: int, offset: int) -> str:
    """Return what `Dice` makes of a message, without its code being run."""
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

    assert 20 < len(seen)
    for _, (batcher, info, members) in seen:
        assert sorted(members) == members
        assert {info.batch_key} == {key for _, key in members}
        assert (batcher, len(members)) == (info.batcher, info.size)
    assert {0, 1} == {info.partition for _, (_, info, _) in seen}


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
        seen.append(("message", message.offset))
        return message.put_batch_key(message.offset % 2)

    def handle_batch(self, batcher: str, messages: list[Message], info: BatchInfo) -> list[Message]:
        seen.append((f"{batcher} {info.batch_key} {info.trigger}", [message.offset for message in messages]))
        return messages


def test_batches_reach_over_chunks_and_rows_still_leave_in_order(tmp_path: Any) -> None:
    out = through(Pairs, sliced(10, 3), tmp_path)

    assert [
        ("default 0 size", [100, 102, 104, 106]),
        ("default 1 size", [101, 103, 105, 107]),
        ("default 0 flush", [108]),
        ("default 1 flush", [109]),
    ] == [call for call in seen if call[0] != "message"]
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
    assert {100, 102, 103, 105} == {number for name, number in seen if name == "message"}
