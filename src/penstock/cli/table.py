"""penstock table: looking at landed tables, and keeping them in shape."""

from pathlib import Path
from typing import Annotated

import typer

from penstock.cli.output import Json, print_json, print_table, say

app = typer.Typer(help="Delta tables that pipelines landed.", no_args_is_help=True)

Folder = Annotated[Path, typer.Argument(help="Folder of the table.")]


@app.command()
def show(
    path: Folder,
    rows: Annotated[int, typer.Option(help="How many rows.")] = 10,
    as_json: Json = False,
) -> None:
    """Show how many rows a table has, and some of them."""
    from penstock.sinks.rows import plain_rows, readable
    from penstock.sinks.tables import open_table

    table = open_table(path)
    some = table.to_pyarrow_dataset().head(rows)
    listed = [row for batch in some.to_batches() for row in plain_rows(readable(batch))]
    if as_json:
        print_json({"rows": table.count(), "version": table.version(), "some": listed})
        return
    say(f"{table.count():,} rows, version {table.version()}")
    print_table(some.schema.names, [list(row.values()) for row in listed], own_data=True)


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
