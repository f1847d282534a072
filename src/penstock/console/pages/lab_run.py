"""One run of the lab: what it does now, its cluster beside it, its verdict, the podium beside the truth."""

import secrets
import time
from typing import Any

from nicegui import ui

from penstock.console.pages.cells import NUMBER, STATE
from penstock.console.pages.charts import lag_chart, show_lag
from penstock.console.pages.frame import Frame, figures_in, heading
from penstock.console.pages.lab_words import LOOKS, WORDS, chosen, standing_rows
from penstock.console.pages.nodes import node_row
from penstock.console.pages.paths import run_path
from penstock.console.pages.wording import count, moment

_EVERY_S = 2.0
_MOST_POINTS = 300
_NODES = [
    {"name": "node", "label": "Node", "field": "node", "align": "left"},
    {"name": "state", "label": "State", "field": "state", "align": "left"},
    {"name": "role", "label": "Role", "field": "role", "align": "left"},
    {"name": "leads", "label": "Leads", "field": "leads", "align": "right", ":format": NUMBER},
    {"name": "lacking", "label": "Not in sync", "field": "lacking", "align": "right", ":format": NUMBER},
    {"name": "memory", "label": "Memory", "field": "memory", "align": "right"},
]
_TOPICS = [
    {"name": "topic", "label": "Topic", "field": "topic", "align": "left"},
    {"name": "records", "label": "Records", "field": "records", "align": "right", ":format": NUMBER},
    {"name": "lacking", "label": "Lack a replica", "field": "lacking", "align": "right", ":format": NUMBER},
]
_GROUPS = [
    {"name": "group", "label": "Group", "field": "group", "align": "left"},
    {"name": "state", "label": "State", "field": "state", "align": "left"},
    {"name": "lag", "label": "Lag", "field": "lag", "align": "right", ":format": NUMBER},
]
_STANDINGS = [
    {"name": "user", "label": "Player", "field": "user", "align": "left"},
    {"name": "true_wins", "label": "Wins, truth", "field": "true_wins", "align": "right", ":format": NUMBER},
    {"name": "wins", "label": "Wins, podium", "field": "wins", "align": "right", ":format": NUMBER},
    {"name": "true_damage", "label": "Damage, truth", "field": "true_damage", "align": "right", ":format": NUMBER},
    {"name": "damage", "label": "Damage, podium", "field": "damage", "align": "right", ":format": NUMBER},
    {"name": "true_games", "label": "Games, truth", "field": "true_games", "align": "right", ":format": NUMBER},
    {"name": "games", "label": "Games, podium", "field": "games", "align": "right", ":format": NUMBER},
    {"name": "state", "label": "Compared", "field": "state", "align": "left"},
]
_STANDING = "standings"
_TITLES = {
    "differences": "What went wrong",
    _STANDING: "The podium beside the truth",
    "steps": "Steps",
    "sinks": "Where it landed",
    "facts": "What happened on the way",
    "ways": "What it was like to send",
    "accounts": "The store beside the truth",
    "reasons": "Dead letters by reason",
}
_SAID = {
    "right": ("good", "Everything came out as it went in, and what the scenario shows did happen."),
    "wrong": ("error", "Something is not as it should be: see below."),
    "stopped": ("", "It was stopped, together with all that it had started."),
}
_BY_HAND = {"players": ("Players", 2, 1_000), "workers": ("Workers", 1, 4)}
_FIGURES = {"events": "Events", "games": "Games", "players": "Players", "malformed": "Malformed"}


async def draw(frame: Frame, run_id: str) -> None:
    """Draw one run."""
    page = _Run(frame, run_id)
    frame.draw_bar("Lab")
    with frame.main():
        page.draw()
    page.reload = frame.keep_fresh(page.load, _EVERY_S)


