"""Rows of a table as people and programs want them: a table, CSV, JSON lines, Parquet."""

import io
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from penstock.cli.output import print_json_line, print_table, say
from penstock.errors import BadInput, NotFound
from penstock.terminal import write_data
from penstock.wording import plural

if TYPE_CHECKING:
    import pyarrow as pa

Kind = Literal["table", "csv", "jsonl", "parquet"]
Form = Annotated[Kind, typer.Option("--format", help="How to write the rows; `parquet` needs --output.")]
Output = Annotated[Path | None, typer.Option(help="File to write to, which must not be there yet.")]


def plain(rows: "pa.Table") -> list[dict[str, Any]]:
    """Return each row as a dictionary that any JSON writer takes."""
    from penstock.sinks.rows import plain_rows, readable

    return [row for batch in rows.to_batches() for row in plain_rows(readable(batch))]


def write(rows: "pa.Table", form: Kind, output: Path | None) -> None:
    """Write rows to the terminal, or to a file that nobody has yet."""
    if output is not None:
        _to_file(rows, form, output)
        say(f"{plural(rows.num_rows, 'row')} written to {output}")
    elif form == "parquet":
        raise BadInput("Parquet is not text: name a file with --output")
    elif form == "table":
        listed = plain(rows)
        print_table(rows.schema.names, [list(row.values()) for row in listed], own_data=True)
    elif form == "jsonl":
        for row in plain(rows):
            print_json_line(row)
    else:
        content = io.BytesIO()
        _write_csv(rows, content)
        write_data(content.getvalue())
        sys.stdout.flush()


def _to_file(rows: "pa.Table", form: Kind, output: Path) -> None:
    import orjson
    import pyarrow.parquet as pq

    try:
        with output.open("xb") as file:
            if form == "parquet":
                pq.write_table(rows, file)
            elif form == "jsonl":
                file.writelines(orjson.dumps(row) + b"\n" for row in plain(rows))
            else:
                _write_csv(rows, file)
    except FileExistsError:
        raise BadInput(f"{output} already exists", safe="It was not touched") from None
    except FileNotFoundError:
        make = f"mkdir -p {shlex.quote(str(output.parent))}"
        raise NotFound(f"there is no folder {output.parent}", fix=f"Make it with: {make}") from None


def _write_csv(rows: "pa.Table", file: Any) -> None:
    """Write CSV; lists and structs, which it has no form for, as JSON."""
    import csv

    import orjson

    text = io.TextIOWrapper(file, encoding="utf-8", newline="", write_through=True)
    writer = csv.writer(text)
    writer.writerow(rows.schema.names)
    for row in plain(rows):
        writer.writerow(
            [orjson.dumps(each).decode() if isinstance(each, list | dict) else each for each in row.values()]
        )
    text.detach()
