"""Handlers on a real broker and Spark: what they return lands once and in order, what fails is one dead letter."""

import gzip
import itertools
import json
import threading
from collections import defaultdict
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

from penstock.driver.batch import BatchReport
from penstock.driver.paths import Progress
from penstock.errors import PipelineHalted
from penstock.pipeline.load import load

from support.pipelines import Lab, drive, record_errors, total
from support.waiting import until

# Workers keep modules between batches, so each test has a module of its own.
_numbers = itertools.count(1)

RETURNS = "id bigint NOT NULL, name string, key string, batch int, place int, size int, trigger string"

# Of each batch, every row tells its number in the task, its place in it, its size and why it ended.
BATCHES = """
    def handle_batch(self, batcher, messages, info):
        self.number = getattr(self, "number", 0) + 1
        for place, message in enumerate(messages):
            told = {"batch": self.number, "place": place, "size": info.size, "trigger": info.trigger}
            message.data.update(told, key=str(info.batch_key))
        return list(reversed(messages))
"""

EVERYTHING = """
from penstock import Batcher, Pipeline
from penstock.steps.handlers import OnFailure

class Everything(Pipeline):
    name = "{topic}"
    source = {{"topics": ["{topic}"]}}
    decode = {{"type": "json", "schema": "id bigint NOT NULL, name string"}}
    returns = "{returns}"
    batchers = {{"default": Batcher(batch_size=4), "large": Batcher(batch_size=1000, max_bytes=120)}}
    on_failure = OnFailure(then="retry", attempts=3, backoff="1ms")
    batcher_column = "batcher"
    speed = "scheduled"
    sinks = [
        {{"type": "delta", "path": "table"}},
        {{"type": "json", "path": "lines", "where": "batcher = 'default'"}},
    ]

    def __init__(self):
        self.tried = set()

    def prepare_messages(self, messages):
        for message in messages:
            message.data["name"] += "/prepared"
        return messages

    def handle_message(self, message):
        number = message.data["id"] % 100
        if number == 3:
            raise LookupError("no three")
        if number == 4:
            return message.drop()
        if number == 5:
            return message.failed("no five")
        if number == 6:
            return message.put_batcher("nowhere")
        if number == 7 and number not in self.tried:
            self.tried.add(number)
            raise OSError("later")
        if number in (21, 23):
            return message.put_batch_key("bad")
        if number == 9:
            message.put_batch_mode("flush")
        return message.put_batcher("large") if number % 2 == 0 else message.put_batch_key(number % 3)
{batches}
    def handle_failed(self, messages):
        for message in messages:
            if message.error["stage"] == "decode" and message.partition == 1:
                message.drop()
            elif message.error["message"] == "no five" and message.partition == 2:
                message.failed("no five at all")
"""
CHOOSY = BATCHES.replace(
    "        self.number",
    """        if info.batch_key == "bad":
            raise RuntimeError("a bad batch")
        for message in messages:
            if message.data["id"] % 100 == 20:
                message.failed("no twenty")
        self.number""",
    1,
)


def handlers(folder: Path, text: str) -> str:
    """Write a class `Handlers` beside the pipeline; give what a step calls it."""
    name = f"handlers_{next(_numbers)}"
    (folder / f"{name}.py").write_text(f"class Handlers:\n{text}")
    return f"{name}:Handlers"


def step(reference: str, **parts: Any) -> list[dict[str, Any]]:
    return [{"handlers": reference, **parts}]


def json_lines(path: Path) -> dict[int, list[dict[str, Any]]]:
    """Read the lines of each partition, in the order in which they stand."""
    found = defaultdict(list)
    for file in sorted(path.glob("[!._]*.jsonl.gz")):
        for line in gzip.decompress(file.read_bytes()).splitlines():
            row = json.loads(line)
            found[row["_partition"]].append(row)
    return found


def handled(reports: list[BatchReport], name: str) -> int:
    return sum(int(report.handlers.get(name, 0)) for report in reports)


