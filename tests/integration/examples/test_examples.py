import json
import os
import re
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka import Message

from penstock.errors import NotFound
from penstock.kafka import groups, topics
from penstock.kafka.producer import Producer
from penstock.kafka.reader import Reader, read_all

from conftest import RunningKafka, Said
from support.waiting import until

EXAMPLES = Path(__file__).parents[3] / "examples"
NOBODY = "127.0.0.1:1"
SEMANTICS = ["at-most-once", "at-least-once", "exactly-once"]

Example = Callable[..., Said]


def command(name: str, arguments: tuple[str | int, ...]) -> list[str]:
    # -u: what an example prints is here when it prints it.
    return [sys.executable, "-u", str(EXAMPLES / name), *map(str, arguments)]


@pytest.fixture
def example(tmp_path: Path) -> Example:
    """Run an example to its end, in an empty folder."""

    def run(name: str, *arguments: str | int, **env: str) -> Said:
        done = subprocess.run(
            command(name, arguments),
            cwd=tmp_path,
            env={**os.environ, **env},
            capture_output=True,
            text=True,
            timeout=480,
            check=False,
        )
        return Said(done.returncode, done.stdout, done.stderr)

    return run


@contextmanager
def running(name: str, *arguments: str | int) -> Iterator[subprocess.Popen[str]]:
    """Yield a running example, and end it by its process id if the test has not."""
    with subprocess.Popen(
        command(name, arguments), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def read_lines_until(process: subprocess.Popen[str], pattern: str) -> list[str]:
    """Read what the example prints, up to the first line that matches."""
    assert process.stdout is not None
    lines = []
    for line in process.stdout:
        lines.append(line.rstrip())
        if re.search(pattern, line):
            return lines
    pytest.fail(f"it ended without printing {pattern!r}: {lines}")


def interrupt(process: subprocess.Popen[str]) -> Said:
    """Press Ctrl-C, and give the rest of what it printed."""
    assert process.stdout is not None
    assert process.stderr is not None
    process.send_signal(signal.SIGINT)
    # Not communicate(): it would pass over the lines that were fetched together with the last one we took.
    out, err = process.stdout.read(), process.stderr.read()
    return Said(process.wait(240), out, err)


def fill_with_orders(kafka: RunningKafka, topic: str, count: int, *, partition: int = -1) -> None:
    with Producer(kafka.connection) as producer:
        for number in range(count):
            order = json.dumps({"id": number, "name": f"key-{number % 7}", "amount": 1.5})
            producer.send(topic, order, key=f"key-{number % 7}", partition=partition)


def per_partition(messages: list[Message]) -> dict[str, int]:
    return dict(Counter(f"{message.topic()}/{message.partition()}" for message in messages))


def counted(out: str, word: str) -> dict[str, int]:
    """Return the lines `topic/partition: n word` that an example printed."""
    return {place: int(count) for place, count in re.findall(rf"^(\S+/\d+): (\d+) {word}$", out, re.MULTILINE)}


def bootstrap(kafka: RunningKafka) -> str:
    return kafka.connection.bootstrap_servers


def numbers(messages: list[Message]) -> Counter[int]:
    return Counter(int(message.value() or b"") for message in messages)


def table(out: str) -> list[list[str]]:
    return [re.split(r"\s{2,}", line) for line in out.splitlines()]


def position(kafka: RunningKafka, group: str) -> int:
    return sum(groups.committed(kafka.admin(), group).values())


def test_produce_json_makes_the_topic_and_reports_exactly_what_is_in_it(kafka: RunningKafka, example: Example) -> None:
    topic = "made-by-produce-json"

    said = example("produce_json.py", "--topic", topic, "--count", 250, PENSTOCK_HOME=str(kafka.home))
    messages = read_all(kafka.connection, topic)

    assert (0, "") == (said.code, said.err)
    assert "250 of 250 orders acknowledged" in said.out
    assert per_partition(messages) == counted(said.out, "acknowledged")
    assert 3 == topics.partition_count(kafka.admin(), topic)
    assert set(range(250)) == {json.loads(message.value() or b"")["id"] for message in messages}


def test_produce_json_sends_keys_that_order_holds_for_and_headers_that_name_the_format(
    kafka: RunningKafka, example: Example
) -> None:
    topic = kafka.topic("orders", partitions=4)

    example("produce_json.py", "--topic", topic, "--count", 100, PENSTOCK_BOOTSTRAP_SERVERS=bootstrap(kafka))
    by_key: dict[str, list[tuple[int | None, int]]] = {}
    for message in read_all(kafka.connection, topic):
        order = json.loads(message.value() or b"")
        assert order["name"].encode() == message.key()
        assert ("content-type", b"application/json") in (message.headers() or [])
        by_key.setdefault(order["name"], []).append((message.partition(), order["id"]))

    assert 10 == len(by_key)
    for customer, seen in by_key.items():
        assert 1 == len({partition for partition, _ in seen}), customer
        assert sorted(seen) == seen, customer


def test_produce_json_adds_to_a_topic_that_is_there_and_leaves_its_settings_alone(
    kafka: RunningKafka, example: Example
) -> None:
    topic = kafka.topic("orders", partitions=1)

    said = [
        example("produce_json.py", "--bootstrap", bootstrap(kafka), "--topic", topic, "--count", 10) for _ in range(2)
    ]

    assert [0, 0] == [each.code for each in said]
    assert 20 == len(read_all(kafka.connection, topic))
    assert 1 == topics.partition_count(kafka.admin(), topic)


def test_consume_reads_exactly_as_many_as_asked_for_and_goes_on_there_the_next_time(
    kafka: RunningKafka, example: Example
) -> None:
    topic = kafka.topic("orders", partitions=3)
    fill_with_orders(kafka, topic, 100)
    options = ["--bootstrap", bootstrap(kafka), "--topic", topic, "--group", f"{topic}-group"]

    first = example("consume.py", *options, "--count", 70)
    after_first = position(kafka, f"{topic}-group")
    rest = example("consume.py", *options, "--count", 30)

    assert (0, "", 70) == (first.code, first.err, after_first)
    assert (0, "", 100) == (rest.code, rest.err, position(kafka, f"{topic}-group"))
    printed = re.findall(rf"^{topic}/(\d+)@(\d+) ", first.out + rest.out, re.MULTILINE)
    assert sorted((str(m.partition()), str(m.offset())) for m in read_all(kafka.connection, topic)) == sorted(printed)


def test_consume_ends_by_itself_when_nothing_comes_any_more_and_leaves_no_lag(
    kafka: RunningKafka, example: Example
) -> None:
    topic = kafka.topic("orders", partitions=3)
    fill_with_orders(kafka, topic, 100)
    group_options = ["--topic", topic, "--group", f"{topic}-group", "--idle", "10"]

    said = example("consume.py", "--bootstrap", bootstrap(kafka), *group_options)
    group = groups.describe(kafka.admin(), f"{topic}-group")

    assert (0, "") == (said.code, said.err)
    assert f"100 records read as group {topic}-group" in said.out
    assert per_partition(read_all(kafka.connection, topic)) == counted(said.out, "read")
    assert (0, []) == (group.lag, group.members)


def test_consume_that_is_interrupted_has_committed_what_it_printed(kafka: RunningKafka) -> None:
    topic = kafka.topic("orders")
    fill_with_orders(kafka, topic, 1000)

    with running(
        "consume.py", "--bootstrap", bootstrap(kafka), "--topic", topic, "--group", f"{topic}-group"
    ) as process:
        head = read_lines_until(process, f"{topic}/0@20 ")
        rest = interrupt(process)

    printed = [line for line in head + rest.out.splitlines() if line.startswith(f"{topic}/0@")]
    assert (0, "") == (rest.code, rest.err)
    assert [f"{topic}/0@{number}" for number in range(len(printed))] == [line.split()[0] for line in printed]
    assert len(printed) == position(kafka, f"{topic}-group")


def test_consume_manual_commit_batches_by_size_and_commits_all_of_it(kafka: RunningKafka) -> None:
    topic = kafka.topic("orders", partitions=2)
    fill_with_orders(kafka, topic, 250)

    with running(
        "consume_manual_commit.py", "--bootstrap", bootstrap(kafka), "--topic", topic, "--group", f"{topic}-group"
    ) as process:
        lines = read_lines_until(process, r"\b250 in all")
        committed_before_the_end = position(kafka, f"{topic}-group")
        rest = interrupt(process)
    group = groups.describe(kafka.admin(), f"{topic}-group")

    sizes = [int(size) for line in lines for size in re.findall(r"a batch of (\d+)", line)]
    assert f"assigned {topic}/0 {topic}/1" == lines[0]
    assert (100, 250) == (max(sizes), sum(sizes))
    assert 250 == committed_before_the_end
    assert (0, "") == (rest.code, rest.err)
    assert [f"revoked {topic}/0 {topic}/1", "250 records committed; 250 orders over 375.00"] == (rest.out.splitlines())
    assert (0, []) == (group.lag, group.members)


def test_consume_manual_commit_hands_a_part_batch_on_when_its_time_is_up(kafka: RunningKafka) -> None:
    topic = kafka.topic("orders")
    fill_with_orders(kafka, topic, 5)

    with running(
        *("consume_manual_commit.py", "--bootstrap", bootstrap(kafka), "--topic", topic, "--group", f"{topic}-group"),
        *("--batch-size", 1000, "--batch-seconds", "0.5"),
    ) as process:
        read_lines_until(process, r"\b5 in all")
        rest = interrupt(process)

    assert (0, "") == (rest.code, rest.err)
    assert "5 records committed; 5 orders over 7.50" in rest.out
    assert 5 == position(kafka, f"{topic}-group")


def test_after_a_kill_at_most_once_loses_at_least_once_doubles_and_exactly_once_does_neither(
    kafka: RunningKafka, example: Example
) -> None:
    said = example("delivery_semantics.py", "--bootstrap", bootstrap(kafka), "--keep", "kept")

    assert (0, "") == (said.code, said.err)
    assert [
        ["semantics", "sent", "results", "lost", "doubled"],
        ["at most once", "100", "80", "20", "0"],
        ["at least once", "100", "120", "0", "20"],
        ["exactly once", "100", "100", "0", "0"],
    ] == table(said.out)
    everything, killed_batch = Counter(range(100)), Counter(range(40, 60))
    assert everything == numbers(read_all(kafka.connection, "kept.sent"))
    assert everything - killed_batch == numbers(read_all(kafka.connection, "kept.at-most-once"))
    assert everything + killed_batch == numbers(read_all(kafka.connection, "kept.at-least-once"))
    assert everything == numbers(read_all(kafka.connection, "kept.exactly-once"))
    # The kill was inside the transaction: its results are in the topic, aborted.
    with Reader(kafka.connection, "kept.exactly-once", committed_only=False) as reader:
        assert everything + killed_batch == numbers(list(reader))
    # Kafka shows a position that a transaction moved a moment after the commit.
    until(lambda: [groups.describe(kafka.admin(), f"kept.{each}").lag for each in SEMANTICS] == [0, 0, 0])


@pytest.mark.parametrize("name", ["produce_json.py", "consume.py", "consume_manual_commit.py", "delivery_semantics.py"])
def test_without_a_broker_an_example_ends_with_4_and_one_line_that_says_where_it_looked(
    example: Example, name: str
) -> None:
    said = example(name, "--bootstrap", NOBODY)

    assert (4, "") == (said.code, said.out)
    (line,) = said.err.splitlines()
    assert line.startswith("error: ")
    assert f"no Kafka answers at {NOBODY}" in line


@pytest.mark.parametrize("name", ["consume.py", "consume_manual_commit.py"])
def test_a_consumer_of_a_topic_that_is_missing_ends_with_3_and_names_it(
    kafka: RunningKafka, example: Example, name: str
) -> None:
    said = example(name, "--bootstrap", bootstrap(kafka), "--topic", "no-such-topic")

    assert (3, "") == (said.code, said.out)
    (line,) = said.err.splitlines()
    assert "no-such-topic" in line
    with pytest.raises(NotFound):
        topics.partition_count(kafka.admin(), "no-such-topic")
