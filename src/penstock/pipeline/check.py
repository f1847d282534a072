"""Checking a pipeline as a whole, without starting anything: contradictions, and what looks like a mistake."""

import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa

from penstock.config.problem import Problem
from penstock.errors import BadInput
from penstock.pipeline.spec import SINKS, PipelineSpec
from penstock.private import distrust
from penstock.record.columns import RESERVED
from penstock.record.target import Target
from penstock.sinks.sink import SinkModel
from penstock.steps.select import unknown_columns
from penstock.steps.user_code import load_function
from penstock.wording import no_column


def problems(spec: PipelineSpec, folder: Path, *, import_code: bool = False) -> list[Problem]:
    """Find everything that can be found without Spark; errors keep a pipeline from starting, warnings do not.

    With `import_code`, the user's modules are imported, so that a function which is not there is found.
    """
    found = [*_from_components(spec), *_about_loops(spec)]
    if spec.speed == "realtime":
        return [*found, *_about_realtime(spec), *_about_rows(spec)]
    found += [*_about_changes(spec), *_about_sinks(spec), *_about_functions(spec, folder, import_code=import_code)]
    return [*found, *(_about_stateful(spec) if spec.is_stateful else _about_rows(spec))]


def _from_components(spec: PipelineSpec) -> Iterator[Problem]:
    """Return the components' own problems; each step is asked with the columns that it gets."""
    yield from (each.under("source") for each in spec.source.problems(spec))
    yield from (each.under("decode") for each in (spec.decode.problems(spec) if spec.decode else ()))
    for number, sink in enumerate(spec.sinks):
        yield from (each.under("sinks", number) for each in sink.problems(spec))
    for number, (step, names) in enumerate(zip(spec.steps, _columns(spec), strict=False)):
        yield from (each.under("steps", number) for each in step.problems(spec, names))


def _columns(spec: PipelineSpec) -> list[list[str] | None]:
    """Return the user's columns before each step, and after the last; None where they are not known."""
    known = None if spec.decode is None else spec.decode.arrow_schema
    names = None if known is None else list(known.names)
    found = [names]
    for step in spec.steps:
        found.append(step.columns(found[-1]))
    return found


def _about_loops(spec: PipelineSpec) -> Iterator[Problem]:
    source = spec.source
    for number, sink in enumerate(spec.sinks):
        target = sink.target()
        if target is not None and source.reads(target):
            text = f"the sink writes to the source's {target.kind}: it would never end"
            yield Problem.error(text, "sinks", number, sink.target_key or "type")
    dead = spec.dead_letters.topic
    named = [dead.replace("{topic}", topic) for topic in source.named_topics] or [dead]
    if any(source.reads(Target("topic", topic)) for topic in named):
        text = "dead letters would go to a topic of the source: it would never end"
        yield Problem.error(text, "dead_letters", "topic")
    elif any(sink.target() == Target("topic", topic) for sink in spec.sinks for topic in named):
        text = "a sink writes to this topic: its readers would get dead letters, too"
        yield Problem.error(text, "dead_letters", "topic")
    elif source.in_kafka and not source.named_topics and "{topic}" in dead and not dead.endswith(".dead"):
        text = "the source's pattern may match it: end it in .dead, which is left out"
        yield Problem.error(text, "dead_letters", "topic")


def _about_sinks(spec: PipelineSpec) -> Iterator[Problem]:
    seen: set[Target] = set()
    for number, sink in enumerate(spec.sinks):
        target = sink.target()
        if target is not None and not target.is_shared:
            if target in seen:
                yield Problem.error(
                    f"another sink writes to this {target.kind}", "sinks", number, sink.target_key or "type"
                )
            seen.add(target)
        if sink.guarantee == "at least once":
            yield Problem.warning(f"`{sink.type}` is at least once: a crash can double rows", "sinks", number, "type")


def _about_changes(spec: PipelineSpec) -> Iterator[Problem]:
    """Return what would make a mirrored table differ from its source."""
    places = [number for number, step in enumerate(spec.steps) if step.makes_changes]
    for number in places:
        if number < len(spec.steps) - 1:
            text = "`cdc: state` is the last step: a step after it would change rows, but not the deletes among them"
            yield Problem.error(text, "steps", number, "cdc")
    if not places:
        return
    for number, _ in enumerate(spec.expect):
        text = "with `cdc: state` no change can be left out: expect something of the table instead"
        yield Problem.error(text, "expect", number)
    for number, sink in enumerate(spec.sinks):
        if not sink.takes_changes:
            text = (
                "changes are applied by key: `delta` or `iceberg` with a `key`, `postgres` with `mode: upsert` and one"
            )
            yield Problem.error(f"{text}; any sink takes `cdc: history`", "sinks", number)
        if sink.where:
            yield Problem.error("with `cdc: state` no change can be left out", "sinks", number, "where")


