"""penstock table: looking at landed tables, and maintaining them."""

from pathlib import Path
from typing import Annotated

import typer

from penstock.cli import completion
from penstock.cli.output import Json, Yes, confirm, print_json, print_rows, print_table, say
from penstock.cli.progress import bar
from penstock.cli.table_output import Form, Output, plain, write
from penstock.wording import plural

app = typer.Typer(help="Delta and Iceberg tables that pipelines landed.", no_args_is_help=True)

Folder = Annotated[Path, typer.Argument(help="Folder of the table.", autocompletion=completion.tables)]
Keep = Annotated[str, typer.Option(help="How long files that no version needs any more are kept; at least 1h.")]
AsOf = Annotated[str, typer.Option(help="A version or a time: the table as it was then.")]


@app.command("list")
def list_(as_json: Json = False) -> None:
    """List the tables in this folder and up to two below it, with their newest version."""
    from penstock.sinks.tables import landed

    print_rows(
        landed(Path()),
        as_json=as_json,
        empty="no tables here: a `delta` or `iceberg` sink makes one with its first batch: penstock pipeline run FILE",
    )


@app.command()
def show(
    path: Folder,
    limit: Annotated[int, typer.Option("--limit", "--rows", min=0, help="How many rows.")] = 10,
    where: Annotated[str, typer.Option(help='Only rows of which this is true, such as "amount > 100".')] = "",
    columns: Annotated[str, typer.Option(help="Only these columns, with commas in between.")] = "",
    as_of: AsOf = "",
    form: Form = "table",
    output: Output = None,
    as_json: Json = False,
) -> None:
    """Show how many rows a table has, and some of them."""
    from penstock.sinks.table_query import count_rows, rows_of
    from penstock.sinks.tables import open_table

    table = open_table(path, as_of)
    chosen = [each.strip() for each in columns.split(",") if each.strip()]
    some = rows_of(table, columns=chosen, where=where, limit=limit)
    if as_json:
        print_json({"rows": count_rows(table), "version": table.version(), "some": plain(some)})
        return
    say(f"{plural(count_rows(table), 'row')}, version {table.version()}")
    write(some, form, output)


@app.command()
def query(
    sql: Annotated[str, typer.Argument(help='One SELECT; a table is named by its folder, as in "tables/orders".')],
    as_of: AsOf = "",
    form: Form = "table",
    output: Output = None,
    as_json: Json = False,
) -> None:
    """Query landed tables with SQL: read-only, starts at once, without Spark."""
    from penstock.sinks.table_query import query as ask

    write(ask(sql, Path.cwd(), as_of), "jsonl" if as_json else form, output)


@app.command()
def compact(
    path: Folder,
    keep: Keep = "7d",
    target: Annotated[str, typer.Option(help="How large the files become, about.")] = "128MB",
    as_json: Json = False,
) -> None:
    """Join small files into large ones; safe while the pipeline runs."""
    from penstock.sinks.tables import compact as join

    with bar(f"joining files of {path}"):
        done = join(path, keep, target)
    if as_json:
        print_json(done)
        return
    say(f"{plural(done.files_before, 'file')} became {done.files_after}; {plural(done.deleted, 'old file')} deleted")


@app.command()
def vacuum(
    path: Folder,
    keep: Keep = "7d",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say which files would go.")] = False,
    as_json: Json = False,
) -> None:
    """Delete files that no version of the time kept needs, and those that never became part of the table."""
    from penstock.sinks.tables import vacuum as clear

    with bar(f"looking for old files of {path}"):
        found = clear(path, keep, dry_run=dry_run)
    if as_json:
        print_json({"files": found, "deleted": not dry_run})
        return
    if dry_run:
        print_table(["file"], [[each] for each in found])
    say(f"{plural(len(found), 'old file')} {'would be' if dry_run else ''} deleted".replace("  ", " "))


@app.command()
def restore(
    path: Folder,
    to: Annotated[str, typer.Option(help="A version or a time: the table as it was then.")],
    yes: Yes = False,
    as_json: Json = False,
) -> None:
    """Bring back an older version of a table, as a new one. Its pipeline then writes again what is missing."""
    from penstock.sinks.tables import open_table
    from penstock.sinks.tables import restore as bring_back

    version = open_table(path, to).version()
    confirm(f"Bring the table {path} back to version {version}?", yes=yes)
    done = bring_back(path, str(version))
    if as_json:
        print_json(done)
        return
    is_new = done.version != version  # an Iceberg table has the very snapshot again
    what = f"version {done.version} of {path} holds what version {version} held"
    what = what if is_new else f"{path} is at version {version} again"
    say(f"{what}; its pipeline writes what came since again")


@app.command()
def history(
    path: Folder, limit: Annotated[int, typer.Option(min=0, help="How many.")] = 20, as_json: Json = False
) -> None:
    """List the newest commits of a table."""
    from penstock.sinks.tables import history as commits

    found = commits(path, limit)
    if as_json:
        print_json(found)
        return
    print_table(["version", "at", "operation"], [[each.version, each.at, each.operation] for each in found])
