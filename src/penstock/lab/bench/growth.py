"""What more events cost: the same pipeline over a topic that grows. Time should grow with it, memory should not."""

import shutil
import time
from pathlib import Path

from pydantic import BaseModel, Field

from penstock.lab.bench.pipeline import TOPIC, WARM_TOPIC, opened
from penstock.lab.bench.throwaway_kafka import Step

_WARM_EVENTS = 200_000
_MAX_EVENTS = 500_000


class Line(BaseModel, frozen=True):
    """One size of the topic."""

    events: int = Field(description="Events in the topic, all of them a backlog.")
    seconds: float = Field(description="From the start of the pipeline to the last commit, Spark being there already.")
    us_per_event: float = Field(description="Microseconds an event.")
    ratio: float = Field(description="Cost of an event beside the smallest topic; 1 is linear.")
    driver_mb: int = Field(description="Peak memory of a driver by itself and its JVM, over the same topic.")


def run(home: Path, jar_folder: Path, *, sizes: list[int], step: Step) -> list[Line]:
    """Measure the pipeline with two expectations and a derived column; each output is checked, event by event."""
    seconds: dict[int, float] = {}
    driver_bytes: dict[int, int] = {}
    with opened(home, jar_folder, _MAX_EVENTS, step) as bench:
        bench.fill(WARM_TOPIC, _WARM_EVENTS, step)
        bench.derived(WARM_TOPIC, home / "warm")
        for size in sizes:
            bench.fill(TOPIC, size, step)
            step(f"{size:,} events", 0, 0)
            folder = home / f"events-{size}"
            began = time.perf_counter()
            bench.derived(TOPIC, folder)
            seconds[size] = time.perf_counter() - began
            bench.check_ours(TOPIC, folder)
            shutil.rmtree(folder)
            step(f"{size:,} events, a driver by itself", 0, 0)
            driver_bytes[size] = bench.driver_bytes(home / f"driver-{size}")
            shutil.rmtree(home / f"driver-{size}")
    first = seconds[sizes[0]] / sizes[0]
    return [
        Line(
            events=size,
            seconds=round(seconds[size], 1),
            us_per_event=round(seconds[size] / size * 1e6, 2),
            ratio=round(seconds[size] / size / first, 2),
            driver_mb=round(driver_bytes[size] / 1e6),
        )
        for size in sizes
    ]
