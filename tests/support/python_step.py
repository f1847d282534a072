"""A Python step over a few rows: how tests run one, and look at what came out."""

from collections.abc import Callable
from typing import Any, Literal

from support.events import batch

On = Literal["rows", "pandas", "arrow"]
EVERY: tuple[On, ...] = ("rows", "pandas", "arrow")
Run = Callable[..., list[dict[str, Any]]]


def users(rows: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    return [tuple(value for name, value in row.items() if not name.startswith("_")) for row in rows]


def errors(rows: list[dict[str, Any]]) -> list[tuple[int, str]]:
    return [(row["_offset"], row["_error"]["error"]) for row in rows if row["_error"] is not None]


THREE = batch("a bigint, s string", [(1, "x"), (2, "y"), (3, "z")])