def test_every_handler_and_every_option_of_batchers_at_work_in_one_class(lab: Lab) -> None:
    topic = lab.kafka.topic("handlers-all", partitions=3)
    for partition in range(3):
        lab.send_ids(topic, range(100 * partition, 100 * partition + 30), partition=partition)
        lab.send(topic, b"malformed", partition=partition)
    file = lab.folder / f"everything_{next(_numbers)}.py"
    file.write_text(EVERYTHING.format(topic=topic, returns=RETURNS, batches=CHOOSY))

    reports = lab.run(load(file))

    good = [number for number in range(30) if number not in {3, 4, 5, 6, 20, 21, 23}]
    rows = lab.rows()
    assert [100 * partition + number for partition in range(3) for number in good] == [row["id"] for row in rows]
    assert {f"n{row['id']}/prepared" for row in rows} == {row["name"] for row in rows}
    assert [["default", "large"][number % 2 == 0] for number in good] * 3 == [row["batcher"] for row in rows]
    assert {"0", "1", "2"} == {row["key"] for row in rows if row["batcher"] == "default"}
    assert {"size", "flush"} == {row["trigger"] for row in rows if row["batcher"] == "default"}
    assert {"bytes", "flush"} == {row["trigger"] for row in rows if row["batcher"] == "large"}
    assert {4} == {row["size"] for row in rows if row["trigger"] == "size"}
    dead = [
        (3, "handler", "LookupError", "no three"),
        (5, "handler", "MessageFailed", "no five"),
        (6, "handler", "UnknownBatcher", "there is no batcher 'nowhere'"),
        (20, "handler", "MessageFailed", "no twenty"),
        (21, "handler", "RuntimeError", "a bad batch"),
        (23, "handler", "RuntimeError", "a bad batch"),
    ]
    letters = lab.letters(topic)
    told = {
        partition: [
            (each.offset, each.stage, each.error, each.message)
            for each in letters
            if each.partition == partition and each.stage == "handler"
        ]
        for partition in range(3)
    }
    renamed = [*dead[:1], (5, "handler", "MessageFailed", "no five at all"), *dead[2:]]
    assert {0: dead, 1: dead, 2: renamed} == told
    assert [0, 2] == [each.partition for each in letters if each.stage == "decode"]
    assert (93, 69, 20, 4) == _shown(total(reports))
    assert (93, 33, 20, 40) == _shown(total(reports, "json"))
    assert [100 * partition + number for partition in range(3) for number in good if number % 2] == [
        row["id"] for _, lines in sorted(json_lines(lab.folder / "lines").items()) for row in lines
    ]
    assert (90, 21, 15) == tuple(handled(reports, name) for name in ("messages", "failed", "retries"))
    assert {"prepare_messages", "handle_message", "handle_batch"} == {
        name for report in reports for name in report.handlers["seconds"]
    }


def test_rows_stand_in_the_order_of_their_partition_and_every_batch_in_that_of_its_key(lab: Lab) -> None:
    topic = lab.kafka.topic("handlers-order", partitions=3)
    for partition in range(3):
        lab.send_ids(topic, range(1000 * partition, 1000 * partition + 200), partition=partition)
    text = (
        "    def handle_message(self, message):\n"
        "        number = message.data['id'] * 7919 % 11\n"
        "        return message.put_batch_key(number % 5).put_batch_mode('flush' if number == 3 else 'bulk')\n"
    )
    sinks = [{"type": "delta", "path": str(lab.table)}, {"type": "json", "path": str(lab.folder / "lines")}]
    steps = step(handlers(lab.folder, text + BATCHES), batchers={"default": {"batch_size": 7}}, returns=RETURNS)

    reports = lab.run(lab.spec(topic, steps=steps, sinks=sinks, batch={"max_events": 360}))

    assert 2 == len(reports)
    assert (600, 600, 0, 0) == _shown(total(reports))
    everything = {partition: list(range(200)) for partition in range(3)}
    lines = json_lines(lab.folder / "lines")
    assert everything == {partition: [row["_offset"] for row in lines[partition]] for partition in sorted(lines)}
    for file in DeltaTable(str(lab.table)).file_uris():
        offsets = pq.read_table(file).column("_offset").to_pylist()
        assert sorted(offsets) == offsets
    # Rows stand in the order of offsets: what a batcher did of one key must then be in that order, too.
    for partition, rows in lines.items():
        runs = [0, *(start for start in _batch_starts(reports, partition) if start), 200]
        for first, last in itertools.pairwise(runs):
            seen = defaultdict(list)
            for row in rows[first:last]:
                seen[row["key"]].append((row["batch"], row["place"], row["size"]))
            for told in seen.values():
                assert sorted(told) == told
                sizes = {batch: size for batch, _, size in told}
                assert [
                    (batch, place, sizes[batch]) for batch in sorted(sizes) for place in range(sizes[batch])
                ] == told


