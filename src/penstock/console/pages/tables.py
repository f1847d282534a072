"""Landed tables: the list; one with its columns, versions and first rows, and the record of each."""

from collections.abc import Callable
from typing import Any

import orjson
from nicegui import ui

from penstock.console.pages.cells import LINK, TIME
from penstock.console.pages.frame import Frame, figures_in, heading
from penstock.console.pages.paths import pipeline_path, record_path, table_path
from penstock.console.pages.wording import count, moment_of_text, size

_SHORT = 120
_NEWEST = "Newest version"
_TABLES = [
    {"name": "table", "label": "Table", "field": "table", "align": "left", "sortable": True},
    {"name": "format", "label": "Format", "field": "format", "align": "left", "sortable": True},
    {"name": "pipelines", "label": "Written by", "field": "pipelines", "align": "left"},
    {"name": "version", "label": "Version", "field": "version", "align": "right"},
    {"name": "at", "label": "Last commit", "field": "at", "align": "left", "sortable": True},
]
_COLUMNS = [
    {"name": "name", "label": "Column", "field": "name", "align": "left"},
    {"name": "type", "label": "Type", "field": "type", "align": "left", "classes": "mono"},
    {"name": "null", "label": "May be null", "field": "null", "align": "left"},
]
_VERSIONS = [
    {"name": "version", "label": "Version", "field": "version", "align": "right"},
    {"name": "at", "label": "Committed", "field": "at", "align": "left"},
    {"name": "operation", "label": "Operation", "field": "operation", "align": "left"},
]
_ORIGIN = """
<q-td :props="props"><a v-if="props.row.path" class="plain" :href="props.row.path">{{ props.value }}</a>
<span v-else class="soft">{{ props.value }}</span></q-td>
"""


async def draw_list(frame: Frame) -> None:
    """Draw the list."""
    frame.draw_bar("Tables")
    with frame.main():
        heading("Tables", 1)
        table = frame.table(_TABLES, "table", "No tables yet: a delta or iceberg sink makes one with its first batch")
        table.add_slot("body-cell-table", LINK)
        table.add_slot("body-cell-at", TIME)

    async def load() -> None:
        table.rows = [
            {
                **each,
                "path": table_path(each["table"]),
                "pipelines": ", ".join(each["pipelines"]) or "—",
                "version": each["version"] or "—",
                "at": moment_of_text(each["at"], frame.zone) if each["at"] else each["problem"],
                "exactly": each["at"],
            }
            for each in await frame.client.get("/tables")
        ]

    frame.keep_fresh(load)


async def draw(frame: Frame, table: str) -> None:
    """Draw one table."""
    page = _Table(frame, table)
    frame.draw_bar("Tables")
    with frame.main():
        page.draw()
    page.reload = frame.keep_fresh(page.load)


class _Table:
    """The parts of one open page, and what they show."""

    def __init__(self, frame: Frame, table: str) -> None:
        self.frame, self.table = frame, table
        self.reload: Callable[[], Any]
        self.shown: tuple[str, str] | None = None
        """The newest version when the page was loaded, and the one whose rows are shown."""

    def draw(self) -> None:
        """Draw the name, figures, rows of one version, columns and versions."""
        frame, asked = self.frame, self.frame.query.get("version", "")
        heading(self.table, 1)
        self.figures = ui.element("section").classes("figures")
        self.writers = ui.element("div").classes("tools")
        with ui.element("section").classes("part"):
            with ui.element("div").classes("head"):
                heading("First rows", 2)
                options = {"": _NEWEST, **({asked: _named(asked)} if asked else {})}
                self.version = ui.select(options, value=asked, on_change=self.choose)
                self.version.props('outlined dense options-dense aria-label="Version"')
            self.rows = frame.table([], "id", "No rows", rows_per_page=10)
            self.rows.add_slot("body-cell-origin", _ORIGIN)
        with ui.element("div").classes("columns"):
            with ui.element("section").classes("part"):
                heading("Columns", 2)
                self.columns = frame.table(_COLUMNS, "name", "No columns", rows_per_page=25)
            with ui.element("section").classes("part"):
                heading("Versions", 2)
                self.versions = frame.table(_VERSIONS, "version", "No commit yet", rows_per_page=10)
                self.versions.add_slot("body-cell-at", TIME)

    async def choose(self) -> None:
        """Show the rows of the version that was chosen."""
        self.frame.keep_address(table_path(self.table), version=self.version.value)
        await self.reload()

    async def load(self) -> None:
        """Ask for everything, if anything was committed or chosen since."""
        found = await self.frame.client.get("/tables/detail", table=self.table)
        if self.shown == (found["version"], self.version.value):
            return
        self._show(found)
        some = await self.frame.client.get("/tables/rows", table=self.table, version=self.version.value)
        self.rows.columns = _row_columns(
            list(some[0]["values"]) if some else [], has_origins=any(each["origin"] for each in some)
        )
        self.rows.rows = [_row(number, each) for number, each in enumerate(some)]
        self.shown = found["version"], self.version.value

    def _show(self, found: dict[str, Any]) -> None:
        zone = self.frame.zone
        shown = [
            ("Rows", count(found["rows"])),
            ("Files", count(found["files"])),
            ("On disk", size(found["bytes"])),
            ("Version", _short(found["version"])),
            ("Format", found["format"].capitalize()),
        ]
        figures_in(self.figures, shown)
        _show_writers(self.writers, found)
        self.columns.rows = [{**each, "null": "yes" if each["is_nullable"] else "no"} for each in found["columns"]]
        self.versions.rows = [
            {**each, "at": moment_of_text(each["at"], zone), "exactly": each["at"]} for each in found["versions"]
        ]
        older = {each["version"]: f"{_named(each['version'])}, {each['at']}" for each in self.versions.rows[1:]}
        chosen = self.version.value
        self.version.set_options({"": _NEWEST, **({chosen: _named(chosen)} if chosen else {}), **older}, value=chosen)


def _show_writers(place: Any, found: dict[str, Any]) -> None:
    place.clear()
    with place:
        ui.label(found["path"]).classes("mono soft")
        for each in found["pipelines"]:
            ui.label("written by").classes("soft")
            ui.link(each, pipeline_path(each)).classes("plain")


def _row_columns(own: list[str], *, has_origins: bool) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = [
        {"name": f"c{number}", "label": name, "field": f"c{number}", "align": "left", "classes": "mono"}
        for number, name in enumerate(own)
    ]
    origin = {"name": "origin", "label": "Made of the record", "field": "origin", "align": "left"}
    return [origin, *found] if has_origins else found


def _row(number: int, row: dict[str, Any]) -> dict[str, Any]:
    shown: dict[str, Any] = {f"c{at}": _cell(value) for at, value in enumerate(row["values"].values())}
    origin = row["origin"]
    if origin is not None:
        name = origin["topic"] or f"topic {origin['topic_id']}"
        shown["origin"] = f"{name}/{origin['partition']} at {origin['offset']}"
        if origin["topic"] is not None:
            shown["path"] = record_path(origin["topic"], origin["partition"], origin["offset"])
    return {"id": number, **shown}


def _cell(value: Any) -> str:
    if value is None:
        return "null"
    text = value if isinstance(value, str) else orjson.dumps(value).decode()
    return text if len(text) <= _SHORT else f"{text[:_SHORT]}…"


def _named(version: str) -> str:
    return f"Version {_short(version)}"


def _short(version: str) -> str:
    """Cut the id of a snapshot, which nobody reads whole."""
    return version if len(version) <= 8 else f"…{version[-6:]}"  # noqa: PLR2004 - more does not fit
