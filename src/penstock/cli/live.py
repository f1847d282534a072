"""Live output: redrawn in place on a terminal, a line for each change elsewhere."""

import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from penstock.cli.output import print_json_line, print_lines, say
from penstock.cli.tables import render
from penstock.driver.log_files import last_lines

_LOOK_EVERY_S = 0.5
Rows = list[list[Any]]


def watch(
    columns: list[str],
    look: Callable[[], Rows],
    *,
    is_over: Callable[[Rows], bool] = lambda _rows: False,
    known_by: int = 1,
    as_json: bool = False,
) -> None:
    """Show rows, known by so many of their first columns, until it is over or Ctrl-C."""
    if sys.stdout.isatty() and not as_json:
        _redraw(columns, look, is_over)
        return
    seen: dict[tuple[Any, ...], list[Any]] = {}
    if not as_json:
        print_lines(["\t".join(columns)])
    while True:
        rows = look()
        for row in rows:
            key = tuple(row[:known_by])
            if seen.get(key) != row:
                seen[key] = row
                if as_json:
                    print_json_line(dict(zip(columns, row, strict=True)))
                else:
                    print_lines(["\t".join(map(_written, row))])
        if is_over(rows):
            return
        time.sleep(_LOOK_EVERY_S)


def _written(value: Any) -> str:
    return "-" if value is None else str(value).replace("\n", " ")


def _redraw(columns: list[str], look: Callable[[], Rows], is_over: Callable[[Rows], bool]) -> None:
    from rich.console import Console
    from rich.live import Live
    from rich.text import Text

    console = Console(highlight=False)
    with Live(console=console, auto_refresh=False, vertical_overflow="crop") as live:
        while True:
            rows = look()
            live.update(Text.from_ansi("\n".join(render(columns, rows))), refresh=True)
            if is_over(rows):
                return
            time.sleep(_LOOK_EVERY_S)


def print_log(path: Path, *, lines: int, goes_on: bool, leave_out: str | None = None) -> None:
    """Print the last lines of a log, and if it goes on, each new one until Ctrl-C; but none that begins so."""
    if not goes_on:
        found = last_lines(path, lines, leave_out)
        print_lines(found)
        if not found:
            say("nothing is in this log yet")
        return
    for line in follow(path, lines=lines):
        if leave_out is None or not line.startswith(leave_out):
            print_lines([line])


def follow(path: Path, *, lines: int) -> Iterator[str]:
    """Return the last lines of a log and then each new one, also after the log was rolled over or emptied."""
    with ExitStack() as stack:
        file = stack.enter_context(path.open("rb"))
        *whole, rest = file.read().split(b"\n")
        yield from _decoded(whole[-lines:])
        while True:
            *whole, rest = (rest + file.read()).split(b"\n")
            yield from _decoded(whole)
            now = path.stat() if path.exists() else None
            if now is not None and now.st_ino != os.fstat(file.fileno()).st_ino:
                yield from _decoded([rest] if rest else [])
                file, rest = stack.enter_context(path.open("rb")), b""
            elif now is not None and now.st_size < file.tell():
                file.seek(0)
            else:
                time.sleep(_LOOK_EVERY_S)


def _decoded(lines: list[bytes]) -> list[str]:
    return [line.decode(errors="replace") for line in lines]
