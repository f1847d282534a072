"""Write and check pipeline files."""

import re
from functools import partial
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Annotated

import typer

from penstock.cli import completion, editor_schemas
from penstock.cli.output import Json, print_json, print_table, say
from penstock.cli.pipeline.common import File
from penstock.cli.progress import bar
from penstock.cli.session import session
from penstock.errors import BadInput, Conflict, NotFound
from penstock.example_files import example_pipelines
from penstock.extras import require
from penstock.wording import nearest, plural

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
    like: Annotated[
        str,
        typer.Option(help="Example to start from, such as fan_out.", autocompletion=completion.example_pipelines),
    ] = "",
) -> None:
    """Write a commented pipeline file that runs."""
    from penstock.pipeline.spec import NAME, plain_name
    from penstock.pipeline.template import template

    if NAME.fullmatch(name) is None:
        plain = plain_name(re.sub(r"\.(ya?ml|py)$", "", name, flags=re.IGNORECASE))
        fix = f"Write it as: penstock pipeline new {plain}" if plain else ""
        raise BadInput("a pipeline's name has lower-case letters, digits and dashes, at most 63", fix=fix)
    if topic and from_topic:
        raise BadInput("give --topic or --from-topic, not both")
    if like and (topic or from_topic):
        raise BadInput("--like takes the topics of the example: leave out --topic and --from-topic")
    path, home = Path(f"{name}.yaml"), session(context).settings.home
    if path.exists():
        raise Conflict(f"{path} already exists", safe="It was not touched", fix="Choose another name, or remove it")
    sample = _sample(context, from_topic) if from_topic else None
    example = _example(like, name) if like else None
    schema_file = editor_schemas.put(home, "pipeline")
    with path.open("x", encoding="utf-8") as file:
        if example is not None:
            file.write(f"# yaml-language-server: $schema={schema_file}\n{example}")
        else:
            file.write(template(name, from_topic or topic or name, schema_file, sample))
    if sample is not None:
        _print_sample(sample)
    say(f"{path} written. Next: penstock pipeline check {path}")


def _example(like: str, name: str) -> str:
    """Return the text of an example's pipeline file, under another name."""
    known = example_pipelines()
    if like not in known:
        close = nearest(like, known)
        meant = f"Did you mean '{close}'? " if close else ""
        raise NotFound(f"there is no example '{like}' of one file", fix=f"{meant}There are {', '.join(known)}")
    file = known[like]
    text = file.read_text(encoding="utf-8").replace(f"{file.parent.name}/{file.name}", f"{name}.yaml")
    say(f"topics, tables and files are those of the example '{like}': change them to yours")
    return re.sub(r"^name: .*$", f"name: {name}", text, count=1, flags=re.MULTILINE)


def _sample(context: typer.Context, topic: str) -> "Sample":
    from penstock.kafka.positions import LATEST, Position
    from penstock.kafka.reader import Reader
    from penstock.pipeline.infer import infer

    connection = session(context).live_connection()
    with Reader(connection, topic, start=Position("before_end", _LOOKED_AT), end=LATEST) as reader:
        found = [(each.key(), each.value()) for batch in reader.batches() for each in batch]
    if not found:
        raise NotFound(f"topic '{topic}' holds no record to look at", fix="Leave out --from-topic, or send some first")
    return infer(found)


def _print_sample(sample: "Sample") -> None:
    say(f"looked at {plural(sample.records, 'record')}: {plural(sample.objects, 'JSON object')}")
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
        bool, typer.Option("--online", help="Also check topics, servers, and the columns of their tables.")
    ] = False,
    explain: Annotated[
        bool, typer.Option("--explain", help="Also say where each SQL expression runs, and why. Starts Spark.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Look for errors without starting Spark, also in the columns of tables on this disk; unknown ones are warnings.

    The user's modules are imported.
    """
    from penstock.pipeline.load import load_with_warnings

    settings = session(context).settings  # a broken project file fails a run as much as a broken pipeline file
    spec, warnings = load_with_warnings(file, import_code=True)
    for sink, called in zip(spec.sinks, spec.sink_names, strict=True):
        if sink.needs_extra is not None:
            require(sink.needs_extra, f"sink '{called}'")
    if online:
        from penstock.operate.online_check import look

        with bar("looking at topics, servers and tables") as shown:
            on_spark = partial(shown.describe, "starting Spark, for the columns that SQL makes")
            looked_at = look(spec, settings, file, on_spark)
    else:
        from penstock.operate.table_check import changes

        looked_at = list(changes(spec, settings, file))
    placed = _placed(spec, file) if explain else []
    if as_json:
        found = {"pipeline": spec.name, "warnings": warnings, "looked_at": looked_at}
        print_json({**found, "sql": placed} if explain else found)
        return
    for warning in warnings:
        say(f"warning: {warning}")
    for each in looked_at:
        say(f"found: {each}")
    if placed:
        print_table(list(placed[0]), [list(each.values()) for each in placed])
    elif explain:
        say("there is no SQL that runs on each event")
    if warnings:
        next_ = f"penstock pipeline preview {quote(str(file))}"
        say(f"pipeline '{spec.name}' may run; see what it makes of real records: {next_}")
    else:
        say(f"pipeline '{spec.name}' can run")


def _placed(spec: "PipelineSpec", file: Path) -> list[dict[str, str]]:
    """Return where each expression runs, and the reason if that is Spark."""
    from penstock.testing.dry_run import placement

    with bar("starting Spark, for what it makes of the SQL"):
        found = placement(spec, file.resolve().parent)
    return [
        {
            "key": each.key,
            "expression": " ".join(each.text.split()),
            "runs in": "Spark" if each.reason else "the workers",
            "because": each.reason or "they give exactly Spark's result",
        }
        for each in found
    ]