class _Run:
    """The parts of one open page, and what they do."""

    def __init__(self, frame: Frame, run_id: str) -> None:
        self.frame, self.path = frame, run_path(run_id)
        self.points: list[dict[str, float | None]] = []
        self.reload: Any = None
        self.has_verdict = False

    def draw(self) -> None:
        """Draw the name, what can be done, the verdict, the cluster and the output."""
        frame = self.frame
        with ui.element("div").classes("head"):
            with ui.element("div"):
                self.name = ui.label("Run").classes("h1").props('role="heading" aria-level="1"')
                self.options = ui.label().classes("soft")
            if frame.may("operator"):
                self.stop = ui.button("Stop", on_click=self.end).props("outline color=negative no-caps")
                self.stop.set_visibility(False)
        self.said = ui.element("div").props('role="status"')
        self._draw_scale()
        self.figures = ui.element("section").classes("figures")
        self.verdict = ui.element("div").classes("parts")
        with ui.element("section").classes("part") as self.cluster:
            heading("Its cluster", 2)
            self.chart = lag_chart()
            self.nodes = frame.table(_NODES, "node", "Its cluster is not there")
            self.nodes.add_slot("body-cell-state", STATE)
            with ui.element("div").classes("columns"):
                self.topics = frame.table(_TOPICS, "topic", "No topics yet")
                self.groups = frame.table(_GROUPS, "group", "Nobody reads yet")
        with ui.element("section").classes("part"):
            heading("Output", 2)
            self.output = ui.label("Nothing yet.").classes("panel mono whole").style("padding: 12px 16px")

    def _draw_scale(self) -> None:
        """Draw how many there are; each only while it can be changed."""
        self.numbers = {}
        with ui.element("div").classes("tools") as self.scale:
            for name, (label, least, most) in _BY_HAND.items():
                self.numbers[name] = ui.number(label, min=least, max=most, precision=0).props("outlined dense")
                self.numbers[name].style("width: 112px")
            ui.button("Scale", on_click=self.do_scale).props("outline color=primary no-caps")
        self.scale.set_visibility(False)

    def _show_scale(self, run: dict[str, Any]) -> None:
        may = self.frame.may("operator") and bool(run["by_hand"])
        if may and not self.scale.visible:  # not while somebody types
            for name, number in self.numbers.items():
                number.set_visibility(name in run["by_hand"])
                number.value = run["scale"][name] or run["options"].get(name)
        self.scale.set_visibility(may)

    async def do_scale(self) -> None:
        """Say how many there should be."""
        body = {name: None if each.value is None else int(each.value) for name, each in self.numbers.items()}
        action_id = self.frame.clicks.action_id(f"scale {body}")
        path, client = f"{self.path}/scale", self.frame.client
        done = "Accepted: it changes in a moment"
        await self.frame.act(lambda: client.act("POST", path, body, action_id=action_id), done)

    async def load(self) -> None:
        """Ask for the run and, while it goes on, for its cluster."""
        found = await self.frame.client.get(self.path)
        run = found["run"]
        is_running = run["state"] == "running"
        self.name.text = f"{run['name']} ({run['kind']})"
        self.options.text = f"With {chosen(run['options'])}" if run["options"] else ""
        self._show_figures(run, found["verdict"])
        self._say(run)
        self._show_scale(run)
        self.output.text = "\n".join(found["output"]) or "It has said nothing yet."
        if self.frame.may("operator"):
            self.stop.set_visibility(is_running)
        if is_running:
            self._show_cluster(await self.frame.client.get(f"{self.path}/cluster"))
        self.cluster.set_visibility(is_running or bool(self.points))
        if found["verdict"] and not is_running and not self.has_verdict:
            self.has_verdict = True
            with self.verdict:
                _draw_tables(found["verdict"]["tables"])

    def _show_figures(self, run: dict[str, Any], verdict: dict[str, Any] | None) -> None:
        ended = run["ended"] or time.time()
        shown = [
            ("State", WORDS[run["state"]]),
            ("Started", moment(run["started"], self.frame.zone)[11:]),
            ("Took" if run["ended"] else "For", f"{max(0.0, ended - run['started']):,.0f} s"),
        ]
        figures = verdict["figures"] if verdict else {}
        shown += [(label, count(figures[name])) for name, label in _FIGURES.items() if name in figures]
        figures_in(self.figures, shown)

    def _say(self, run: dict[str, Any]) -> None:
        """Say what it does now, or how it ended."""
        self.said.clear()
        if run["state"] == "running":
            level, text = "good", run["now"] or "It is starting."
        elif run["state"] == "failed":
            level, text = "error", run["reason"]
        else:
            level, text = _SAID[run["state"]]
        with self.said, ui.element("div").classes(f"concern {level}"):
            ui.label("Now" if run["state"] == "running" else "End").classes(f"mark {LOOKS[run['state']]}")
            ui.label(text).classes("words")

    def _show_cluster(self, found: dict[str, Any]) -> None:
        """Show the cluster; one that is gone stays as it was seen last."""
        if not found["is_there"]:
            return
        self.nodes.rows = [node_row(each) for each in found["nodes"]["nodes"]]
        self.topics.rows, self.groups.rows = found["topics"], found["groups"]
        records = sum(each["records"] for each in found["topics"])
        # Before anybody has read there is no lag to tell, which is not the same as none.
        lag = sum(each["lag"] for each in found["groups"]) if found["groups"] else None
        self.points = [*self.points, {"at": time.time(), "records": records, "lag": lag}][-_MOST_POINTS:]
        show_lag(self.chart, self.points, self.frame.zone)

    async def end(self) -> None:
        """Stop it; that takes as long as its servers do."""
        self.stop.disable()
        ui.notify("Stopping it and its servers …")
        action_id = secrets.token_hex(16)
        path = f"{self.path}/stop"
        await self.frame.act(lambda: self.frame.client.act("POST", path, action_id=action_id), "It is stopped")
        self.stop.enable()
        await self.reload()


def _draw_tables(tables: dict[str, list[dict[str, Any]]]) -> None:
    """Draw what came out, each kind as a table; what is empty is left out."""
    for name, title in _TITLES.items():
        rows = tables.get(name)
        if not rows:
            continue
        with ui.element("section").classes("part"):
            heading(title, 2)
            if name == _STANDING:
                drawn = ui.table(columns=_STANDINGS, rows=standing_rows(rows), row_key="user")
                drawn.add_slot("body-cell-state", STATE)
            else:
                drawn = ui.table(columns=_columns(rows[0]), rows=[_plain(each) for each in rows])
            drawn.props("flat dense hide-pagination").props["rows-per-page-options"] = "[0]"


def _columns(row: dict[str, Any]) -> list[dict[str, Any]]:
    """Make columns of what a row has: numbers to the right, the rest as text."""
    return [
        {
            "name": name,
            "label": name.replace("_", " ").capitalize(),
            "field": name,
            "align": "right" if _is_number(value) else "left",
            **({":format": NUMBER} if _is_number(value) else {"classes": "words"}),
        }
        for name, value in row.items()
    ]


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _plain(row: dict[str, Any]) -> dict[str, Any]:
    """Write lists and truths as words."""
    return {name: _word(value) for name, value in row.items()}


def _word(value: Any) -> Any:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "; ".join(map(str, value)) if isinstance(value, list) else value
