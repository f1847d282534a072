"""What is known of one dataset, job, run or operation, around its graph."""

from typing import Any
from urllib.parse import quote

from nicegui import ui

from penstock.console.pages.cells import LINKS, NUMBER, STATE, TIMES
from penstock.console.pages.frame import Frame, heading
from penstock.console.pages.lineage_words import LOOKS, amount, graph_path, list_path, state, times, where
from penstock.console.pages.paging import Paging
from penstock.console.pages.wording import size

Fact = tuple[str, str, str]
"""Its name, what it is, and where that leads, if anywhere. What is not known is left out."""
_SIZE = 25
_SQL_SHOWN = 120


def _column(name: str, label: str, classes: str = "", **more: Any) -> dict[str, Any]:
    return {"name": name, "label": label, "field": name, "align": "left", "classes": classes, **more}


_SCHEMA = [
    _column("name", "Column", "mono"),
    _column("type", "Type", "mono"),
    _column("description", "What it is", "words"),
]
_MOVED = [
    _column("name", "Dataset"),
    _column("where", "Where", "mono"),
    _column("rows", "Rows", align="right", **{":format": NUMBER}),
    _column("bytes", "Bytes", align="right"),
    _column("files", "Files", align="right", **{":format": NUMBER}),
    _column("how", "How"),
    _column("last", "Last"),
]
_RELATIVES = [
    _column("name", "Job"),
    _column("relation", "Relation"),
    _column("type", "Type"),
    _column("where", "Where", "mono"),
]
_OPERATIONS = [
    _column("position", "Position", align="right"),
    _column("name", "Operation"),
    _column("state", "State"),
    _column("started", "Started"),
    _column("ended", "Ended"),
    _column("read", "Read", "number"),
    _column("written", "Written", "number"),
    _column("sql", "SQL", "mono"),
]


