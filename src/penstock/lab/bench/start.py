"""What a cold start costs: a scheduled run as cron starts it, beside a plain PySpark script that lands the same events.

Every contender is a process of its own, from the first import to its end. Every run is checked afterwards.
"""

import json
import os
import shutil
import statistics
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from pydantic import BaseModel, Field

from penstock.interpreter import SAFE_PYTHON
from penstock.jvm import jars
from penstock.lab.bench import plain_pyspark
from penstock.lab.bench.pipeline import DERIVED, EXPECT, SCHEMA, Bench
from penstock.lab.bench.throwaway_kafka import Step, one_node

TOPIC = "bench-start"
_LONGEST_S = 300


class Line(BaseModel, frozen=True):
    """One contender."""

    contender: str = Field(description="Who.")
    seconds: float = Field(description="Median over the rounds, from the start of the process to its end.")
    fastest: float = Field(description="Fastest round.")
    slowest: float = Field(description="Slowest round.")
    ratio: float = Field(description="Median beside plain PySpark; below 1 is faster.")


@dataclass
class _Contender:
    name: str
    command: Callable[[Path], list[str]]
    check: Callable[[Path], None]
    goes_on: bool = False
    """Whether it runs where the contender before it ran, with nothing new to read."""
    seconds: list[float] = field(default_factory=list)


def run(home: Path, jar_folder: Path, *, events: int, rounds: int, step: Step) -> list[Line]:
    """Measure on a throwaway cluster of one node; one round warms the machine's caches."""
    with one_node(home, jar_folder, step) as cluster:
        bench = Bench(cluster.connection(), None, events)
        bench.fill(TOPIC, events, step)
        contenders = _contenders(bench, jar_folder)
        for number in range(rounds + 1):
            folder = home
            for place, each in enumerate(contenders):
                step(f"round {number} of {rounds}: {each.name}", number * len(contenders) + place, 0)
                folder = folder if each.goes_on else home / f"s{number}-{place}"
                seconds = _timed(each.command(folder), folder)
                each.check(folder)
                each.seconds += [seconds] if number else []
    plain = statistics.median(contenders[0].seconds)
    return [
        Line(
            contender=each.name,
            seconds=round(statistics.median(each.seconds), 2),
            fastest=round(min(each.seconds), 2),
            slowest=round(max(each.seconds), 2),
            ratio=round(statistics.median(each.seconds) / plain, 2),
        )
        for each in contenders
    ]


def _contenders(bench: Bench, jar_folder: Path) -> list[_Contender]:
    servers = bench.connection.bootstrap_servers
    needed = [*jars.ensure("spark-kafka", jar_folder), *jars.ensure("delta", jar_folder)]

    def plain(folder: Path) -> list[str]:
        folder.mkdir()
        script = [*SAFE_PYTHON, plain_pyspark.__file__]
        return [*script, servers, TOPIC, SCHEMA, str(folder), ",".join(map(str, needed))]

    def ours(folder: Path) -> list[str]:
        folder.mkdir(exist_ok=True)
        file = folder / "pipeline.json"
        file.write_text(json.dumps(bench.pipeline(TOPIC, folder, [{"sql": DERIVED}], EXPECT)))
        return [*SAFE_PYTHON, "-m", "penstock", *("--home", str(folder), "--bootstrap", servers), *_run(file)]

    return [
        _Contender("plain PySpark", plain, lambda folder: bench.check_table(TOPIC, folder)),
        _Contender("Penstock", ours, lambda folder: bench.check_ours(TOPIC, folder)),
        _Contender("Penstock, nothing to read", ours, lambda folder: bench.check_ours(TOPIC, folder), goes_on=True),
    ]


def _run(file: Path) -> tuple[str, ...]:
    return ("pipeline", "run", str(file))


def _timed(command: list[str], folder: Path) -> float:
    # The user's own settings may name another cluster.
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PENSTOCK_")}
    if cache := os.environ.get("PENSTOCK_CACHE"):
        kept["PENSTOCK_CACHE"] = cache
    began = time.perf_counter()
    done = subprocess.run(command, cwd=folder, capture_output=True, env=kept, timeout=_LONGEST_S, check=False)
    seconds = time.perf_counter() - began
    if done.returncode != 0:
        said = done.stderr.decode(errors="replace")[-500:]
        raise RuntimeError(f"{' '.join(command[2:4])} ended with {done.returncode}: {said}")
    shutil.rmtree(folder / "spark-warehouse", ignore_errors=True)
    return seconds
