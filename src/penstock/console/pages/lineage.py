"""Lineage: search, then the graph around what was found. All that is chosen is in the address, to be shared."""

from typing import Any
from urllib.parse import urlencode

from nicegui import ui

from penstock.console.pages.cells import LINK
from penstock.console.pages.frame import Frame, heading
from penstock.console.pages.wording import count

_FOUND = [
    {"name": "name", "label": "Name", "field": "name", "align": "left", "sortable": True},
    {"name": "kind", "label": "Kind", "field": "kind", "align": "left", "sortable": True},
    {"name": "where", "label": "Where", "field": "where", "align": "left", "classes": "mono"},
]
_COLUMNS = [
    {"name": "column", "label": "Column", "field": "column", "align": "left", "sortable": True},
    {"name": "source", "label": "Made of", "field": "source", "align": "left"},
    {"name": "dataset", "label": "Of", "field": "dataset", "align": "left", "classes": "mono"},
    {"name": "how", "label": "How", "field": "how", "align": "left"},
]
_DIRECTIONS = {"both": "Both ways", "upstream": "Where it comes from", "downstream": "What comes of it"}
_LEVELS = {"dataset": "Datasets alone", "job": "Jobs", "run": "Runs", "operation": "Operations"}
_SINCE = {"1d": "Last day", "7d": "Last week", "30d": "Last 30 days", "365d": "Last year"}
_DEPTHS = {number: f"{number} steps" if number > 1 else "1 step" for number in (1, 2, 4, 6, 10)}
_DEFAULTS = {"direction": "both", "depth": "4", "by": "job", "since": "30d"}
_SHORTEST = 3


async def draw(frame: Frame) -> None:
    """Draw the page: the graph of what the address names, or else what there is."""
    frame.draw_bar("Lineage")
    with frame.main():
        if frame.query.get("of"):
            await _draw_graph(frame)
        else:
            _draw_lists(frame)


def _path(of: str, chosen: dict[str, Any]) -> str:
    return f"/lineage?{urlencode({'of': of, **chosen})}"


def _draw_lists(frame: Frame) -> None:
    with ui.element("div").classes("head"):
        heading("Lineage", 1)
        words = ui.input(placeholder="Search datasets, jobs and runs", value=frame.query.get("words", ""))
        words.props("outlined dense clearable debounce=400 type=search").style("width: 320px")
    summary = ui.label().classes("soft number").props('role="status"')
    table = frame.table(_FOUND, "key", "Nothing is known by such a name")
    table.add_slot("body-cell-name", LINK)

    async def load() -> None:
        text = (words.value or "").strip()
        if len(text) >= _SHORTEST:
            found = await frame.client.get("/lineage/search", words=text)
            items, total = found["items"], found["total"]
        else:
            pages = [await frame.client.get(f"/lineage/{kind}") for kind in ("datasets", "jobs")]
            items = [each for page in pages for each in page["items"]]
            total = sum(page["total"] for page in pages)
        table.rows = [{**each, "path": _path(each["key"], _DEFAULTS)} for each in items]
        more = "" if total == len(items) else f", the first {count(len(items))} are listed: search for others"
        summary.text = f"{count(total)} found{more}"

    reload = frame.keep_fresh(load, every_s=30.0)
    words.on_value_change(reload)


async def _draw_graph(frame: Frame) -> None:
    of = frame.query["of"]
    chosen = {name: frame.query.get(name, default) for name, default in _DEFAULTS.items()}

    def choose(name: str, value: Any) -> None:
        ui.navigate.to(_path(of, {**chosen, name: value}))

    def select(name: str, options: dict[Any, str], label: str) -> None:
        value: Any = chosen[name] if name != "depth" else int(chosen[name]) if chosen[name].isdecimal() else 4
        shown = options if value in options else {**options, value: str(value)}
        each = ui.select(shown, value=value, on_change=lambda event: choose(name, event.value))
        each.props(f'outlined dense aria-label="{label}"')

    ui.add_head_html('<script src="/static/lineage.js" defer></script>')
    with ui.element("div").classes("head"):
        with ui.element("div"):
            ui.link("Lineage", "/lineage").classes("plain small")
            title = ui.label(of).classes("h1").props('role="heading" aria-level="1"')
        with ui.element("div").classes("tools"):
            select("direction", _DIRECTIONS, "Direction")
            select("by", _LEVELS, "By")
            select("depth", _DEPTHS, "Depth")
            select("since", _SINCE, "Since")
    summary = ui.label("Loading …").classes("soft number").props('role="status"')
    picture = ui.html("", sanitize=False).classes("panel lineage").props('tabindex="0" aria-label="The graph"')
    with ui.element("section").classes("part") as of_columns:
        heading("Columns", 2)
        columns = frame.table(_COLUMNS, "id", "Nobody has reported what its columns are made of", rows_per_page=25)
    of_columns.set_visibility(of.startswith("dataset:"))
    picture.set_visibility(False)

    async def load() -> None:
        found = await frame.client.get("/lineage/graph", of=of, **chosen)
        title.text = found["name"]
        summary.text = f"{count(len(found['nodes']))} nodes, {count(len(found['edges']))} edges"
        if not found["nodes"]:
            summary.text = "Nothing is known about it in this time."
        if picture.content != found["svg"]:
            picture.content = found["svg"]  # names are escaped where it is drawn
            picture.style(f"--drawn: {found['width']}px")
        picture.set_visibility(bool(found["nodes"]))
        columns.rows = [{**each, "id": number} for number, each in enumerate(found["columns"])]

    frame.keep_fresh(load, every_s=30.0)