class Details:
    """The parts around one graph. They say what is on record, whatever time the graph is of."""

    def __init__(self, frame: Frame, of: str) -> None:
        self.frame, self.of = frame, of
        self.kind, _, self.id = of.partition(":")
        self.kind = self.kind.lower()
        self.title = ""
        """What it is called, as soon as that is known."""
        self.exact: dict[str, str] = {}
        """Times as they are shown, and exactly."""
        self.paging = Paging(_SIZE)

    def draw_facts(self) -> None:
        """Draw what is above the graph."""
        self.facts = ui.element("dl").classes("facts")

    def draw_tables(self) -> None:
        """Draw what is below the graph."""
        if self.kind == "operation":
            with ui.element("section").classes("part") as self.of_sql:
                heading("SQL", 2)
                self.sql = ui.label().classes("mono whole panel text").props('tabindex="0"')
            self.of_sql.set_visibility(False)
        if self.kind == "dataset":
            self.schema = self._table("Columns", _SCHEMA, "Nobody has reported its columns")
        if self.kind == "job":
            self.relatives = self._table(
                "Jobs around it", _RELATIVES, "It starts none and waits for none, as far as is known"
            )
        if self.kind in {"run", "operation"}:
            self.inputs = self._table("Read", _MOVED, "Nothing, as far as is known")
            self.outputs = self._table("Written", _MOVED, "Nothing, as far as is known")
        if self.kind == "run":
            self.operations = self._table("Operations", _OPERATIONS, "Nobody has reported its operations", pages=False)
            self.paging.draw_turning()

    def _table(self, title: str, columns: list[dict[str, Any]], empty: str, *, pages: bool = True) -> Any:
        with ui.element("section").classes("part"):
            heading(title, 2)
            table = self.frame.table(columns, "id", empty, rows_per_page=_SIZE if pages else 0)
            if not pages:
                table.props("hide-pagination")
            for name in ("name", "relation"):
                table.add_slot(f"body-cell-{name}", LINKS)
            table.add_slot("body-cell-state", STATE)
            for name in ("started", "ended", "last"):
                table.add_slot(f"body-cell-{name}", TIMES)
        return table

    async def load(self) -> None:
        """Ask for everything."""
        if self.kind not in {"dataset", "job", "run", "operation"}:
            return
        found = await self.frame.client.get(f"/lineage/{self.kind}s/{quote(self.id, safe='')}")
        facts: list[Fact] = getattr(self, f"_{self.kind}")(found)
        self.facts.clear()
        with self.facts:
            for name, value, path in facts:
                if value:
                    with ui.element("div"):
                        with ui.element("dt"):
                            ui.label(name).classes("soft small")
                        with ui.element("dd"):
                            shown = ui.link(value, path).classes("plain") if path else ui.label(value)
                            shown.props["title"] = self.exact.get(value, "")
        if self.kind == "run":
            await self._load_operations()

    def _dataset(self, found: dict[str, Any]) -> list[Fact]:
        dataset = found["data"]
        self.title = dataset["name"]
        fields = _flat((dataset["schema"] or {"fields": []})["fields"])
        self.schema.rows = [{**each, "id": number} for number, each in enumerate(fields)]
        tags = ", ".join(f"{tag['name']}: {value['value']}" for tag in found["tags"] for value in tag["values"])
        place = dataset["location"]
        return [
            ("Where", where(place), list_path("datasets", location=place["id"])),
            ("Id elsewhere", dataset["external_id"] or "", ""),
            ("Tags", tags, ""),
        ]

    def _job(self, found: dict[str, Any]) -> list[Fact]:
        job, last = found["job"]["data"], found["job"]["last_run"]
        self.title = job["name"]
        kinds = {"Is started by it": "children", "Comes before it": "waits_for", "Comes after it": "is_waited_for_by"}
        listed = [
            *(("Starts it" if not far else "Starts that", each) for far, each in enumerate(found["parents"])),
            *((words, each) for words, name in kinds.items() for each in found[name]),
        ]
        self.relatives.rows = [
            {
                "id": number,
                "name": each["name"],
                "name_path": graph_path(f"job:{each['id']}"),
                "relation": words,
                "type": each["type"],
                "where": where(each["location"]),
            }
            for number, (words, each) in enumerate(listed)
        ]
        place = job["location"]
        return [
            ("Type", job["type"], ""),
            ("Where", where(place), list_path("jobs", location=place["id"])),
            *[("Started by", each["name"], graph_path(f"job:{each['id']}")) for each in found["parents"][:1]],
            *(self._last(last) if last else [("Last run", "none is known", "")]),
            ("Runs", "All of them", list_path("runs", job=self.id, since="365d")),
        ]

    def _last(self, run: dict[str, Any]) -> list[Fact]:
        at = times("at", run["started_at"] or run["created_at"], self.frame.zone)["at"]
        path = graph_path(f"run:{run['id']}", run["created_at"])
        return [("Last run", f"{state(run['status'])}, {at}", path)]

    def _run(self, found: dict[str, Any]) -> list[Fact]:
        run, job, made = found["run"]["data"], found["run"]["job"], found["run"]["data"]["created_at"]
        self.title = f"Run of {job['name']}" if job else f"Run {run['id']}"
        self._fill(found)
        parent = graph_path(f"run:{run['parent_run_id']}", made) if run["parent_run_id"] else ""
        return [
            ("State", state(run["status"]), ""),
            *self._span(run),
            ("Job", job["name"] if job else "", graph_path(f"job:{job['id']}", made) if job else ""),
            ("Started by", found["run"]["parent"] or ("another run" if parent else ""), parent),
            ("Runs that it started", "Show them", list_path("runs", parent=run["id"], since="365d")),
            ("User", (run["started_by_user"] or {}).get("name", ""), ""),
            ("Why", run["start_reason"] or "", ""),
            ("Attempt", run["attempt"] or "", ""),
            ("Ended because", run["end_reason"] or "", ""),
            ("Its own id", run["external_id"] or "", ""),
            ("Log", run["persistent_log_url"] or run["running_log_url"] or "", ""),  # somebody else's: no link
        ]

    def _operation(self, found: dict[str, Any]) -> list[Fact]:
        operation, run = found["operation"]["data"], found["run"]
        self.title = operation["name"]
        self._fill(found)
        self.of_sql.set_visibility(bool(operation["sql_query"]))
        self.sql.text = operation["sql_query"] or ""
        name = (run["job"] or {}).get("name", run["id"]) if run else ""
        return [
            ("State", state(operation["status"]), ""),
            *self._span(operation),
            ("Run of", name, graph_path(f"run:{run['id']}", run["data"]["created_at"]) if run else ""),
            ("Type", operation["type"].lower(), ""),
            ("Group", operation["group"] or "", ""),
            ("What it is", operation["description"] or "", ""),
        ]

    def _span(self, each: dict[str, Any]) -> list[Fact]:
        found: list[Fact] = []
        for label, name in (("Started", "started_at"), ("Ended", "ended_at")):
            at = times("at", each[name], self.frame.zone)
            self.exact[at["at"]] = at["at_exactly"]
            found.append((label, at["at"], ""))
        return found

    def _fill(self, found: dict[str, Any]) -> None:
        """Show what was read and written."""
        for table, name in ((self.inputs, "inputs"), (self.outputs, "outputs")):
            table.rows = [
                {
                    **each,
                    "id": each["key"],
                    "name_path": graph_path(each["key"], each["last_at"]),
                    "bytes": size(each["bytes"]),
                    "how": ", ".join(each["how"]).lower() or "—",
                    **times("last", each["last_at"], self.frame.zone),
                }
                for each in found[name]
            ]

    async def _load_operations(self) -> None:
        found = await self.frame.client.get("/lineage/operations", run=self.id, **self.paging.asked)
        self.paging.show(len(found["items"]), found["total"])
        self.operations.rows = [
            {
                "id": each["id"],
                "position": each["data"]["position"],
                "name": each["data"]["name"],
                "name_path": graph_path(f"operation:{each['id']}", each["data"]["created_at"]),
                "state": state(each["data"]["status"]),
                "look": LOOKS.get(each["data"]["status"], ""),
                **times("started", each["data"]["started_at"], self.frame.zone),
                **times("ended", each["data"]["ended_at"], self.frame.zone),
                "read": amount(each["statistics"]["inputs"]),
                "written": amount(each["statistics"]["outputs"]),
                "sql": _one_line(each["data"]["sql_query"]),
            }
            for each in found["items"]
        ]


def _flat(fields: list[dict[str, Any]], before: str = "") -> list[dict[str, str]]:
    """Return columns with those inside of them, by their whole names."""
    found: list[dict[str, str]] = []
    for each in fields:
        name = f"{before}{each['name']}"
        found.append({"name": name, "type": each["type"] or "—", "description": each["description"] or ""})
        found += _flat(each["fields"], f"{name}.")
    return found


def _one_line(sql: str | None) -> str:
    text = " ".join((sql or "—").split())
    return text if len(text) <= _SQL_SHOWN else f"{text[:_SQL_SHOWN]} …"
