"""Checking a pipeline as a whole, without starting anything: what contradicts, and what looks like a mistake."""

import importlib.util
import re
import sys
from collections.abc import Callable, Generator, Iterator
from pathlib import Path

from penstock.config.document import KeyPath
from penstock.config.problem import Problem
from penstock.decoders.json import Json as JsonDecode
from penstock.kafka.topic_spec import NO_TOPIC_NAME, TOPIC_NAME
from penstock.pipeline.spec import SINKS, PipelineSpec
from penstock.record.columns import RESERVED
from penstock.record.schema import parse
from penstock.record.target import Target
from penstock.sources.delta import DeltaTable
from penstock.sources.files import Files
from penstock.sources.kafka import Kafka
from penstock.steps.handlers import Handlers
from penstock.steps.message import DEFAULT
from penstock.steps.python import Python
from penstock.steps.sql import Select, Sql, mentioned_columns
from penstock.steps.stateful import Stateful


def problems(spec: PipelineSpec, folder: Path) -> list[Problem]:
    """Find everything that can be found without Spark; errors keep a pipeline from starting, warnings do not."""
    if spec.speed == "realtime":
        return [*_about_source(spec), *_told_by_sinks(spec), *_about_realtime(spec), *_about_rows(spec)]
    found = [*_about_source(spec), *_told_by_sinks(spec), *_about_sinks(spec), *_about_functions(spec, folder)]
    return [*found, *(_about_stateful(spec) if spec.is_stateful else _about_rows(spec))]


def _about_source(spec: PipelineSpec) -> Iterator[Problem]:
    source = spec.source
    if isinstance(source, Files | DeltaTable):
        read = str(source.path.resolve())
        yield from _loops(spec, lambda target: target.kind == "folder" and target.name == read)
        return
    for number, topic in enumerate(source.topics):
        if TOPIC_NAME.fullmatch(topic) is None:
            yield Problem.error(NO_TOPIC_NAME, "source", "topics", number)
    if source.offsets and source.start != "earliest":
        yield Problem.error("`offsets` and `start` contradict each other: leave one out", "source", "offsets")
    for topic, offsets in source.offsets.items():
        if not _is_read(source, topic):
            yield Problem.error("the source does not read this topic", "source", "offsets", topic)
        if min([0, *offsets.keys(), *offsets.values()]) < 0:
            yield Problem.error("partitions and offsets begin at 0", "source", "offsets", topic)
    yield from _about_loops(spec, source)


def _is_read(source: Kafka, topic: str) -> bool:
    """Return whether the source reads a topic. A pattern leaves out dead letters."""
    if source.pattern is None:
        return topic in source.topics
    return re.fullmatch(source.pattern, topic) is not None and not topic.endswith(".dead")


def _loops(spec: PipelineSpec, is_read: Callable[[Target], bool]) -> Iterator[Problem]:
    for number, sink in enumerate(spec.sinks):
        target = sink.target()
        if target is not None and is_read(target):
            text = f"the sink writes to the source's {target.kind}: it would never end"
            yield Problem.error(text, "sinks", number, sink.target_key or "type")


def _about_loops(spec: PipelineSpec, source: Kafka) -> Iterator[Problem]:
    yield from _loops(spec, lambda target: target.kind == "topic" and _is_read(source, target.name))
    dead = spec.dead_letters.topic
    named = [dead.replace("{topic}", topic) for topic in source.topics] or [dead]
    if any(_is_read(source, topic) for topic in named):
        yield Problem.error(
            "dead letters would go to a topic of the source: it would never end", "dead_letters", "topic"
        )
    elif source.pattern and "{topic}" in dead and not dead.endswith(".dead"):
        yield Problem.error(
            "the source's pattern may match it: end it in .dead, which is left out", "dead_letters", "topic"
        )


def _told_by_sinks(spec: PipelineSpec) -> Iterator[Problem]:
    for number, sink in enumerate(spec.sinks):
        yield from (each.under("sinks", number) for each in sink.problems(spec))


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


def _about_functions(spec: PipelineSpec, folder: Path) -> Iterator[Problem]:
    """Look whether the modules are there; nothing of the user's is run."""
    for number, step in enumerate(spec.steps):
        key = type(step).__name__.lower()
        if isinstance(step, Python | Handlers | Stateful):
            reference = getattr(step, key)
            top = reference.partition(":")[0].partition(".")[0]
            beside = (folder / f"{top}.py").exists() or (folder / top).is_dir()
            if not beside and top not in sys.modules and importlib.util.find_spec(top) is None:
                yield Problem.error(
                    f"there is no module '{top}', neither beside the file nor installed", "steps", number, key
                )


