"""penstock jars: what Kafka, Spark's connector and Delta are made of."""

from typing import Annotated

import typer

from penstock.cli.output import Json, print_json, print_table, say
from penstock.cli.progress import bar
from penstock.cli.session import session

app = typer.Typer(help="The locked jars of Kafka, Spark's Kafka connector and Delta.", no_args_is_help=True)


@app.command()
def fetch(
    context: typer.Context,
    only: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            help="Only this set, such as registry, connect, or openlineage for Spark's listener; repeatable. What"
            " pipelines need if left out.",
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Fetch what is missing or damaged; does nothing, offline, when all is well."""
    from penstock.jvm import archives, jars

    folder = session(context).settings.jars
    paths: list[str] = []
    for jar_set in [jars.named(name) for name in only] if only else jars.USED_SETS:
        with bar(f"fetching jars of {jar_set}") as shown:
            if jars.locked(jar_set)[0].type == "tar.gz":
                paths += map(str, archives.ensure(jar_set, folder, shown.update).rglob("*.jar"))
            else:
                paths += map(str, jars.ensure(jar_set, folder, shown.update))
    say(f"{len(paths)} jars verified in {folder}")
    if as_json:
        print_json({"jars": len(paths), "folder": str(folder), "paths": paths})


@app.command()
def warm(
    context: typer.Context,
    if_missing: Annotated[bool, typer.Option("--if-missing", help="Do nothing if that was done before.")] = False,
) -> None:
    """Parse Kafka's and Spark's classes once, which takes half a minute; from then on both start sooner."""
    from penstock.broker import class_archive as of_kafka
    from penstock.driver import class_archive as of_spark
    from penstock.jvm.class_archive import is_own
    from penstock.jvm.java import find_java

    jar_folder = session(context).settings.jars
    if not (if_missing and is_own(of_kafka.archive(jar_folder))):
        with bar("archiving Kafka's classes"):
            path = of_kafka.make(jar_folder)
        say(f"Kafka's classes are in {path}")
    if not (if_missing and is_own(of_spark.archive(find_java()[0]))):
        with bar("archiving Spark's classes"):
            path = of_spark.make()
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
