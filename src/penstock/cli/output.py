"""Data to stdout, messages to stderr; `--json` for machines, tables for people."""

import datetime
import json
import sys
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import orjson
import typer

from penstock.errors import BadInput, one_line
from penstock.terminal import colours_wanted, visible, write_data

if TYPE_CHECKING:
    from pydantic import BaseModel

INTERRUPTED = 130
"""The exit code after Ctrl-C or SIGTERM, as shells have it."""

Json = Annotated[bool, typer.Option("--json", help="Print JSON on stdout.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do it without asking.")]


def say(text: str) -> None:
    """Print a message that is not data, on one line whatever is in it."""
    sys.stderr.write(visible(text) + "\n")
    sys.stderr.flush()


def say_error(text: str, *, exit_code: int, as_json: bool, detail: dict[str, str] | None = None) -> None:
    """Say what went wrong: a line for each mistake, or one JSON object on a line of standard error."""
    if as_json:
        said = {key: _clean_lines(value) for key, value in (detail or {}).items()}
        sys.stderr.write(json.dumps({"error": _clean_lines(text), "exit_code": exit_code, **said}) + "\n")
        sys.stderr.flush()
        return
    is_coloured = sys.stderr.isatty() and colours_wanted()
    for line in f"error: {text}".split("\n"):
        shown = visible(line)
        if is_coloured and shown.startswith("error: "):
            shown = f"\x1b[31merror:\x1b[0m {shown.removeprefix('error: ')}"
        sys.stderr.write(shown + "\n")
    sys.stderr.flush()


def _clean_lines(text: str) -> str:
    """Escape invisible characters; several mistakes stay a line each."""
    return "\n".join(map(one_line, text.split("\n")))


def print_json(data: Any) -> None:
    """Write one JSON document, also with other people's data: integers of any size, unpaired surrogates."""
    try:
        written = orjson.dumps(data, default=_plain, option=orjson.OPT_INDENT_2 | orjson.OPT_NON_STR_KEYS)
    except orjson.JSONEncodeError:
        written = json.dumps(data, default=lambda each: _plain(each, or_text=True), indent=2).encode()
    write_data(written + b"\n")
    sys.stdout.flush()


def print_json_line(data: Any) -> None:
    """Write one JSON document on one line."""
    write_data(orjson.dumps(data, default=_plain) + b"\n")
    sys.stdout.flush()


def print_lines(lines: Iterable[str]) -> None:
    """Write lines of text."""
    for line in lines:
        write_data(line.encode(errors="surrogateescape") + b"\n")
    sys.stdout.flush()


def _plain(value: Any, *, or_text: bool = False) -> Any:
    from pydantic import BaseModel

    if isinstance(value, BaseModel):
        return value.model_dump(mode="json")
    if or_text:
        return str(value)
    raise TypeError


def print_rows(rows: Sequence["BaseModel"], *, as_json: bool, empty: str = "nothing") -> None:
    """Write models as a JSON list or as a table with a column per field."""
    if as_json:
        print_json(list(rows))
    elif not rows:
        say(empty)
    else:
        fields = list(type(rows[0]).model_fields)
        print_table(fields, [[getattr(row, field) for field in fields] for row in rows])


def print_table(columns: Sequence[str], rows: Sequence[Sequence[Any]], *, own_data: bool = False) -> None:
    """Write a table; `own_data` says that columns and values are the user's, and shown to the letter."""
    from penstock.cli.tables import render

    for line in render(columns, rows, own_data=own_data):
        sys.stdout.buffer.write(line.encode(errors="surrogatepass") + b"\n")
    sys.stdout.flush()


def confirm(question: str, *, yes: bool) -> None:
    """Ask before something that cannot be undone; a no, which is also the answer of a script, ends with exit code 1."""
    if yes:
        return
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        say(f"{question} Nothing was changed: add --yes to do it")
        raise typer.Exit(1)
    try:
        agreed = typer.confirm(visible(question), err=True)
    except typer.Abort:  # Ctrl+C, or the end of the input
        say("")
        raise KeyboardInterrupt from None
    if not agreed:
        say("Nothing was changed")
        raise typer.Exit(1)


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
    """Show a time, given in seconds since 1970, in UTC; nothing for none. Options take it back as it is shown.

    One that no calendar has, as of a record with nanoseconds where milliseconds belong, is shown as its number.
    """
    if seconds is None:
        return ""
    try:
        return datetime.datetime.fromtimestamp(seconds, datetime.UTC).strftime("%Y-%m-%d %H:%M:%SZ")
    except (OverflowError, ValueError, OSError):
        return f"{seconds:.0f} s since 1970"
