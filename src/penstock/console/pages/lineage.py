"""Lineage: lists, then the graph around what was chosen. All that is chosen is in the address, to be shared."""

from typing import Any

from nicegui import ui

from penstock.console.pages.frame import Frame, heading
from penstock.console.pages.lineage_details import Details
from penstock.console.pages.lineage_lists import draw_lists
from penstock.console.pages.lineage_words import SINCE, UNTIL, defaults, graph_path, list_path
from penstock.wording import plural

_COLUMNS = [
    {"name": "column", "label": "Column", "field": "column", "align": "left", "sortable": True, "classes": "mono"},
    {"name": "source", "label": "Made of", "field": "source", "align": "left", "classes": "mono"},
    {"name": "dataset", "label": "Of", "field": "dataset", "align": "left", "classes": "mono"},
    {"name": "how", "label": "How", "field": "how", "align": "left"},
]
_DIRECTIONS = {"both": "Both ways", "upstream": "Where it comes from", "downstream": "What comes of it"}
_LEVELS = {"dataset": "Datasets alone", "job": "Jobs", "run": "Runs", "operation": "Operations"}
_DEPTHS = {number: f"{number} steps" if number > 1 else "1 step" for number in (1, 2, 4, 6, 10)}


async def draw(frame: Frame) -> None:
    """Draw the page: the graph of what the address names, or else what there is."""
    frame.draw_bar("Lineage")
    with frame.main():
        if frame.query.get("of"):
            await _draw_graph(frame)
        else:
            draw_lists(frame)


async def _draw_graph(frame: Frame) -> None:
    of = frame.query["of"]
    chosen = {name: frame.query.get(name, default) for name, default in defaults(of).items()}

    def choose(name: str, value: Any) -> None:
        ui.navigate.to(graph_path(of, **{**chosen, name: value}))

    def select(name: str, options: dict[Any, str], label: str) -> None:
        value: Any = chosen[name] if name != "depth" else int(chosen[name]) if chosen[name].isdecimal() else 4
        shown = options if value in options else {**options, value: str(value)}
        each = ui.select(shown, value=value, on_change=lambda event: choose(name, event.value))
        each.props(f'outlined dense aria-label="{label}"')

    details = Details(frame, of)
    kind = f"{details.kind}s" if details.kind in {"dataset", "job", "run"} else "runs"
    ui.add_head_html('<script src="/static/lineage.js" defer></script>')
    with ui.element("div").classes("head"):
        with ui.element("div"):
            ui.link(f"All {kind}", list_path(kind)).classes("plain small")
            title = ui.label(of).classes("h1").props('role="heading" aria-level="1"')
        with ui.element("div").classes("tools"):
            select("direction", _DIRECTIONS, "Direction")
            select("by", _LEVELS, "By")
            select("depth", _DEPTHS, "Depth")
            select("since", SINCE, "Since")
            select("until", UNTIL, "Until")
    details.draw_facts()
    summary = frame.loading_label().classes("soft number").props('role="status"')
    picture = ui.html("", sanitize=False).classes("panel lineage").props('tabindex="0" aria-label="The graph"')
    with ui.element("section").classes("part") as of_columns:
        heading("What its columns are made of", 2)
        columns = frame.table(_COLUMNS, "id", "Nobody has reported what its columns are made of", rows_per_page=25)
    of_columns.set_visibility(of.startswith("dataset:"))
    details.draw_tables()
    picture.set_visibility(False)

    async def load() -> None:
        await details.load()
        found = await frame.client.get("/lineage/graph", of=of, **chosen)
        title.text = details.title or found["name"]
        summary.text = f"{plural(len(found['nodes']), 'node')}, {plural(len(found['edges']), 'edge')}"
        if not found["nodes"]:
            summary.text = "Nothing is known about it in this time."
        if picture.content != found["svg"]:
            picture.content = found["svg"]  # names are escaped where it is drawn
            picture.style(f"--drawn: {found['width']}px")
        picture.set_visibility(bool(found["nodes"]))
        columns.rows = [
            {**each, "id": number, "how": each["how"].replace("_", " ").lower()}
            for number, each in enumerate(found["columns"])
        ]

    details.paging.follow(frame.keep_fresh(load, every_s=30.0))
