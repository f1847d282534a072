"""What lineage knows, as lists to search and to turn pages of. All that is chosen is in the address, to be shared."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from nicegui import ui

from penstock.console.pages.cells import LINKS, NUMBER, STATE, TIMES
from penstock.console.pages.frame import Frame, heading
from penstock.console.pages.lineage_tokens import TOKENS, Tokens, draw_tabs
from penstock.console.pages.lineage_words import (
    LOOKS,
    SINCE,
    amount,
    columns,
    graph_path,
    list_path,
    reaching,
    state,
    times,
    where,
)
from penstock.console.pages.paging import Paging

_SIZE = 50
_SHORTEST = 3
_STATES = {"": "Any state", "STARTED": "Started", "SUCCEEDED": "Succeeded", "FAILED": "Failed", "KILLED": "Killed"}


def _column(name: str, label: str, classes: str = "", **more: Any) -> dict[str, Any]:
    return {"name": name, "label": label, "field": name, "align": "left", "classes": classes, **more}


@dataclass(frozen=True)
class _Kind:
    """One of the lists."""

    label: str
    row: Callable[[dict[str, Any], Frame], dict[str, Any]]
    columns: list[dict[str, Any]]
    empty: str
    filters: dict[str, str] = field(default_factory=dict)
    """What an address may narrow the list by, and how that is said."""


def _location(each: dict[str, Any], _: Frame) -> dict[str, Any]:
    held, number = each["statistics"], each["id"]
    return {
        "id": number,
        "name": each["data"]["name"],
        "type": each["data"]["type"],
        "addresses": ", ".join(address["url"] for address in each["data"]["addresses"]),
        "external_id": each["data"]["external_id"] or "—",
        "datasets": held["datasets"]["total_datasets"],
        "datasets_path": list_path("datasets", location=number) if held["datasets"]["total_datasets"] else "",
        "jobs": held["jobs"]["total_jobs"],
        "jobs_path": list_path("jobs", location=number) if held["jobs"]["total_jobs"] else "",
    }


def _dataset(each: dict[str, Any], _: Frame) -> dict[str, Any]:
    dataset = each["data"]
    return {
        "id": each["id"],
        "name": dataset["name"],
        "name_path": graph_path(f"dataset:{each['id']}"),
        "location": where(dataset["location"]),
        "location_path": list_path("datasets", location=dataset["location"]["id"]),
        "schema": columns(dataset["schema"]),
    }


def _job(each: dict[str, Any], frame: Frame) -> dict[str, Any]:
    job, last = each["data"], each["last_run"] or {}
    return {
        "id": each["id"],
        "name": job["name"],
        "name_path": graph_path(f"job:{each['id']}", last.get("created_at")),
        "type": job["type"],
        "parent": each["parent"] or "—",
        "parent_path": graph_path(f"job:{job['parent_job_id']}") if each["parent"] else "",
        "state": state(last.get("status")),
        "look": LOOKS.get(last.get("status", ""), ""),
        **times("last", last.get("started_at") or last.get("created_at"), frame.zone),
        "last_path": list_path("runs", job=each["id"], since=reaching(last["created_at"])) if last else "",
        "location": where(job["location"]),
        "location_path": list_path("jobs", location=job["location"]["id"]),
    }


def _run(each: dict[str, Any], frame: Frame) -> dict[str, Any]:
    run, made = each["data"], each["data"]["created_at"]
    return {
        "id": each["id"],
        "job": each["job"]["name"] if each["job"] else str(each["id"]),
        "job_path": graph_path(f"run:{each['id']}", made),
        "state": state(run["status"]),
        "look": LOOKS.get(run["status"], ""),
        **times("started", run["started_at"], frame.zone),
        **times("ended", run["ended_at"], frame.zone),
        "read": amount(each["statistics"]["inputs"]),
        "written": amount(each["statistics"]["outputs"]),
        "operations": each["statistics"]["operations"]["total_operations"],
        "user": (run["started_by_user"] or {}).get("name", "—"),
        "parent": each["parent"] or "—",
        "parent_path": graph_path(f"run:{run['parent_run_id']}", made) if run["parent_run_id"] else "",
    }


def _found(each: dict[str, Any], _: Frame) -> dict[str, Any]:
    return {**each, "id": each["key"], "name_path": graph_path(each["key"])}


_RUNS = [
    _column("job", "Run of"),
    _column("state", "State"),
    _column("started", "Started"),
    _column("ended", "Ended"),
    _column("user", "User"),
    _column("parent", "Started by"),
    _column("read", "Read", "number"),
    _column("written", "Written", "number"),
    _column("operations", "Operations", align="right", **{":format": NUMBER}),
]
_KINDS = {
    "datasets": _Kind(
        "Datasets",
        _dataset,
        [
            _column("name", "Dataset"),
            _column("location", "Where", "mono"),
            _column("schema", "Columns, as last seen", "mono"),
        ],
        "No datasets",
        {"location": "In one location"},
    ),
    "jobs": _Kind(
        "Jobs",
        _job,
        [
            _column("name", "Job"),
            _column("type", "Type"),
            _column("state", "Last run"),
            _column("last", "Started"),
            _column("parent", "Started by"),
            _column("location", "Where", "mono"),
        ],
        "No jobs",
        {"location": "In one location", "parent": "Started by one job"},
    ),
    "runs": _Kind("Runs", _run, _RUNS, "No runs in this time", {"job": "Of one job", "parent": "Started by one run"}),
    "locations": _Kind(
        "Locations",
        _location,
        [
            _column("name", "Location"),
            _column("type", "Type"),
            _column("addresses", "Addresses", "mono"),
            _column("external_id", "Id elsewhere", "mono"),
            _column("datasets", "Datasets", align="right"),
            _column("jobs", "Jobs", align="right"),
        ],
        "No locations",
    ),
    "all": _Kind(
        "Everything",
        _found,
        [_column("name", "Name"), _column("kind", "Kind"), _column("where", "Where", "mono")],
        "Search for a part of a name: of a dataset, a job or a run",
    ),
}


def draw_lists(frame: Frame) -> None:
    """Draw the list that the address names, or that of the datasets."""
    kind = frame.query.get("list", "")
    if kind == TOKENS and frame.may("admin"):
        Tokens(frame).draw({name: each.label for name, each in _KINDS.items()})
        return
    _List(frame, kind if kind in _KINDS else "datasets").draw()


class _List:
    """The parts of one open list, and what is chosen in it."""

    def __init__(self, frame: Frame, kind: str) -> None:
        self.frame, self.kind, self.of = frame, kind, _KINDS[kind]
        query = frame.query
        self.paging = Paging(_SIZE, query.get("page", ""), query.get("search", ""))
        self.chosen = {name: query[name] for name in self.of.filters if query.get(name)}
        if kind == "runs":
            self.chosen |= {"since": query.get("since", "30d"), "state": query.get("state", "")}

    def draw(self) -> None:
        """Draw the names of all lists, what narrows this one, and its rows."""
        with ui.element("div").classes("head"):
            heading("Lineage", 1)
            with ui.element("div").classes("tools"):
                self.paging.draw_search("everything" if self.kind == "all" else self.of.label.lower())
        with ui.element("div").classes("head"):
            self.links = draw_tabs(self.frame, {name: each.label for name, each in _KINDS.items()}, self.kind)
            if self.kind == "runs":
                with ui.element("div").classes("tools"):
                    self._select("state", _STATES, "State")
                    self._select("since", SINCE, "Since")
        narrowed = [words for name, words in self.of.filters.items() if name in self.chosen]
        if narrowed:
            with ui.element("div").classes("tools"):
                ui.label(", ".join(narrowed)).classes("soft")
                ui.link("Show all", list_path(self.kind)).classes("plain")
        self.hint = ui.label().classes("soft number").props('role="status"')
        self.table = self.frame.table(self.of.columns, "id", self.of.empty, rows_per_page=0)
        self.table.props("hide-pagination").classes("pairs" if self.kind == "datasets" else "")
        for column in self.of.columns:
            name = column["name"]
            slot = STATE if name == "state" else TIMES if name in {"started", "ended"} else LINKS
            if "mono" not in column["classes"] or name == "location":
                self.table.add_slot(f"body-cell-{name}", slot)
        self.paging.draw_turning()
        self.reload = self.frame.keep_fresh(self.load, every_s=30.0)
        self.paging.follow(self.reload)

    def _select(self, name: str, options: dict[str, str], label: str) -> None:
        value = self.chosen[name]
        shown = options if value in options else {**options, value: value}

        async def choose(event: Any) -> None:
            self.chosen[name] = event.value
            await self.paging.begin()

        ui.select(shown, value=value, on_change=choose).props(f'outlined dense aria-label="{label}"')

    async def load(self) -> None:
        """Ask for a page, and put what was asked for into the address."""
        asked = self.paging.asked
        words = (asked.pop("search") or "").strip()
        ui.navigate.history.replace(list_path(self.kind, search=words, page=asked["page"], **self.chosen))
        for name in _KINDS:
            link = self.links[name]
            link.props["href"] = list_path(name, search=words)
            link.update()
        is_searched = len(words) >= _SHORTEST
        if self.kind == "all":
            empty: dict[str, Any] = {"total": 0, "items": []}
            found = await self.frame.client.get("/lineage/search", words=words, **asked) if is_searched else empty
        else:
            search = words if is_searched else ""
            found = await self.frame.client.get(f"/lineage/{self.kind}", search=search, **self.chosen, **asked)
        self.table.rows = [self.of.row(each, self.frame) for each in found["items"]]
        self.paging.show(len(found["items"]), found["total"])
        self.hint.text = "Words of three letters or more are searched for" if words and not is_searched else ""
        self.hint.set_visibility(bool(self.hint.text))
