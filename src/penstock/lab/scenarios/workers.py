"""Several workers that share the partitions: executors of one query on a Spark cluster, each a process of its own."""

from collections import Counter
from pathlib import Path

import orjson

from penstock.lab.scenarios import spark_cluster
from penstock.lab.scenarios.arena import COMBAT
from penstock.lab.scenarios.driver_process import driver
from penstock.lab.scenarios.play import play_fast
from penstock.lab.scenarios.scenario import Run
from penstock.lab.simulator import events
from penstock.lab.simulator.simulation import SimulationResult

_WORKERS = 2
_BATCHES = 6


def workers(run: Run) -> SimulationResult:
    """Land everything on the cluster, and tell from Spark's event log which executor took which part."""
    arena = run.arena
    count = arena.workers or _WORKERS
    played = play_fast(arena, run.games)
    log = arena.folder / "spark-events"
    log.mkdir()
    settings = {
        "spark.executor.memory": "512m",
        # A batch may be over before the second executor is there: wait for both.
        "spark.scheduler.minRegisteredResourcesRatio": "1.0",
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": log.as_uri(),
        "spark.eventLog.compress": "false",
    }
    arena.step("starting a Spark cluster", 0, 0)
    with spark_cluster.running(arena.folder / "spark-cluster", count) as cluster:
        size = {"max_events": max(1, played.records // _BATCHES)}
        file = arena.worker(COMBAT, spark={**settings, **cluster.settings}, batch=size)
        arena.step("landing on the cluster", 0, 0)
        with driver(arena.folder, file, "--master", cluster.master) as worker:
            worker.finish()
    found = shares(log)
    for executor, parts in sorted(found.items()):
        listed = ", ".join(f"partition {part} {count} times" for part, count in sorted(parts.items()))
        run.fact(f"executor {executor} took", listed)
    run.expect(f"all of {count} executors took part", found=f"{len(found)} did", holds=len(found) == count)
    return played


def shares(log: Path) -> dict[str, dict[int, int]]:
    """Count in Spark's event log, by executor and partition, the tasks that came to their end.

    A batch's job has one task for each partition, in their order; jobs with fewer tasks are left out.
    """
    ended = []
    for path in log.rglob("*"):
        if path.is_file():
            lines = path.read_bytes().splitlines()
            ended += [orjson.loads(line) for line in lines if b'"SparkListenerTaskEnd"' in line]
    sizes = Counter(each["Stage ID"] for each in ended)
    found: dict[str, dict[int, int]] = {}
    for each in ended:
        if sizes[each["Stage ID"]] == events.PARTITIONS and each["Task End Reason"]["Reason"] == "Success":
            task = each["Task Info"]
            parts = found.setdefault(task["Executor ID"], {})
            parts[task["Index"]] = parts.get(task["Index"], 0) + 1
    return found
