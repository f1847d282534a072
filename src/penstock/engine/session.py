"""The Spark session that pipelines run in."""

import atexit
import logging
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.broker.java import find_java
from penstock.broker.log4j import log4j_properties
from penstock.engine import class_archive
from penstock.errors import WorkLost

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from penstock.pipeline.spec import PipelineSpec

_END_S = 120.0


def start(
    name: str,
    folder: Path,
    *,
    master: str = "local[*,4]",
    jars: Sequence[Path] = (),
    java_options: str | None = None,
    wishes: Mapping[str, str] | None = None,
) -> "SparkSession":
    """Start Spark, or take the one that this process has; what it has to say goes to a log in `folder`.

    `local[N,4]`: a task may fail three times before its job does; plain `local[N]` gives it one try. `wishes` are
    settings of the user's, which win over ours.
    """
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkRuntimeError
    from pyspark.sql import SparkSession

    java, _ = find_java()
    os.environ["JAVA_HOME"] = str(Path(java).resolve().parent.parent)
    # Workers must be this Python: they unpickle our classes.
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    folder.mkdir(parents=True, exist_ok=True)
    log_settings = folder / "log4j2.properties"
    log_settings.write_text(log4j_properties(folder / "spark.log", level="warn", files=3), encoding="utf-8")
    settings = {
        "spark.app.name": f"penstock-{name}",
        "spark.driver.memory": "1g",
        "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile={log_settings} -Dderby.system.home={folder}"
        f" {class_archive.options(java) if java_options is None else java_options}",
        "spark.python.daemon.module": "penstock.engine.daemon",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "4",
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.sql.execution.arrow.maxRecordsPerBatch": "10000",
        "spark.local.dir": str(folder / "spark-local"),
        "spark.redaction.regex": "(?i)secret|password|token|access[.]?key|jaas",
    }
    if jars:
        settings["spark.jars"] = ",".join(map(str, jars))
    if any("delta-spark" in jar.name for jar in jars):
        settings |= {
            "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
            "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
            "spark.databricks.delta.snapshotPartitions": "4",  # 50 by default: tasks for a table's log, at each look
        }
    if master.startswith("local") or "127.0.0.1" in master:
        # Executors elsewhere have to find the driver; those of this machine need no open port.
        settings |= {"spark.driver.bindAddress": "127.0.0.1", "spark.driver.host": "127.0.0.1"}
    builder = SparkSession.builder.master(master)
    for key, value in {**settings, **(wishes or {})}.items():
        builder = builder.config(key, value)
    # PySpark repeats on stderr what it raises, as JSON; what it raises is handled.
    logging.getLogger("SQLQueryContextLogger").disabled = True
    logging.getLogger().addFilter(_is_not_of_py4j)
    try:
        with _stderr_into(folder / "spark-console.log"):
            spark = builder.getOrCreate()
    except (Py4JError, PySparkRuntimeError) as error:
        reason = next(line for line in str(error).splitlines() if line.strip())
        raise WorkLost(
            f"Spark does not start at {master}: {reason[:300]}",
            safe="Nothing ran",
            fix=f"Read more in {folder / 'spark.log'}",
        ) from None
    atexit.register(_end, spark)
    return spark


def _is_not_of_py4j(record: logging.LogRecord) -> bool:
    """Leave out the tracebacks that Py4J writes to stderr, beside raising, when the JVM ends in the midst of a call."""
    return not (record.name == "root" and "py4j" in record.pathname)


def starter(spec: "PipelineSpec", folder: Path, master: str, jars: Sequence[Path] = ()) -> Callable[[], "SparkSession"]:
    """Give what starts Spark for a pipeline, once it is sure that there is something to do."""
    return lambda: start(spec.name, folder, master=master, jars=jars, wishes=spec.spark)


def _end(spark: "SparkSession") -> None:
    """Stop Spark, its workers and its JVM before this process ends: a command leaves nothing running behind it."""
    process = getattr(spark.sparkContext._gateway, "proc", None)  # noqa: SLF001 - nothing public ends the JVM
    # Whatever is wrong with a Spark that is being given up does not matter any more.
    with suppress(Exception):
        spark.stop()
    if process is not None and process.poll() is None:
        process.stdin.close()
        process.wait(_END_S)


@contextmanager
def _stderr_into(log: Path) -> Iterator[None]:
    """Let the JVM, which inherits it, have a log for its stderr; this process gets its own back."""
    sys.stderr.flush()
    own = os.dup(2)
    other = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        os.dup2(other, 2)
        yield
    finally:
        os.dup2(own, 2)
        os.close(own)
        os.close(other)
