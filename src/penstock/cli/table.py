"""penstock table: looking at landed tables, and keeping them in shape."""

from pathlib import Path
from typing import Annotated

import typer

from penstock.cli import completion
from penstock.cli.output import Json, plural, print_json, print_table, say
from penstock.cli.table_output import Form, Output, plain, write

app = typer.Typer(help="Delta tables that pipelines landed.", no_args_is_help=True)

Folder = Annotated[Path, typer.Argument(help="Folder of the table.", autocompletion=completion.tables)]
AsOf = Annotated[str, typer.Option(help="A version or a time: the table as it was then.")]


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
    """Ask landed tables with SQL; it starts at once, without Spark, and can only read."""
    from penstock.sinks.table_query import query as ask

    write(ask(sql, Path.cwd(), as_of), "jsonl" if as_json else form, output)


@app.command()
def compact(
    path: Folder,
    keep: Annotated[str, typer.Option(help="How long files that no version needs any more are kept.")] = "7d",
    as_json: Json = False,
) -> None:
    """Join small files into large ones, under the lock that the pipeline's commits take too."""
    from penstock.sinks.tables import compact as join

    done = join(path, keep)
    if as_json:
        print_json(done)
        return
    say(f"{done.files_before} files became {done.files_after}; {done.deleted} old files were deleted")


@app.command()
def history(path: Folder, limit: Annotated[int, typer.Option(help="How many.")] = 20, as_json: Json = False) -> None:
    """List the newest commits of a table."""
    from penstock.sinks.tables import history as commits

    found = commits(path, limit)
    if as_json:
        print_json(found)
        return
    print_table(["version", "at", "operation"], [[each.version, each.at, each.operation] for each in found])
