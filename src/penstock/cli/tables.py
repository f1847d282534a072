"""Tables for people: whole in a pipe, cut to the width of a terminal, record below record where that is narrow."""

import shutil
import sys
from collections.abc import Sequence
from typing import Any

from rich.cells import cell_len, set_cell_size

from penstock.terminal import colours_wanted, visible

_GAP = "  "
_NARROWEST = 6
_NAMES = {"batch", "id", "leader", "node", "offset", "partition", "pid", "port"}
"""Columns, or the last words of their names, whose numbers are identifiers."""
_COLOURS = {
    "running": "32",
    "up": "32",
    "Stable": "32",
    "starting": "33",
    "waiting": "33",
    "failed": "31",
    "crashed": "31",
    "down": "31",
}
is_wide = False
"""Whether `--wide` was given: values are shown whole, however long."""


def render(columns: Sequence[str], rows: Sequence[Sequence[Any]], *, own_data: bool = False) -> list[str]:
    """Return the lines of a table as standard output should show it; `own_data` are shown to the letter."""
    is_terminal = sys.stdout.isatty()
    rounded = is_terminal and not own_data
    # What somebody copies into a command stays as it is.
    names = [column.rpartition("_")[2] in _NAMES for column in columns]
    cells = [
        [_cell(value, rounded=rounded and not name) for value, name in zip(row, names, strict=True)] for row in rows
    ]
    # In a pipe data stay as they are, but a row stays a line; a terminal is shown what would steer it.
    shown = [[visible(each) if is_terminal else _in_one_line(each) for each in row] for row in [list(columns), *cells]]
    right = [all(_is_number(row[at]) for row in rows) and bool(rows) for at in range(len(columns))]
    widths = [max(cell_len(row[at]) for row in shown) for at in range(len(columns))]
    if is_terminal and not is_wide:
        room = shutil.get_terminal_size().columns - len(_GAP) * (len(widths) - 1)
        fitted = _fitted(widths, [cell_len(each) for each in shown[0]], room)
        if fitted is None:
            return _records(shown[0], shown[1:])
        widths = fitted
    lines = [[_placed(row[at], widths[at], right=right[at]) for at in range(len(columns))] for row in shown]
    if is_terminal and colours_wanted():
        lines = _coloured(columns, rows, lines)
    return [_GAP.join(line).rstrip() for line in lines]


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _cell(value: Any, *, rounded: bool) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list | tuple):
        return ", ".join(map(str, value)) or "-"
    if rounded and isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"  # noqa: PLR2004 - three digits tell enough
    return f"{value:,}" if rounded and isinstance(value, int) else str(value)


def _in_one_line(text: str) -> str:
    return text.replace("\r", "\\r").replace("\n", "\\n")


def _fitted(widths: list[int], headings: list[int], room: int) -> list[int] | None:
    """Narrow the widest columns until all fit, without cutting a heading; None if that is not enough."""
    least = [min(width, max(heading, _NARROWEST)) for width, heading in zip(widths, headings, strict=True)]
    if sum(least) > room:
        return None
    fitted = list(widths)
    while sum(fitted) > room:
        at = max((at for at in range(len(fitted)) if fitted[at] > least[at]), key=lambda at: fitted[at])
        fitted[at] -= 1
    return fitted


def _placed(text: str, width: int, *, right: bool) -> str:
    length = cell_len(text)
    if length > width:
        return set_cell_size(text, width - 1) + "…"
    return " " * (width - length) + text if right else text + " " * (width - length)


def _records(columns: list[str], rows: list[list[str]]) -> list[str]:
    width = max(map(cell_len, columns))
    blocks = [
        [f"{_placed(name, width, right=False)}{_GAP}{value}" for name, value in zip(columns, row, strict=True)]
        for row in rows
    ]
    return [line for number, block in enumerate(blocks) for line in ([""] if number else []) + block]


def _coloured(columns: Sequence[str], rows: Sequence[Sequence[Any]], lines: list[list[str]]) -> list[list[str]]:
    """Print headings bold, and states in the colour of what they mean."""
    painted = [[f"\x1b[1m{each}\x1b[0m" for each in lines[0]]]
    for row, line in zip(rows, lines[1:], strict=True):
        colours = [
            _COLOURS.get(str(value)) if name == "state" else None for name, value in zip(columns, row, strict=True)
        ]
        painted.append(
            [f"\x1b[{colour}m{each}\x1b[0m" if colour else each for colour, each in zip(colours, line, strict=True)]
        )
    return painted
