"""Very many lineage events into PostgreSQL: whether the last take longer, or more memory, than the first."""

import os
import time
from contextlib import suppress
from functools import partial
from pathlib import Path

import psutil
from pydantic import BaseModel, Field

from penstock.driver.paths import PipelinePaths, Progress
from penstock.driver.runner import Runner
from penstock.lab.bench.lineage import TOPIC, ask_store, fill, pipeline_into, spark_session, store_keys
from penstock.lab.bench.memory import Memory
from penstock.lab.bench.throwaway import running
from penstock.lab.bench.throwaway_kafka import Step, one_node
from penstock.lab.bench.throwaway_postgres import RunningPostgres
from penstock.lineage.store.address import StoreAddress
from penstock.lineage.store.database import migrate
from penstock.pipeline.spec import PipelineSpec

_INTERVAL_EVENTS = 100_000


class GrowthInterval(BaseModel, frozen=True):
    """Some batches on the way."""

    events: int = Field(description="Events in the store after it.")
    events_per_s: int = Field(description="Speed within it; the first one also opens the pipeline.")
    cpu_us: int = Field(description="Processor time an event, of the driver, Spark, Kafka and PostgreSQL together.")
    driver_mb: int = Field(description="Memory of the driver, at most.")
    jvm_mb: int = Field(description="Memory of its JVM, at most.")
    worker_mb: int = Field(description="Memory of the largest Python worker, at most.")


class _Course:
    """Takes note of each hundred thousand events."""

    def __init__(self, memory: Memory, events: int) -> None:
        self._memory = memory
        self._all = events
        self._read = self._reported = 0
        self._began, self._cpu_s = time.perf_counter(), _cpu_s()
        self.intervals: list[GrowthInterval] = []

    def __call__(self, progress: Progress) -> None:
        """Hear of a batch."""
        if progress.report is None:
            return
        self._read += progress.report.read
        new, now = self._read - self._reported, time.perf_counter()
        if new < _INTERVAL_EVENTS and self._read < self._all:
            return
        most, cpu_s = self._memory.lately(), _cpu_s()
        self.intervals.append(
            GrowthInterval(
                events=self._read,
                events_per_s=round(new / (now - self._began)),
                cpu_us=round(1e6 * (cpu_s - self._cpu_s) / new),
                driver_mb=round(most.driver / 1e6),
                jvm_mb=round(most.jvm / 1e6),
                worker_mb=round(most.worker / 1e6),
            )
        )
        self._reported, self._began, self._cpu_s = self._read, now, cpu_s


def _cpu_s() -> float:
    """Return the processor time of this process and all below it, which on a busy machine says more than its speed."""
    taken = 0.0
    for each in (psutil.Process(), *psutil.Process().children(recursive=True)):
        with suppress(psutil.Error):  # some end while they are looked at
            times = each.cpu_times()
            taken += times.user + times.system
    return taken


def run(home: Path, jar_folder: Path, *, events: int, step: Step) -> list[GrowthInterval]:
    """Measure on throwaway servers, in one pass; afterwards the store holds each execution once."""
    with (
        one_node(home, jar_folder, step) as cluster,
        running(partial(RunningPostgres, durable=True)) as postgres,
    ):
        connection = cluster.connection()
        fill(connection, events, step)
        keys = store_keys(postgres)
        migrate(StoreAddress.model_validate(keys))
        servers = [each.pid for each in psutil.Process().children()]
        spec = PipelineSpec.model_validate(pipeline_into(keys, TOPIC, name="growth", speed="scheduled"))
        with spark_session(home) as spark, Memory(os.getpid(), servers) as memory:
            step("events into the store", 0, 0)
            course = _Course(memory, events)
            with Runner(spec, connection, PipelinePaths(home / "home"), lambda: spark, home) as runner:
                runner.run(course)
        found = ask_store(postgres, keys, "SELECT count(*) FROM lineage.operation")
    if found != (events + 1) // 2:
        raise RuntimeError(f"{found} executions of {events} events")
    return course.intervals
