"""Compares a pipeline's columns with those of its tables, where that needs no server and no Spark.

Columns that come from SQL have the types that Spark reported to the last run, which are kept; SQL that is new has none
yet.
"""

import tempfile
from collections.abc import Callable, Iterator
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Never

import pyarrow as pa

from penstock.driver import met_columns
from penstock.operate.known_pipelines import paths_of
from penstock.pipeline.spec import PipelineSpec
from penstock.sinks.sink import SinkModel

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from penstock.config.settings import Settings
    from penstock.driver.spark_job import SparkJob


def changes(spec: PipelineSpec, settings: "Settings", file: Path) -> Iterator[str]:
    """Return what the first rows will change in tables on this disk; raise what a start would about their columns."""
    if spec.is_stateful:
        return
    with tempfile.TemporaryDirectory(prefix="penstock-check-") as scratch:
        is_known = spec.decode is not None and spec.decode.arrow_schema is not None
        job = job_of(spec, settings, file, Path(scratch), _not_now) if is_known else _not_now
        for model, name in zip(spec.sinks, spec.sink_names, strict=True):
            sink, target = model.open_here(name, spec.name), model.target()
            if sink is None or target is None:
                continue
            what = f"sink '{name}': {target.kind} {target.name}"
            try:
                sink.reach()
                change = sink.require_fitting(partial(schema_for, job, spec, model))
            except _NotKnownError:
                yield f"{what}, whose columns are compared by: penstock pipeline check {file} --online"
            else:
                if change:
                    yield f"{what}, and {change}"
            finally:
                sink.close()


def job_of(
    spec: PipelineSpec, settings: "Settings", file: Path, scratch: Path, start: "Callable[[], SparkSession]"
) -> "Callable[[], SparkJob]":
    """Return a function that works out the columns on its first call, using the answers kept by the last run."""

    @cache
    def job() -> "SparkJob":
        from penstock.driver.spark_job import SparkJob

        folder = paths_of(settings, spec.name).folder
        kept, whole = folder / "analysis.json", spec.resolved().with_columns(met_columns.load(folder))
        return SparkJob(whole, start, file.resolve().parent, scratch, kept if kept.exists() else None)

    return job


def schema_for(job: "Callable[[], SparkJob]", spec: PipelineSpec, model: SinkModel) -> pa.Schema:
    """Return the columns that go into a sink."""
    return pa.schema([job().schema.field(name) for name in (*job().columns, *spec.reserved_columns(model))])


class _NotKnownError(Exception):
    """The columns are not known without Spark, or without a schema registry."""


def _not_now() -> Never:
    raise _NotKnownError
