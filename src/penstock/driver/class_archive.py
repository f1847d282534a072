"""Spark's classes, parsed once: every start of a driver from then on takes a few seconds less."""

import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

from penstock.config.settings import cache_folder
from penstock.errors import EnvironmentNotReady
from penstock.interpreter import SAFE_PYTHON
from penstock.jvm.class_archive import being_made, making, path_of, using
from penstock.jvm.jars import pyspark_folder
from penstock.jvm.java import find_java

_TIMEOUT_S = 300


def archive(java: Path) -> Path:
    """Name the archive of a Java and this PySpark."""
    folder = pyspark_folder()
    # The JVM refuses an archive of jars that were written again since, as they are when an environment is recreated.
    installed_ns = (folder / "jars").stat().st_mtime_ns
    return path_of(cache_folder(), "spark", java, folder, version("pyspark"), installed_ns)


def options(java: Path) -> str:
    """Return the options by which a JVM uses the archive; none if there is none."""
    return " ".join(using(archive(java)))


def make() -> Path:
    """Rebuild the archive: start Spark, let it do a bit of everything, and keep what it loaded."""
    path = archive(find_java()[0])
    with being_made(path, pyspark_folder()) as made:
        command = [*SAFE_PYTHON, "-m", __name__, str(made)]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False)
        except subprocess.TimeoutExpired:
            raise _not_made(f"it took more than {_TIMEOUT_S} seconds") from None
        if done.returncode != 0:
            raise _not_made((done.stderr.strip() or "no reason given").splitlines()[-1])
    return path


def _not_made(why: str) -> EnvironmentNotReady:
    return EnvironmentNotReady(f"Spark's classes could not be archived: {why}", safe="Everything works without")


def _train(path: Path) -> None:
    import pyarrow as pa

    from penstock.driver import safe_sql, session, spark_job
    from penstock.record.columns import RESERVED
    from penstock.steps.select import Select

    spark = session.start("archive", path.parent, master="local[1]", java_options=" ".join(making(path)))
    events = spark.range(0, 10).selectExpr("id", "named_struct('name', cast(id AS string)) AS person", "id > 5 AS big")
    events.filter("big").mapInArrow(lambda batches: batches, events.schema).collect()
    spark.sparkContext.parallelize(range(2), 2).mapPartitions(list).collect()
    # What a preview does: rows from this process and back, through SQL that is not compiled.
    for name, value in session.NOT_COMPILED.items():
        spark.conf.set(name, value)
    columns = [("id", pa.int64()), ("name", pa.string()), ("amount", pa.float64()), ("at", pa.timestamp("us", "UTC"))]
    rows = pa.Table.from_pylist([{"id": 1, "name": "ada", "amount": 2.5}], pa.schema([*columns, *RESERVED]))
    query = Select("SELECT *, amount > 100 AS large, upper(name) AS shown, date(at) AS day FROM events WHERE id < 10")
    frame = safe_sql.select(spark, spark.createDataFrame(rows), query)
    spark_job.collected(safe_sql.judge(spark, frame, "expect", {"_rule_0": "amount IS NOT NULL"}, only_if=[]))


if __name__ == "__main__":
    _train(Path(sys.argv[1]))