def _about_functions(spec: PipelineSpec, folder: Path, *, import_code: bool) -> Iterator[Problem]:
    """Check that the modules exist and, if they are imported, that the functions do."""
    for number, step in enumerate(spec.steps):
        if step.user_code is not None:
            top = step.user_code.partition(":")[0].partition(".")[0]
            beside = (folder / f"{top}.py").exists() or (folder / top).is_dir()
            if not beside and top not in sys.modules and importlib.util.find_spec(top) is None:
                text = f"there is no module '{top}', neither beside the file nor installed"
                yield Problem.error(text, "steps", number, step.keyword)
            elif import_code and beside and (why := distrust(folder)) is not None:
                text = f"'{top}' is not imported: {folder} {why}"
                yield Problem.warning(text, "steps", number, step.keyword)
            elif import_code:
                try:
                    load_function(step.user_code, folder)
                except BadInput as error:
                    yield Problem.error(error.what, "steps", number, step.keyword)


def _about_realtime(spec: PipelineSpec) -> Iterator[Problem]:
    """Return what expressions in the JVM cannot do."""
    slower = "use `speed: stream`, which takes a second"
    if not spec.source.named_topics:
        yield Problem.error("in real time events come from named Kafka topics", "source")
    if len(spec.sinks) != 1 or spec.sinks[0].realtime() is None:
        yield Problem.error(f"in real time there is one sink, and it is `kafka`: for others {slower}", "sinks")
    if spec.decode is not None and spec.decode.in_spark is None:
        yield Problem.error(f"in real time Spark decodes, and cannot decode `{spec.decode.type}`: {slower}", "decode")
    for number, step in enumerate(spec.steps):
        if not step.is_sql:
            yield Problem.error(
                f"in real time there is SQL only, Python would hold records back: {slower}", "steps", number
            )
    for number, rule in enumerate(spec.expect):
        if rule.otherwise in {"fail", "warn"}:
            yield Problem.error(
                "in real time a rule drops a record or makes it a dead letter", "expect", number, "otherwise"
            )
    if spec.rate is not None:
        yield Problem.error(f"in real time a rate limit is not possible: {slower}", "rate")
    yield Problem.warning("`realtime` is at least once: a crash repeats what came since the last commit", "speed")


def _about_stateful(spec: PipelineSpec) -> Iterator[Problem]:
    for number, step in enumerate(spec.steps):
        if not step.takes_tables:
            yield Problem.error("a `delta` source has no row-local Python: use `sql` or `stateful`", "steps", number)
    if spec.rate is not None:
        yield Problem.error("a rate belongs to the pipeline that lands the events", "rate")
    if spec.expect:
        yield Problem.error("expectations belong to the pipeline that lands the events", "expect")
    for number, sink in enumerate(spec.sinks):
        if not sink.can_merge:
            *some, last = (name for name, model in SINKS.built_in.items() if model.can_merge)
            text = f"`{sink.type}` cannot take results that change: use {', '.join(some)} or {last}"
            yield Problem.error(text, "sinks", number)


def _about_rows(spec: PipelineSpec) -> Iterator[Problem]:
    for number, step in enumerate(spec.steps):
        if not step.is_row_local:
            text = "state belongs to a second pipeline, whose source is the landed table"
            yield Problem.error(text, "steps", number)
    columns = _columns(spec)[-1]
    for number, rule in enumerate(spec.expect):
        yield from (each.under("expect", number, "that") for each in unknown_columns([rule.that], columns))
    for number, sink in enumerate(spec.sinks):
        if sink.where:
            yield from (each.under("sinks", number, "where") for each in unknown_columns([sink.where], columns))
        yield from (each.under("sinks", number) for each in _about_columns(spec, sink, columns))


def _about_columns(spec: PipelineSpec, sink: SinkModel, columns: list[str] | None) -> Iterator[Problem]:
    """Return the columns named by a sink that do not exist, or that it cannot compare."""
    if columns is not None:
        named = [(key, name) for key, names in sink.named_columns.items() for name in names]
        problem = Problem.warning if spec.steps else Problem.error  # what a step returns is Spark's to tell
        for key, name in named:
            if name not in [*columns, *RESERVED.names]:
                yield problem(no_column(name, columns), key)
    # Behind a step the types are Spark's to tell, at the start.
    known = spec.decode.arrow_schema if spec.decode is not None and not spec.steps else None
    types = known or pa.schema([])
    for name in sink.compared_columns:
        if name in types.names and pa.types.is_nested(types.field(name).type):
            text = f"rows cannot be told apart by '{name}', which is {types.field(name).type}: name other columns"
            yield Problem.error(text, "key")
