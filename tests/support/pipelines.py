"""Pipelines run in this process, on the one Spark of the whole run; what they landed is read afresh."""

import json
import os
import signal
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Message
from deltalake import DeltaTable

from penstock.delivery import crash_points, dead_letter
from penstock.delivery.dead_letter import DeadLetter
from penstock.driver.batch import BatchReport, SinkCount
from penstock.driver.paths import PipelinePaths, Progress
from penstock.driver.runner import Runner
from penstock.errors import NotFound
from penstock.kafka.connection import Connection
from penstock.kafka.producer import Producer
from penstock.kafka.reader import read_all
from penstock.pipeline.spec import PipelineSpec

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from conftest import RunningKafka

SCHEMA = "id bigint NOT NULL, name string"


@dataclass(frozen=True)
class Lab:
    """A broker, Spark, and a folder of the test's own."""

    kafka: "RunningKafka"
    spark: "SparkSession"
    folder: Path

    @property
    def connection(self) -> Connection:
        return self.kafka.connection

    @property
    def table(self) -> Path:
        """Where the delta sink goes unless a test says otherwise."""
        return self.folder / "table"

    def spec(self, topic: str, **parts: Any) -> PipelineSpec:
        """Make a pipeline named after its topic: JSON into a Delta table, unless told otherwise."""
        return PipelineSpec.model_validate(self.document(topic, **parts))

    def document(self, topic: str, **parts: Any) -> dict[str, Any]:
        """Return the same as a pipeline file has it."""
        return {
            "name": topic,
            "source": {"type": "kafka", "topics": [topic]},
            "decode": {"type": "json", "schema": SCHEMA},
            "sinks": [{"type": "delta", "path": str(self.table)}],
            "speed": "scheduled",
            **parts,
        }

    def written(self, topic: str, **parts: Any) -> Path:
        """Write a pipeline file; YAML takes JSON as it is."""
        file = self.folder / "pipeline.yaml"
        file.write_text(json.dumps(self.document(topic, **parts)), encoding="utf-8")
        return file

    def home(self, pipeline: str) -> PipelinePaths:
        """Return the folders that a command with `--home` finds, too."""
        return PipelinePaths(self.kafka.home / "pipelines" / pipeline)

    def runner(
        self, spec: PipelineSpec, home: PipelinePaths | None = None, connection: Connection | None = None
    ) -> Runner:
        return Runner(
            spec, connection or self.connection, home or self.home(spec.name), lambda: self.spark, self.folder
        )

    def run(
        self, spec: PipelineSpec, home: PipelinePaths | None = None, connection: Connection | None = None
    ) -> list[BatchReport]:
        """Run until caught up; give what each batch did."""
        with self.runner(spec, home, connection) as runner:
            return drive(runner)

    def send(self, topic: str, *values: bytes | str | dict[str, Any] | None, partition: int = 0) -> None:
        """Send values to one partition."""
        with Producer(self.connection) as producer:
            for value in values:
                producer.send(
                    topic, json.dumps(value) if isinstance(value, dict) else value, key="k", partition=partition
                )

    def send_ids(self, topic: str, ids: Iterable[int], partition: int = 0) -> None:
        self.send(topic, *({"id": number, "name": f"n{number}"} for number in ids), partition=partition)

    def rows(self, path: Path | None = None) -> list[dict[str, Any]]:
        """Read a Delta table, in the order of the source."""
        rows: list[dict[str, Any]] = DeltaTable(str(path or self.table)).to_pyarrow_table().to_pylist()
        return sorted(rows, key=lambda row: (row["_topic_id"], row["_partition"], row["_offset"]))

    def ids(self, path: Path | None = None) -> list[int]:
        """Return the ids that landed, sorted; one that landed twice stands twice."""
        return sorted(row["id"] for row in self.rows(path))

    def letters(self, topic: str) -> list[DeadLetter]:
        """Read the dead letters of a source topic, in its order."""
        try:
            found = list(dead_letter.read(self.connection, f"{topic}.dead"))
        except NotFound:
            return []
        return sorted(found, key=lambda letter: (letter.partition, letter.offset, letter.dead_offset))

    def dead_records(self, topic: str) -> list[Message]:
        return sorted(read_all(self.connection, f"{topic}.dead"), key=lambda message: int(message.offset() or 0))


class Died(BaseException):
    """What ends a driver of the test's own process: no handler of errors sees it."""


@contextmanager
def dying(at: str) -> Iterator[None]:
    """Let the block end at a crash point, and see that it did."""

    kill = os.kill

    def die(pid: int, number: int) -> None:
        if (pid, number) == (os.getpid(), signal.SIGKILL):
            raise Died
        kill(pid, number)

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PENSTOCK_CRASH_AT", at)
        patch.setattr(crash_points, "_passed", 0)
        patch.setattr(os, "kill", die)
        with pytest.raises(Died):
            yield


def drive(runner: Runner) -> list[BatchReport]:
    """Run an open runner to its end."""
    heard: list[Progress] = []
    runner.run(heard.append)
    return [each.report for each in heard if each.report is not None]


def total(reports: list[BatchReport], sink: str = "delta") -> SinkCount:
    """Add up what one sink got, and see that nothing is unaccounted for."""
    counts = [report.sinks[sink] for report in reports]
    assert all(count.read == count.written + count.dead + count.dropped for count in counts)
    return SinkCount(
        sum(count.read for count in counts),
        sum(count.written for count in counts),
        sum(count.dead for count in counts),
        sum(count.dropped for count in counts),
    )


def record_errors(letters: Iterable[DeadLetter]) -> list[tuple[int, str, str]]:
    """Return offset, stage and error of each letter."""
    return [(letter.offset, letter.stage, letter.error) for letter in letters]
