"""`penstock` as a process of its own, on the Spark that a test has running: `python -m support.histories.driver ...`.

Only the start of Spark's JVM is left out, which would take longer than the history. The rest is what a user runs.
"""

import os
import sys
import time
from typing import Any

from penstock.cli import main
from penstock.engine import session

from support.histories import sabotage


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


if __name__ == "__main__":
    session.start = _attach
    _set_clock(float(os.environ.get("HISTORY_CLOCK_S", "0")))
    sabotage.apply(os.environ.get("HISTORY_SABOTAGE", ""))
    main()
