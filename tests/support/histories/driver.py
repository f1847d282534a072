"""`penstock` as a process of its own, on the Spark that a test has running.

Only the start of Spark's JVM is left out, and the import of modules, which would take longer than the history: drivers
are forked from a process that has imported them and done nothing else. The rest is what a user runs.
"""

import multiprocessing
import os
import sys
import time
from collections.abc import Mapping, Sequence
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import Any

_FORKING = multiprocessing.get_context("forkserver")
_FORKING.set_forkserver_preload(
    ["penstock.cli", "penstock.driver.runner", "penstock.sinks.delta", "penstock.sinks.postgres", "pyspark.sql"]
)


def start(arguments: Sequence[str], folder: Path, log: Path, environment: Mapping[str, str]) -> ForkServerProcess:
    """Start a command in a session of its own; what it says goes to the end of a log."""
    log.touch(0o600)  # a driver that is killed at once has said nothing
    process = _FORKING.Process(target=_main, args=(list(arguments), str(folder), str(log), dict(environment)))
    process.start()
    return process


def _main(arguments: list[str], folder: str, log: str, environment: dict[str, str]) -> None:
    os.setsid()
    os.chdir(folder)
    said = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.dup2(said, 1)
    os.dup2(said, 2)
    os.environ.update(environment)
    sys.argv = ["penstock", *arguments]

    from penstock.cli import main
    from penstock.driver.session import Starter

    from support.histories import sabotage

    setattr(Starter, "__call__", _attach)  # noqa: B010 - mypy lets nobody assign a method
    setattr(Starter, "launch", lambda _: None)  # noqa: B010
    _set_clock(float(os.environ.get("HISTORY_CLOCK_S", "0")))
    sabotage.apply(os.environ.get("HISTORY_SABOTAGE", ""))
    main()


def _attach(*_: Any, **__: Any) -> Any:
    from pyspark import SparkConf, SparkContext
    from pyspark.java_gateway import launch_gateway
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    gateway: Any = launch_gateway()  # type: ignore[no-untyped-call]
    jvm = gateway.jvm
    running = jvm.org.apache.spark.SparkContext.getOrCreate()
    context = jvm.org.apache.spark.api.java.JavaSparkContext.fromSparkContext(running)
    conf = SparkConf(_jvm=jvm, _jconf=context.getConf())
    return SparkSession(SparkContext(gateway=gateway, jsc=context, conf=conf))


def _set_clock(shift_s: float) -> None:
    real = time.time
    time.time = lambda: real() + shift_s
