"""What was sent to a pipeline's source, where it landed, and the judge who compares the two.

The judge reads every sink and the dead letters afresh, with readers that know nothing of Penstock's positions.
"""

import gzip
import hashlib
import json
import random
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from confluent_kafka import KafkaError, Message
from deltalake import DeltaTable

from penstock.kafka.connection import Connection
from penstock.kafka.producer import Producer
from penstock.kafka.reader import read_all

from support.iceberg_tables import iceberg_rows

SCHEMA = "n bigint NOT NULL, key string NOT NULL, sha string NOT NULL"


@dataclass(frozen=True)
class Row:
    """A row as a sink holds it: the record that it says it came from, and the event in it."""

    topic_id: str
    partition: int
    offset: int
    n: int
    sha: str


@dataclass(frozen=True)
class Letter:
    """A dead letter: the record that it says it came from, and the bytes in it."""

    topic_id: str
    partition: int
    offset: int
    value: bytes


@dataclass
class Journal:
    """Every event that was acknowledged, by its place in the topic. One in fifty is malformed."""

    connection: Connection
    topic: str
    seed: int = 7
    acknowledged: dict[tuple[int, int], bytes] = field(default_factory=dict)
    failed: int = 0
    sent: int = 0

    def send(self, count: int) -> None:
        """Send events of a few keys, and record what was acknowledged where."""
        dice = random.Random(self.seed + self.sent)
        with Producer(self.connection, on_delivery=self._report) as producer:
            for number in range(self.sent, self.sent + count):
                key = f"k{dice.randrange(50)}"
                value = event(number, key)
                producer.send(self.topic, value[:-4] if dice.random() < 0.02 else value, key=key)
        self.sent += count

    def _report(self, error: KafkaError | None, message: Message) -> None:
        if error is None:
            self.acknowledged[int(message.partition() or 0), int(message.offset() or 0)] = message.value() or b""
        else:
            self.failed += 1


def event(number: int, key: str) -> bytes:
    sha = hashlib.sha256(f"{number}/{key}".encode()).hexdigest()
    return json.dumps({"n": number, "key": key, "sha": sha}).encode()


def expected(value: bytes) -> tuple[int, str] | None:
    """Read an event as its sender meant it; None if it was sent malformed."""
    try:
        data = json.loads(value)
    except ValueError:
        return None
    return data["n"], data["sha"]


def judge(
    journal: Journal,
    topic_id: str,
    rows: Iterable[Row],
    letters: Iterable[Letter],
    refused: Callable[[int], bool] = lambda _n: False,
) -> list[str]:
    """Nothing lost, doubled, invented, moved or changed. An empty list is a pass.

    `refused` tells which good events the sink does not take: those must be dead letters.
    """
    landed: dict[tuple[int, int], list[Row]] = defaultdict(list)
    dead: dict[tuple[int, int], list[Letter]] = defaultdict(list)
    faults = []
    for row in rows:
        landed[row.partition, row.offset].append(row)
        if row.topic_id != topic_id:
            faults.append(f"of another topic: {row}")
    for letter in letters:
        dead[letter.partition, letter.offset].append(letter)
    for source_partition, value in journal.acknowledged.items():
        meant = expected(value)
        meant = None if meant is not None and refused(meant[0]) else meant
        if len(landed[source_partition]) + len(dead[source_partition]) != 1:
            faults.append(
                f"{len(landed[source_partition])} rows and {len(dead[source_partition])} dead letters of"
                f" {source_partition}"
            )
        elif meant is None and [value] != [letter.value for letter in dead[source_partition]]:
            faults.append(f"no dead letter as sent: {source_partition}")
        elif meant is not None and [meant] != [(row.n, row.sha) for row in landed[source_partition]]:
            faults.append(f"not what was sent: {source_partition}")
    strangers = (landed.keys() | dead.keys()) - journal.acknowledged.keys()
    return faults + [
        f"never acknowledged: {source_partition}"
        for source_partition in sorted(strangers)
        if landed[source_partition] or dead[source_partition]
    ]


def _row(data: dict[str, Any]) -> Row:
    return Row(data["_topic_id"], data["_partition"], data["_offset"], data["n"], data["sha"])


def delta_rows(path: Path) -> list[Row]:
    return [_row(each) for each in DeltaTable(str(path)).to_pyarrow_table().to_pylist()]


def iceberg_landed(path: Path) -> list[Row]:
    return [_row(each) for each in iceberg_rows(path)]


def json_rows(path: Path) -> list[Row]:
    rows = []
    for file in sorted(path.glob("[!._]*.jsonl.gz")):
        with gzip.open(file) as lines:
            in_file = [_row(json.loads(line)) for line in lines]
        assert in_file == sorted(in_file, key=lambda row: row.offset), f"{file} is out of order"
        rows += in_file
    return rows


def kafka_rows(connection: Connection, topic: str) -> list[Row]:
    rows = []
    last: dict[tuple[int, int], int] = {}
    for message in read_all(connection, topic):
        told = {name.removeprefix("penstock."): value.decode() for name, value in headers(message)}
        row = _row({**json.loads(message.value() or b""), **{f"_{name}": value for name, value in told.items()}})
        row = Row(row.topic_id, int(row.partition), int(row.offset), row.n, row.sha)
        stream = (int(message.partition() or 0), row.partition)
        assert last.get(stream, -1) < row.offset, f"{row} is out of order"
        last[stream] = row.offset
        rows.append(row)
    return rows


def headers(message: Message) -> list[tuple[str, bytes]]:
    listed: Any = message.headers() or []
    return list(listed)


def dead_letters(connection: Connection, topic: str, pipeline: str) -> list[Letter]:
    letters = []
    for message in read_all(connection, topic):
        told = {name.removeprefix("penstock."): value.decode() for name, value in headers(message)}
        if told["pipeline"] == pipeline:
            letters.append(
                Letter(told["topic_id"], int(told["partition"]), int(told["offset"]), message.value() or b"")
            )
    return letters
