"""Checking a pipeline as a whole, without starting anything: what contradicts, and what looks like a mistake."""

import importlib.util
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from penstock.document import KeyPath
from penstock.pipeline.columns import RESERVED
from penstock.pipeline.schema import parse
from penstock.pipeline.spec import PipelineSpec
from penstock.sinks.console import Console
from penstock.sinks.delta import Delta
from penstock.sinks.json import Json
from penstock.sinks.kafka import Kafka as KafkaSink
from penstock.sinks.postgres import Postgres
from penstock.sinks.spark_format import SparkFormat
from penstock.sources.kafka import Kafka
from penstock.steps.python import Python
from penstock.steps.sql import Select, Sql, mentioned_columns
from penstock.steps.stateful import Stateful


@dataclass(frozen=True)
class Problem:
    """Something about a pipeline, with the key it is about."""

    level: Literal["error", "warning"]
    keys: KeyPath
    text: str


def problems(spec: PipelineSpec, folder: Path) -> list[Problem]:
    """Find everything that can be found without Spark; errors keep a pipeline from starting, warnings do not."""
    found = [*_about_source(spec), *_about_sinks(spec), *_about_functions(spec, folder)]
    return [*found, *(_about_stateful(spec) if spec.is_stateful else _about_rows(spec))]


def _error(text: str, *keys: str | int) -> Problem:
    return Problem("error", keys, text)


def _about_source(spec: PipelineSpec) -> Iterator[Problem]:
    source = spec.source
    if isinstance(source, Kafka) and source.offsets and source.start != "earliest":
        yield _error("`offsets` and `start` contradict each other: leave one out", "source", "offsets")
    if isinstance(source, Kafka):
        for number, sink in enumerate(spec.sinks):
            if isinstance(sink, KafkaSink) and sink.topic in source.topics:
                yield _error("the sink writes to the source's topic: it would never end", "sinks", number, "topic")


def _about_sinks(spec: PipelineSpec) -> Iterator[Problem]:
    seen: dict[str, int] = {}
    for number, sink in enumerate(spec.sinks):
        if isinstance(sink, Delta | Json | SparkFormat):
            place = str(sink.path.resolve())
            if place in seen:
                yield _error("another sink writes to this folder", "sinks", number, "path")
            seen[place] = number
        if isinstance(sink, Console | SparkFormat):
            yield Problem(
                "warning", ("sinks", number, "type"), f"`{sink.type}` is at least once: a crash can double rows"
            )


def _about_functions(spec: PipelineSpec, folder: Path) -> Iterator[Problem]:
    """Look whether the modules are there; nothing of the user's is run."""
    for number, step in enumerate(spec.steps):
        if isinstance(step, Python | Stateful):
            key, reference = ("python", step.python) if isinstance(step, Python) else ("stateful", step.stateful)
            top = reference.partition(":")[0].partition(".")[0]
            beside = (folder / f"{top}.py").exists() or (folder / top).is_dir()
            if not beside and top not in sys.modules and importlib.util.find_spec(top) is None:
                yield _error(f"there is no module '{top}', neither beside the file nor installed", "steps", number, key)


def _about_stateful(spec: PipelineSpec) -> Iterator[Problem]:
    for number, step in enumerate(spec.steps):
        if isinstance(step, Python):
            yield _error("a `delta` source has no row-local Python: use `sql` or `stateful`", "steps", number)
    if spec.expect:
        yield _error("expectations belong to the pipeline that lands the events", "expect")
    for number, sink in enumerate(spec.sinks):
        if isinstance(sink, Json | KafkaSink | SparkFormat):
            yield _error(
                f"`{sink.type}` cannot take results that change: use delta, postgres or console", "sinks", number
            )
        elif isinstance(sink, Delta) and not sink.key:
            yield _error("results that change need a `key` to be merged by", "sinks", number)
        elif isinstance(sink, Postgres) and sink.mode != "upsert":
            yield _error("results that change need `mode: upsert` and a `key`", "sinks", number)


def _about_rows(spec: PipelineSpec) -> Iterator[Problem]:
    columns = None if spec.decode is None else list(spec.decode.arrow_schema.names)
    for number, step in enumerate(spec.steps):
        if isinstance(step, Stateful):
            yield _error("state belongs to a second pipeline, whose source is the landed table", "steps", number)
        elif isinstance(step, Python):
            columns = list(parse(step.returns).names) if step.returns else columns
        elif isinstance(step, Sql):
            try:
                select = Select(step.sql)
            except ValueError as error:
                yield _error(str(error), "steps", number, "sql")
                columns = None
                continue
            texts = [*select.expressions, *([select.where] if select.where else [])]
            yield from _unknown(texts, columns, ("steps", number, "sql"), also=select.names)
            columns = select.columns(columns) if columns is not None else None
    for number, rule in enumerate(spec.expect):
        yield from _unknown([rule.that], columns, ("expect", number, "that"))
    for number, sink in enumerate(spec.sinks):
        if isinstance(sink, Delta) and sink.key:
            yield _error("`key` is for stateful pipelines: landed events are appended", "sinks", number, "key")
        if sink.where:
            yield from _unknown([sink.where], columns, ("sinks", number, "where"))


def _unknown(
    texts: list[str], columns: list[str] | None, keys: KeyPath, also: list[str | None] | None = None
) -> Iterator[Problem]:
    """Warn of names that no column has; names given in the same SELECT may be used in it."""
    if columns is None:
        return
    known = {name.lower() for name in [*columns, *RESERVED.names, *(also or []), "events"] if name}
    for name in sorted({name for text in texts for name in mentioned_columns(text)}):
        if name and name.lower() not in known:
            yield Problem("warning", keys, f"there is no column '{name}'; there are {', '.join(columns)}")