def _about_realtime(spec: PipelineSpec) -> Iterator[Problem]:
    """Return what expressions in the JVM cannot do."""
    slower = "use `speed: stream`, which takes a second"
    if not isinstance(spec.source, Kafka) or spec.source.pattern:
        yield Problem.error("in real time events come from named Kafka topics", "source")
    if len(spec.sinks) != 1 or spec.sinks[0].realtime() is None:
        yield Problem.error(f"in real time there is one sink, and it is `kafka`: for others {slower}", "sinks")
    for number, step in enumerate(spec.steps):
        if not isinstance(step, Sql):
            yield Problem.error(
                f"in real time there is SQL only, Python would hold records back: {slower}", "steps", number
            )
    for number, rule in enumerate(spec.expect):
        if rule.otherwise in {"fail", "warn"}:
            yield Problem.error(
                "in real time a rule drops a record or makes it a dead letter", "expect", number, "otherwise"
            )
    if spec.rate is not None:
        yield Problem.error(f"in real time there is no limit of rate: {slower}", "rate")
    if isinstance(spec.decode, JsonDecode):
        if spec.decode.unknown_fields != "ignore":
            yield Problem.error("in real time unknown fields are ignored", "decode", "unknown_fields")
        text = "in real time Spark's from_json reads it, which ignores text behind the closing brace"
        yield Problem.warning(text, "decode", "type")
    yield Problem.warning("`realtime` is at least once: a crash repeats what came since the last commit", "speed")


def _about_stateful(spec: PipelineSpec) -> Iterator[Problem]:
    for number, step in enumerate(spec.steps):
        if isinstance(step, Python | Handlers):
            yield Problem.error("a `delta` source has no row-local Python: use `sql` or `stateful`", "steps", number)
        if isinstance(step, Stateful) and step.timers == "processing_time" and spec.speed == "scheduled":
            yield Problem.error(
                "timers that follow the clock never come to an end: use `speed: stream`", "steps", number, "timers"
            )
    if spec.rate is not None:
        yield Problem.error("a rate belongs to the pipeline that lands the events", "rate")
    if spec.expect:
        yield Problem.error("expectations belong to the pipeline that lands the events", "expect")
    for number, sink in enumerate(spec.sinks):
        if not sink.can_merge:
            *some, last = (name for name, model in SINKS.built_in.items() if getattr(model, "can_merge", False))
            text = f"`{sink.type}` cannot take results that change: use {', '.join(some)} or {last}"
            yield Problem.error(text, "sinks", number)


def _about_rows(spec: PipelineSpec) -> Iterator[Problem]:
    columns = None if spec.decode is None else list(spec.decode.arrow_schema.names)
    for number, step in enumerate(spec.steps):
        if isinstance(step, Stateful):
            yield Problem.error("state belongs to a second pipeline, whose source is the landed table", "steps", number)
        elif isinstance(step, Python):
            columns = list(parse(step.returns).names) if step.returns else columns
        elif isinstance(step, Handlers):
            yield from _about_handlers(step, number, columns or [])
            columns = step.columns(columns) if columns is not None else None
        elif isinstance(step, Sql):
            columns = yield from _about_sql(step, number, columns)
    for number, rule in enumerate(spec.expect):
        yield from _unknown([rule.that], columns, ("expect", number, "that"))
    for number, sink in enumerate(spec.sinks):
        if sink.where:
            yield from _unknown([sink.where], columns, ("sinks", number, "where"))


def _about_handlers(step: Handlers, number: int, columns: list[str]) -> Iterator[Problem]:
    if step.batchers and DEFAULT not in step.batchers:
        text = "no batcher is called `default`: a message without `put_batcher` is a dead letter"
        yield Problem.warning(text, "steps", number, "batchers")
    taken = [name.lower() for name in step.columns(columns)[:-1]]
    if step.batcher_column is not None and step.batcher_column.lower() in taken:
        yield Problem.error("there is a column of this name already", "steps", number, "batcher_column")


def _about_sql(step: Sql, number: int, columns: list[str] | None) -> Generator[Problem, None, list[str] | None]:
    """Look through one SELECT; give the columns that come out of it, None if that cannot be told."""
    try:
        select = Select(step.sql)
    except ValueError as error:
        yield Problem.error(str(error), "steps", number, "sql")
        return None
    texts = [*select.expressions, *([select.where] if select.where else [])]
    # A column that is only passed on makes nothing: if it is not there, it is a typo.
    made = frozenset(name.lower() for name, text in select.made if {name} != mentioned_columns(text))
    yield from _unknown(texts, columns, ("steps", number, "sql"), made)
    columns = select.columns(columns) if columns is not None else None
    yield from _doubled(columns or [], ("steps", number, "sql"))
    return columns


def _unknown(
    texts: list[str], columns: list[str] | None, keys: KeyPath, made: frozenset[str] = frozenset()
) -> Iterator[Problem]:
    """Tell of names that no column has. A name that the same SELECT makes is there in the next step only."""
    if columns is None:
        return
    known = {name.lower() for name in [*columns, *RESERVED.names, "events"]}
    for name in sorted({name for text in texts for name in mentioned_columns(text)}):
        if name.lower() in made - known:
            yield Problem.error(f"'{name}' is made by this SELECT and not there yet: use it in a second step", *keys)
        elif name.lower() not in known:
            yield Problem.warning(f"there is no column '{name}'; there are {', '.join(columns)}", *keys)


def _doubled(columns: list[str], keys: KeyPath) -> Iterator[Problem]:
    folded = [name.lower() for name in columns]
    for number, name in enumerate(folded):
        if name in folded[:number]:
            yield Problem.error(
                f"the column '{name}' comes out twice: leave the old one out with * EXCEPT ({name})", *keys
            )
