"""Data to stdout, talk to stderr; `--json` for machines, tables for people."""

import datetime
import json
import sys
from collections.abc import Iterable, Sequence
from typing import Annotated, Any

import orjson
import typer
from pydantic import BaseModel

from penstock.errors import BadInput
from penstock.terminal import visible, write_data

Json = Annotated[bool, typer.Option("--json", help="Print JSON on stdout.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do it without asking.")]


def say(text: str) -> None:
    """Tell the user something that is not data, in one line whatever is in it."""
    sys.stderr.write(visible(text) + "\n")
    sys.stderr.flush()


def print_json(data: Any) -> None:
    """Write one JSON document, whatever is in it: data of others have integers of any size and halves of characters."""
    try:
        written = orjson.dumps(data, default=_plain, option=orjson.OPT_INDENT_2 | orjson.OPT_NON_STR_KEYS)
    except orjson.JSONEncodeError:
        written = json.dumps(
            data, default=lambda each: _plain(each) if isinstance(each, BaseModel) else str(each), indent=2
        ).encode()
    write_data(written + b"\n")
    sys.stdout.flush()


def print_lines(lines: Iterable[str]) -> None:
    """Write lines of text."""
    for line in lines:
        write_data(line.encode(errors="surrogateescape") + b"\n")
    sys.stdout.flush()


def _plain(value: Any) -> Any:
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json")
    raise TypeError


def print_rows(rows: Sequence[BaseModel], *, as_json: bool, empty: str = "nothing") -> None:
    """Write models as a JSON list or as a table with a column per field."""
    if as_json:
        print_json(list(rows))
    elif not rows:
        say(empty)
    else:
        fields = list(type(rows[0]).model_fields)
        print_table(fields, [[getattr(row, field) for field in fields] for row in rows])


def print_table(columns: Sequence[str], rows: Sequence[Sequence[Any]], *, own_names: bool = False) -> None:
    """Write a table; `own_names` says that the columns are the user's, and shown to the letter."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console(file=sys.stdout, highlight=False)
    if not console.is_terminal:
        console.width = 200
    table = Table(box=None, pad_edge=False, header_style="bold")
    # Not what Rich thinks of it, which variables decide (TTY_COMPATIBLE): escapes reach a terminal either way.
    shown = visible if sys.stdout.isatty() else str
    for name in columns:
        numeric = rows and all(isinstance(row[len(table.columns)], int) for row in rows)
        table.add_column(
            # Text, not markup: what comes from Kafka or from a table is shown as it is.
            Text(shown(name if own_names else name.replace("_", " "))),
            justify="right" if numeric else "left",
            overflow="fold",
        )
    for row in rows:
        table.add_row(*(Text(shown(_cell(value))) for value in row))
    console.print(table)


def _cell(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list | tuple):
        return ", ".join(map(str, value)) or "-"
    return str(value)


def confirmed(question: str, *, yes: bool) -> bool:
    """Ask before something that cannot be undone; without a terminal the answer is no, and that is said."""
    if yes:
        return True
    if sys.stdin.isatty() and sys.stderr.isatty():
        return typer.confirm(visible(question), err=True)
    say("Nothing was changed. To do it, add --yes")
    return False


def key_values(pairs: Sequence[str], option: str) -> dict[str, str]:
    """Read `name=value` options."""
    parsed = {}
    for pair in pairs:
        name, sign, value = pair.partition("=")
        if not sign or not name:
            raise BadInput(f"{option} takes NAME=VALUE, and '{pair}' is not that")
        parsed[name] = value
    return parsed


def moment(seconds: float | None) -> str:
    """Show a time, given in seconds since 1970, in UTC; nothing for none."""
    if seconds is None:
        return ""
    return datetime.datetime.fromtimestamp(seconds, datetime.UTC).strftime("%Y-%m-%d %H:%M:%S")