def _batch_starts(reports: list[BatchReport], partition: int) -> list[int]:
    ends = [end for report in reports for place, end in report.ends.items() if place.partition == partition]
    return ends[:-1]


def test_a_handler_that_kills_its_worker_costs_that_record_and_no_other(lab: Lab) -> None:
    topic = lab.kafka.topic("handlers-killer", partitions=2)
    lab.send_ids(topic, range(20), partition=0)
    lab.send_ids(topic, range(20, 40), partition=1)
    text = """
    def handle_message(self, message):
        import os, signal
        if message.data["id"] == 13:
            os.kill(os.getpid(), signal.SIGKILL)
        return message
"""
    steps = step(handlers(lab.folder, text), batchers={"default": {"batch_size": 6}}, on_failure="stop")

    reports = lab.run(lab.spec(topic, steps=steps))

    assert [number for number in range(40) if number != 13] == lab.ids()
    assert [(13, "step", "WorkerDied")] == record_errors(lab.letters(topic))
    assert (40, 39, 1, 0) == _shown(total(reports))


def test_on_failure_stop_refuses_the_batch_and_writes_nothing_until_the_handler_is_fixed(lab: Lab) -> None:
    topic = lab.kafka.topic("handlers-stop", partitions=2)
    lab.send_ids(topic, range(10), partition=0)
    lab.send(topic, b"malformed", partition=0)
    lab.send_ids(topic, range(10, 20), partition=1)
    text = "    def handle_message(self, message):\n        return message.failed('no') if {} else message\n"
    broken = handlers(lab.folder, text.format("message.data['id'] == 14"))
    fixed = handlers(lab.folder, text.format("False"))

    with pytest.raises(PipelineHalted) as refused:
        lab.run(lab.spec(topic, steps=step(broken, on_failure="stop")))
    landed, letters = lab.ids(), lab.letters(topic)
    reports = lab.run(lab.spec(topic, steps=step(fixed, on_failure="stop")))

    assert 10 == refused.value.exit_code
    assert f"{topic}/1 offset 4" in str(refused.value)
    assert "MessageFailed: no" in str(refused.value)
    assert ([], []) == (landed, letters)
    assert list(range(20)) == lab.ids()
    assert [(10, "decode", "Malformed")] == record_errors(lab.letters(topic))
    assert (21, 20, 1, 0) == _shown(total(reports))


def test_an_outage_that_a_handler_raises_is_waited_for_and_nobody_dies(lab: Lab) -> None:
    topic = lab.kafka.topic("handlers-outage")
    lab.send_ids(topic, range(8))
    tries = lab.folder / "tries"
    text = f"""
    def handle_batch(self, batcher, messages, info):
        from penstock.errors import SinkUnavailable
        with open({str(tries)!r}, "a+") as file:
            file.write(".")
            file.flush()
            file.seek(0)
            # Spark itself tries a task four times before a job fails.
            if len(file.read()) <= 8:
                raise SinkUnavailable("the service is away")
        return messages
"""
    heard: list[Progress] = []
    steps = step(handlers(lab.folder, text), batchers={"default": {}}, on_failure="stop")
    with lab.runner(lab.spec(topic, steps=steps)) as runner:
        runner.run(heard.append)

    assert ["the service is away"] * 2 == [each.waiting_for for each in heard if each.report is None]
    assert list(range(8)) == lab.ids()
    assert [] == lab.letters(topic)
    assert (8, 8, 0, 0) == _shown(total([each.report for each in heard if each.report]))


def test_the_shortest_batch_timeout_takes_the_place_of_max_wait(lab: Lab) -> None:
    topic = lab.kafka.topic("handlers-timeout")
    lab.send_ids(topic, range(3))
    text = "    def handle_message(self, message):\n        return message\n"
    batchers = {"default": {"batch_timeout": "100ms"}, "slow": {"batch_timeout": "9m"}}
    steps = step(handlers(lab.folder, text), batchers=batchers)
    spec = lab.spec(topic, steps=steps, speed="stream", batch={"max_wait": "10m"})

    with lab.runner(spec) as runner:
        running = threading.Thread(target=drive, args=[runner])
        running.start()
        until(lambda: lab.ids() == [0, 1, 2])
        lab.send_ids(topic, [3])
        until(lambda: lab.ids() == [0, 1, 2, 3])
        runner.stopping.set()
        running.join(240)

    assert 100 == spec.max_wait_ms


def _shown(count: Any) -> tuple[int, int, int, int]:
    return count.read, count.written, count.dead, count.dropped
