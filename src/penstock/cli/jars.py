"""penstock jars: what Kafka, Spark's connector and Delta are made of."""

from typing import Annotated

import typer

from penstock.cli.output import Json, print_json, print_table, say
from penstock.cli.progress import bar
from penstock.cli.session import session

app = typer.Typer(help="The locked jars of Kafka, Spark's Kafka connector and Delta.", no_args_is_help=True)


@app.command()
def fetch(context: typer.Context, as_json: Json = False) -> None:
    """Fetch what is missing or damaged; does nothing, offline, when all is well."""
    from penstock.jvm import jars

    folder = session(context).settings.jars
    count = 0
    for jar_set in jars.USED_SETS:
        with bar(f"fetching jars of {jar_set}") as shown:
            count += len(jars.ensure(jar_set, folder, shown.update))
    say(f"{count} jars verified in {folder}")
    if as_json:
        print_json({"jars": count, "folder": str(folder)})


@app.command()
def warm(
    if_missing: Annotated[bool, typer.Option("--if-missing", help="Do nothing if that was done before.")] = False,
) -> None:
    """Parse Spark's classes once, which takes half a minute; from then on every pipeline starts sooner."""
    from penstock.driver import class_archive
    from penstock.jvm.java import find_java

    if if_missing and class_archive.is_own(class_archive.archive(find_java()[0])):
        return
    with bar("archiving Spark's classes"):
        path = class_archive.make()
    say(f"Spark's classes are in {path}")


@app.command("list")
def list_(context: typer.Context, as_json: Json = False) -> None:
    """List every locked jar and whether it is here, byte for byte."""
    from penstock.jvm import jars

    folder = session(context).settings.jars
    rows = [
        {"set": jar_set, **jar.model_dump(exclude={"sha256"}), "sound": jars.is_sound(jar, folder)}
        for jar_set in jars.USED_SETS
        for jar in jars.locked(jar_set)
    ]
    if as_json:
        print_json(rows)
    else:
        print_table(list(rows[0]), [list(row.values()) for row in rows])
