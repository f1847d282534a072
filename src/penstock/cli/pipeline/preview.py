"""penstock pipeline preview: real records through a pipeline, with nothing written anywhere."""

from typing import TYPE_CHECKING, Annotated

import typer
from pydantic import ValidationError

from penstock.cli.output import Json, plural, print_json, print_table, say
from penstock.cli.pipeline.common import File, load_and_warn
from penstock.cli.session import session
from penstock.config.complaints import in_words
from penstock.errors import BadInput

if TYPE_CHECKING:
    from penstock.pipeline.spec import PipelineSpec
    from penstock.record.positions import OffsetRange
    from penstock.sources.source import Source
    from penstock.testing.dry_run import Outcome


def preview(
    context: typer.Context,
    file: File,
    events: Annotated[int, typer.Option(min=1, max=10_000, help="How many records, over all partitions.")] = 20,
    since: Annotated[
        str,
        typer.Option("--from", help="Where to begin: earliest, a time, 15m ago, an offset; near the end if left out."),
    ] = "",
    as_json: Json = False,
) -> None:
    """Show what a pipeline would make of real records: rows by sink, what fails and why. Nothing is written."""
    from penstock.sources.source import SourceContext
    from penstock.testing.dry_run import dry_run, needs_spark

    spec = load_and_warn(file)
    source = _from(spec, since).source.open(SourceContext(session(context).connection()))
    ranges = _ranges(source, events, from_start=bool(since))
    if not ranges:
        say("there is nothing to read. Send something with: penstock produce TOPIC")
        return
    if needs_spark(spec):
        say("starting Spark, for the SQL")
    outcome = dry_run(spec, file.resolve().parent, source.reader(), ranges)
    _print(spec, outcome, as_json=as_json)


def _from(spec: "PipelineSpec", since: str) -> "PipelineSpec":
    if not since:
        return spec
    if not spec.source.in_kafka:
        raise BadInput("--from goes with topics: of another source, the last records are shown")
    source = {**spec.source.model_dump(exclude={"offsets"}), "start": since}
    try:
        return spec.model_copy(update={"source": type(spec.source).model_validate(source)})
    except ValidationError as error:
        raise BadInput(f"--from: {in_words(error.errors(include_input=False)[0])}") from None


def _ranges(source: "Source", events: int, *, from_start: bool) -> list["OffsetRange"]:
    """Choose as many records of each partition; all of a partition that has fewer."""
    from penstock.record.positions import OffsetRange

    available = source.available()
    starts = source.starts(available) if from_start else {each.source_partition: each.first for each in available}
    left, ranges = events, list[OffsetRange]()
    waiting = sorted(available, key=lambda each: each.end - starts[each.source_partition])
    for number, each in enumerate(waiting):
        start = max(starts[each.source_partition], each.first)
        count = min(each.end - start, -(-left // (len(waiting) - number)))
        if count > 0:
            first = start if from_start else each.end - count
            ranges.append(OffsetRange(each.source_partition, first, first + count))
            left -= count
    return ranges


def _print(spec: "PipelineSpec", outcome: "Outcome", *, as_json: bool) -> None:
    if as_json:
        print_json(_as_json(outcome))
        return
    for model, name in zip(spec.sinks, spec.sink_names, strict=True):
        rows, target = outcome.sinks[name], model.target()
        dropped = f"; {outcome.dropped[name]:,} would be left out" if outcome.dropped[name] else ""
        where = f" in {target.kind} {target.name}" if target else ""
        say(f"sink '{name}' would get {plural(len(rows), 'row')}{where}{dropped}")
        if rows:
            places = [[f"{each.topic}/{each.partition}", offset] for each, offset in outcome.origins[name]]
            table = [[*place, *row.values()] for place, row in zip(places, rows, strict=True)]
            print_table(["partition", "offset", *rows[0]], table, own_data=True)
    say(f"{plural(outcome.read, 'record')} read, {plural(len(outcome.dead), 'dead letter')}; nothing was written")
    if outcome.dead:
        columns = ["partition", "offset", "stage", "error", "message", "value"]
        listed = [[getattr(each, name) for name in columns[:-1]] + [_text(each.value)] for each in outcome.dead]
        print_table(columns, listed, own_data=True)


def _as_json(outcome: "Outcome") -> dict[str, object]:
    return {
        "read": outcome.read,
        "sinks": {
            name: [
                {"topic": each.topic, "partition": each.partition, "offset": offset, "row": row}
                for (each, offset), row in zip(outcome.origins[name], rows, strict=True)
            ]
            for name, rows in outcome.sinks.items()
        },
        "dead": [{**vars(each), "value": _text(each.value)} for each in outcome.dead],
        "dropped": outcome.dropped,
        "rules": outcome.rules,
    }


def _text(value: bytes | None) -> str | None:
    return None if value is None else value.decode(errors="backslashreplace")
