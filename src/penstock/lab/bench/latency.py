"""How long an event takes from sending to reading with `speed: stream`, exactly once, and where each millisecond goes.

One pipeline with a Kafka and a Delta sink, at a low and even rate. The delay is measured at the topic behind it; the
parts are those of the batches that the driver ran meanwhile.
"""

import statistics
import threading
import time
from itertools import pairwise
from pathlib import Path

from pydantic import BaseModel, Field

from penstock.driver import session
from penstock.driver.batch import BatchReport
from penstock.driver.paths import PipelinePaths, Progress
from penstock.driver.runner import Runner
from penstock.kafka import topics
from penstock.kafka.admin import Admin
from penstock.kafka.topic_spec import TopicSpec
from penstock.lab.bench.realtime import Line, delays_of, line_of
from penstock.lab.bench.throwaway_kafka import Step, one_node
from penstock.pipeline.spec import PipelineSpec

_SOURCE, _SINK = "in", "out"
_OPENING, _BETWEEN = "opening the tasks", "between two: waiting, positions, plan, checkpoint, lag"


class Share(BaseModel, frozen=True):
    """One part of a batch."""

    part: str = Field(description="What the driver did.")
    p50_ms: float = Field(description="Half of the batches took less.")
    p95_ms: float = Field(description="19 of 20 took less.")


class Latency(BaseModel, frozen=True):
    """What was measured."""

    delay: Line = Field(description="How old events were when they were read.")
    batches: int = Field(description="Batches that were run meanwhile.")
    shares: list[Share] = Field(description="Where the time of a batch goes.")


def run(home: Path, jar_folder: Path, *, rate: int, seconds: int, step: Step) -> Latency:
    """Measure on a throwaway cluster of one node; what goes through while it warms up does not count."""
    with one_node(home, jar_folder, step) as cluster:
        connection = cluster.connection()
        spark = session.start("bench", home / "logs", master="local[2,4]", jars=[])
        for topic in (_SOURCE, _SINK):
            topics.create(Admin(connection), topic, TopicSpec(partitions=1))
        heard: list[tuple[float, BatchReport]] = []

        def hear(progress: Progress) -> None:
            if progress.report is not None:
                heard.append((time.monotonic(), progress.report))

        with Runner(_spec(home), connection, PipelinePaths(home / "run"), lambda: spark, home) as runner:
            thread = threading.Thread(target=runner.run, args=(hear,))
            thread.start()
            step(f"speed stream: {rate:,} events a second for {seconds} s", 0, 1)
            try:
                delays = delays_of(connection, _SOURCE, _SINK, rate, seconds)
            finally:
                runner.stopping.set()
                thread.join()
        spark.stop()
    return Latency(
        delay=line_of("Penstock, speed stream, into Kafka and Delta", delays),
        batches=len(heard),
        shares=shares_of(heard),
    )


def _spec(home: Path) -> PipelineSpec:
    return PipelineSpec.model_validate(
        {
            "name": "bench-latency",
            "source": {"topics": [_SOURCE]},
            "decode": {"type": "json", "schema": "id bigint NOT NULL, sent bigint NOT NULL, price double"},
            "steps": [{"sql": "SELECT id, sent, price * 2 AS twice FROM events"}],
            "expect": [{"name": "a price", "that": "twice >= 0", "otherwise": "dead_letter"}],
            "sinks": [{"type": "kafka", "topic": _SINK}, {"type": "delta", "path": str(home / "table")}],
            "speed": "stream",
            "batch": {"max_wait": "0ms"},
        }
    )


def shares_of(heard: list[tuple[float, BatchReport]]) -> list[Share]:
    """Put the parts of batches side by side, each heard of at its end; the first half is warming up."""
    late = heard[len(heard) // 2 :]
    reports = [report for _, report in late]
    parts = {name: [each.stages[name] for each in reports] for name in reports[0].stages}
    parts[_OPENING] = [each.seconds - sum(each.stages.values()) for each in reports]
    parts[_BETWEEN] = [at - before - report.seconds for (before, _), (at, report) in pairwise(late)]
    return [_share(name, seconds) for name, seconds in parts.items()]


def _share(part: str, seconds: list[float]) -> Share:
    cuts = statistics.quantiles(seconds, n=20)
    return Share(part=part, p50_ms=round(statistics.median(seconds) * 1000, 1), p95_ms=round(cuts[18] * 1000, 1))
