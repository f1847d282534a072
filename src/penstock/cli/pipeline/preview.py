"""penstock pipeline preview: real records through a pipeline, with nothing written anywhere."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from penstock.cli.output import Json, print_json, print_table, say
from penstock.cli.pipeline.common import File, load_and_warn
from penstock.cli.pipeline.early_spark import EarlySpark
from penstock.cli.progress import bar
from penstock.cli.session import session
from penstock.config.complaints import in_words
from penstock.errors import BadInput, PenstockError, PipelineHalted
from penstock.wording import plural

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
    """Show what a pipeline would do with real records: rows by sink, what fails and why. Nothing is written."""
    analysis = _kept_analysis(session(context).settings.cache)
    guess = EarlySpark(file, analysis)
    guess.launch()
    from penstock.schemas.registry import with_registry
    from penstock.sources.source import SourceContext
    from penstock.steps.code_line import code_line, in_brackets
    from penstock.testing.dry_run import dry_run, is_answered, needs_spark

    spec, folder = with_registry(load_and_warn(file), session(context).settings.registry), file.resolve().parent
    with_spark = needs_spark(spec) and not (analysis is not None and is_answered(spec, folder, analysis))
    end_spark = guess.settle(spec.spark, is_needed=with_spark)
    source = _from(spec, since).source.open(SourceContext(session(context).live_connection()))
    ranges = _ranges(source, events, from_start=bool(since))
    if not ranges:
        say("there is nothing to read. Send something with: penstock produce TOPIC")
        return
    with bar("reading records") as shown:
        if with_spark:
            shown.describe("starting Spark, for the SQL")
        try:
            outcome = dry_run(spec, folder, source.reader(), ranges, analysis=analysis)
        except SystemExit as ended:  # of a run it ends a worker, and is that record's fault
            raise PipelineHalted(
                f"a step or a handler ends Python: SystemExit: {ended}{in_brackets(code_line(ended))}",
                safe="Nothing was written",
                fix="Raise an exception there, so that the record becomes a dead letter",
            ) from None
    _print(spec, outcome, as_json=as_json)
    end_spark()


def _kept_analysis(cache: Path) -> Path | None:
    """Return where it is kept what Spark found out about SQL; none if somebody else could have written it."""
    from penstock.private import distrust_way, make_missing_public, make_private

    kept = cache / "analysis" / "preview.json"
    try:
        make_missing_public(cache)
        make_private(kept.parent)
    except (OSError, PenstockError):
        return None
    return kept if distrust_way(kept.parent) is None else None


def _from(spec: "PipelineSpec", since: str) -> "PipelineSpec":
    from pydantic import ValidationError

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
            record_ids = [[f"{each.topic}/{each.partition}", offset] for each, offset in outcome.origins[name]]
            table = [[*record_id, *row.values()] for record_id, row in zip(record_ids, rows, strict=True)]
            print_table(["partition", "offset", *rows[0]], table, own_data=True)
    say(f"{plural(outcome.read, 'record')} read, {plural(len(outcome.dead), 'dead letter')}; nothing was written")
    if outcome.dead:
        columns = ["partition", "offset", "stage", "error", "message", "value"]
        columns += ["line"] if any(each.line for each in outcome.dead) else []
        listed = [
            {**vars(each), "partition": f"{each.topic}/{each.partition}", "value": _text(each.value)}
            for each in outcome.dead
        ]
        print_table(columns, [[each[name] for name in columns] for each in listed], own_data=True)


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
