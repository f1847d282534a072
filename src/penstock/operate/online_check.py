"""Checks what a start would find: topics, servers and existing tables. Nothing is created, read or written."""

import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.operate.known_pipelines import paths_of
from penstock.operate.status import driver_of
from penstock.operate.table_check import job_of, schema_for
from penstock.pipeline.spec import PipelineSpec
from penstock.schemas.registry import with_registry
from penstock.sinks.schema_change import SchemaChange
from penstock.sinks.sink import SinkContext, SinkModel
from penstock.sources.source import SourceContext
from penstock.wording import plural

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from penstock.config.settings import Settings


def look(spec: PipelineSpec, settings: "Settings", file: Path, on_spark: Callable[[], None]) -> list[str]:
    """Connect to everything that a start would; return what was found, or raise what the start would raise.

    Columns are compared with those of tables that are there. If they come from SQL that Spark has not analysed yet,
    Spark is started; `on_spark` is called before.
    """
    spec = with_registry(spec, settings.registry)
    if spec.is_stateful:
        return _look_at_results(spec, settings, file, on_spark)
    connection, found = settings.connection(), list[str]()
    for each in spec.source.open(SourceContext(connection)).available():
        partition = f"{each.source_partition.topic}/{each.source_partition.partition}"
        found.append(f"{partition} with {plural(each.end - each.first, 'offset')}")
    with tempfile.TemporaryDirectory(prefix="penstock-check-") as scratch:

        def start() -> "SparkSession":
            from penstock.driver import session

            on_spark()
            return session.start("check", Path(scratch), master="local[1]", overrides=spec.spark)

        job = job_of(spec, settings, file, Path(scratch), start)
        for model, name in zip(spec.sinks, spec.sink_names, strict=True):
            sink = model.open(SinkContext(name, spec.name, connection, Path(scratch), _no_spark))
            try:
                sink.reach()
                change = sink.require_fitting(partial(schema_for, job, spec, model))
                # In real time timestamps are those of sending.
                caution = None if spec.speed == "realtime" else sink.caution()
            finally:
                sink.close()
            found.append(_reached(model, name, change) + (f", but {caution}" if caution else ""))
    return found


def _reached(model: SinkModel, name: str, change: SchemaChange | None) -> str:
    target = model.target()
    what = f": {target.kind} {target.name}" if target else ""
    columns = "" if change is None else f", and {change or 'its columns fit'}"
    return f"sink '{name}' can be reached{what}{columns}"


def _look_at_results(spec: PipelineSpec, settings: "Settings", file: Path, on_spark: Callable[[], None]) -> list[str]:
    """Do the same for a stateful pipeline: its table, its state, and the tables that hold its results."""
    from penstock.driver import session
    from penstock.driver.stateful import StatefulRunner
    from penstock.jvm import jars

    paths = paths_of(settings, spec.name)
    is_running = driver_of(paths.folder) is not None
    delta = jars.ensure("delta", settings.jars)
    on_spark()
    with tempfile.TemporaryDirectory(prefix="penstock-check-") as scratch:
        start = partial(session.start, "check", Path(scratch), master="local[1]", jars=delta, overrides=spec.spark)
        runner = StatefulRunner(spec, paths, start, file.resolve().parent)
        batches, changes = runner.look(compare_state=not is_running)
    found = [f"{each.kind} {each.name} can be read" for each in spec.source.targets()]
    if is_running:
        found.append("a driver is running, and goes by the state and the positions: these are not compared")
    elif batches is None:
        found.append("no state yet: everything in the table will be computed")
    else:
        found.append(
            f"the state, of {plural(batches, 'batch', 'batches')}, fits the steps and the positions of the sinks"
        )
    reached = zip(spec.sinks, spec.sink_names, changes, strict=True)
    return [*found, *(_reached(model, name, change) for model, name, change in reached)]


def _no_spark() -> "SparkSession":
    raise AssertionError("reaching a sink needs no Spark")
