"""Write and check pipeline files."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from penstock.cli import schemas
from penstock.cli.output import Json, plural, print_json, print_table, say
from penstock.cli.pipeline.common import File
from penstock.cli.session import session
from penstock.errors import BadInput, Conflict, NotFound

if TYPE_CHECKING:
    from penstock.pipeline.infer import Sample

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


def check(file: File, as_json: Json = False) -> None:
    """Look for mistakes without starting Spark; unknown columns are warnings."""
    from penstock.pipeline.load import load_with_warnings

    spec, warnings = load_with_warnings(file)
    if as_json:
        print_json({"pipeline": spec.name, "warnings": warnings})
        return
    for warning in warnings:
        say(f"warning: {warning}")
    say(f"pipeline '{spec.name}' can run")
