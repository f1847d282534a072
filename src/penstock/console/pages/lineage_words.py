"""Lineage as people read it: where its pages are, states, times, locations and columns."""

import datetime
from typing import Any
from urllib.parse import urlencode

from penstock.clock import clock
from penstock.console.pages.wording import count, exactly, moment, size
from penstock.lineage.keys import written

_DEFAULTS = {"direction": "both", "depth": "4", "by": "job", "since": "30d", "until": ""}
SINCE = {"1d": "Last day", "7d": "Last week", "30d": "Last 30 days", "365d": "Last year"}
UNTIL = {"": "Until now", "1d": "Until a day ago", "7d": "Until a week ago", "30d": "Until 30 days ago"}
LOOKS = {"SUCCEEDED": "good", "FAILED": "bad", "KILLED": "warn"}

_COLUMNS_SHOWN = 8


def list_path(kind: str, **chosen: Any) -> str:
    """Return where a list is, with what is chosen in it."""
    given = {name: value for name, value in chosen.items() if value not in {None, "", 0}}
    return f"/lineage?{urlencode({'list': kind, **given})}"


def graph_path(of: str, at: str | None = None, **chosen: Any) -> str:
    """Return where the graph around something is; `at`: when it happened, which the graph has to reach back to."""
    since = {"since": reaching(at)} if at else {}
    given = {name: value for name, value in {"of": of, **defaults(of), **since, **chosen}.items() if value != ""}
    return f"/lineage?{urlencode(given)}"


def defaults(of: str) -> dict[str, str]:
    """Return what is chosen for a graph; around one of many runs, only its own neighbours: it would be hundreds."""
    kind = of.partition(":")[0].lower()
    return {**_DEFAULTS, "by": kind, "depth": "1"} if kind in {"run", "operation"} else _DEFAULTS


def reaching(at: str) -> str:
    """Return the shortest time to choose that reaches back to a moment, or else the day before it."""
    try:
        then = datetime.datetime.fromisoformat(at)
    except ValueError:
        return _DEFAULTS["since"]
    age = clock().now() - then
    for days in (30, 365):
        if age < datetime.timedelta(days=days):
            return f"{days}d"
    return f"{then - datetime.timedelta(days=1):%Y-%m-%d}"


def times(name: str, text: str | None, zone: datetime.tzinfo) -> dict[str, str]:
    """Return a time for a cell, and the exact one for whoever points at it."""
    try:
        seconds = datetime.datetime.fromisoformat(text).timestamp() if text else None
    except ValueError:
        return {name: text or "", f"{name}_exactly": ""}
    return {name: moment(seconds, zone), f"{name}_exactly": exactly(seconds)}


def where(location: dict[str, Any]) -> str:
    """Write where something is."""
    return written(location["type"], location["name"])


def state(status: str | None) -> str:
    """Write how far a run or an operation is."""
    return (status or "—").lower()


def columns(schema: dict[str, Any] | None) -> str:
    """Write the columns of a dataset in one line."""
    if schema is None:
        return "—"
    named = [f"{each['name']} {each['type'] or ''}".strip() for each in schema["fields"]]
    more = len(named) - _COLUMNS_SHOWN
    return ", ".join(named[:_COLUMNS_SHOWN]) + (f" and {count(more)} more" if more > 0 else "")


def amount(moved: dict[str, Any]) -> str:
    """Write what was read or written in sum; a dash for nothing."""
    if not moved["total_datasets"]:
        return "—"
    parts = [f"{count(moved['total_rows'])} rows"] if moved["total_rows"] else []
    parts += [size(moved["total_bytes"])] if moved["total_bytes"] else []
    many = moved["total_datasets"]
    return ", ".join(parts) or f"{count(many)} dataset{'s' if many > 1 else ''}"
