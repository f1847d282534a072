"""Write and check pipeline files."""

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from penstock.cli import schemas
from penstock.cli.output import Json, plural, print_json, print_table, say
from penstock.cli.pipeline.common import File
from penstock.cli.session import session
from penstock.errors import BadInput, Conflict, NotFound

if TYPE_CHECKING:
    from penstock.pipeline.infer import Sample
    from penstock.pipeline.spec import PipelineSpec

_LOOKED_AT = 1000


def new(
    context: typer.Context,
    name: Annotated[str, typer.Argument(help="Name of the pipeline: lower-case letters, digits, dashes.")],
    topic: Annotated[str, typer.Option(help="Topic to read; the pipeline's name if left out.")] = "",
    from_topic: Annotated[
        str, typer.Option(help="Topic to read, whose records are looked at for columns and their types.")
    ] = "",
) -> None:
    """Write a commented pipeline file that runs."""
    from penstock.pipeline.spec import NAME
    from penstock.pipeline.template import template

    if NAME.fullmatch(name) is None:
        raise BadInput("a pipeline's name has lower-case letters, digits and dashes, at most 63")
    if topic and from_topic:
        raise BadInput("say --topic or --from-topic, not both")
    path, home = Path(f"{name}.yaml"), session(context).settings.home
    if path.exists():
        raise Conflict(f"{path} is there already", safe="It was not touched")
    sample = _sample(context, from_topic) if from_topic else None
    schema_file = schemas.put(home, "pipeline")
    with path.open("x", encoding="utf-8") as file:
        file.write(template(name, from_topic or topic or name, schema_file, sample))
    if sample is not None:
        _print_sample(sample)
    say(f"{path} written. Next: penstock pipeline check {path}")


def _sample(context: typer.Context, topic: str) -> "Sample":
    from penstock.kafka.positions import LATEST, Position
    from penstock.kafka.reader import Reader
    from penstock.pipeline.infer import infer

    connection = session(context).connection()
    with Reader(connection, topic, start=Position("before_end", _LOOKED_AT), end=LATEST) as reader:
        found = [(each.key(), each.value()) for batch in reader.batches() for each in batch]
    if not found:
        raise NotFound(f"topic '{topic}' holds no record to look at", fix="Leave out --from-topic, or send some first")
    return infer(found)


def _print_sample(sample: "Sample") -> None:
    say(f"looked at {plural(sample.records, 'record')}, of which {sample.objects:,} are JSON objects")
    rows = [[each.name, each.type + (" NOT NULL" if each.is_required else ""), each.note] for each in sample.columns]
    if rows:
        print_table(["column", "type", "seen"], rows)
    if sample.left_out:
        say(f"left out, for their names: {', '.join(sample.left_out)}")
    if sample.key_column:
        say(f"the key of each record is its {sample.key_column}")


def check(
    context: typer.Context,
    file: File,
    online: Annotated[
        bool, typer.Option("--online", help="Also look whether topics are there, and servers let the pipeline in.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Look for mistakes without starting Spark; the user's modules are imported. Unknown columns are warnings."""
    from penstock.pipeline.load import load_with_warnings

    spec, warnings = load_with_warnings(file, import_code=True)
    looked_at = _look(context, spec) if online else []
    if as_json:
        print_json({"pipeline": spec.name, "warnings": warnings, "looked_at": looked_at})
        return
    for warning in warnings:
        say(f"warning: {warning}")
    for each in looked_at:
        say(f"found: {each}")
    say(f"pipeline '{spec.name}' can run")


def _look(context: typer.Context, spec: "PipelineSpec") -> list[str]:
    """Reach everything that a start would reach first, and make nothing; return what was found."""
    from penstock.sinks.sink import SinkContext
    from penstock.sources.source import SourceContext

    connection, found = session(context).connection(), list[str]()
    if not spec.is_stateful:
        for each in spec.source.open(SourceContext(connection)).available():
            partition = f"{each.source_partition.topic}/{each.source_partition.partition}"
            found.append(f"{partition} with {plural(each.end - each.first, 'offset')}")
    with tempfile.TemporaryDirectory(prefix="penstock-check-") as scratch:
        for model, name in zip(spec.sinks, spec.sink_names, strict=True):
            sink = model.open(SinkContext(name, spec.name, connection, Path(scratch), _no_spark))
            try:
                sink.reach()
            finally:
                sink.close()
            target = model.target()
            found.append(f"sink '{name}' can be reached" + (f": {target.kind} {target.name}" if target else ""))
    return found


def _no_spark() -> NoReturn:
    raise AssertionError("reaching a sink needs no Spark")
