"""Nodes: the list, with what lacks a replica; one with its settings and log, and starting and stopping it."""

import secrets
from collections.abc import Callable
from typing import Any

from nicegui import ui

from penstock.console.pages.cells import LINK, NUMBER, STATE
from penstock.console.pages.dialogs import ask, ends
from penstock.console.pages.frame import UNKNOWN, Frame, figures_in, heading, log_panel
from penstock.console.pages.rebalance import RebalanceDialog
from penstock.console.pages.wording import count, size

_NODES = [
    {"name": "node", "label": "Node", "field": "node", "align": "left", "sortable": True},
    {"name": "state", "label": "State", "field": "state", "align": "left"},
    {"name": "role", "label": "Role", "field": "role", "align": "left"},
    {"name": "address", "label": "Address", "field": "address", "align": "left", "classes": "mono"},
    {"name": "leads", "label": "Leads", "field": "leads", "align": "right", "sortable": True, ":format": NUMBER},
    {"name": "replicas", "label": "Replicas", "field": "replicas", "align": "right", ":format": NUMBER},
    {"name": "lacking", "label": "Not in sync", "field": "lacking", "align": "right", ":format": NUMBER},
    {"name": "data", "label": "Data", "field": "data", "align": "right"},
    {"name": "free", "label": "Free on disk", "field": "free", "align": "right"},
    {"name": "memory", "label": "Memory", "field": "memory", "align": "right"},
]
_LACKING = [
    {"name": "partition", "label": "Partition", "field": "partition", "align": "left"},
    {"name": "what", "label": "What it lacks", "field": "what", "align": "left"},
]
_COMPLETE = "Every partition has a leader and all of its replicas"
_DEFAULTS = "Every setting is Kafka's default"
_SETTINGS = [
    {"name": "name", "label": "Setting", "field": "name", "align": "left", "sortable": True},
    {"name": "value", "label": "Value", "field": "value", "align": "left", "classes": "mono"},
    {"name": "own", "label": "From", "field": "own", "align": "left", "sortable": True},
]


async def draw_list(frame: Frame) -> None:
    """Draw the list."""
    frame.draw_bar("Nodes")
    with frame.main():
        with ui.element("div").classes("head"):
            heading("Nodes", 1)
            with ui.element("div").classes("tools") as tools:
                move = ui.button("Rebalance", on_click=lambda: RebalanceDialog(frame, reload).open())
                move.props("flat color=primary no-caps")
                ui.button("Add a node", on_click=lambda: _add(frame, reload)).props("outline color=primary no-caps")
            tools.set_visibility(False)
        problem = ui.element("div")
        table = frame.table(_NODES, "node", "No node is known")
        table.add_slot("body-cell-node", LINK)
        table.add_slot("body-cell-state", STATE)
        with ui.element("section").classes("part"):
            heading("Partitions without a leader or a replica", 2)
            lacking = frame.table(_LACKING, "partition", _COMPLETE)

    async def load() -> None:
        found = await frame.client.get("/nodes")
        tools.set_visibility(found["is_local"] and frame.may("admin"))
        rows = [node_row(each) for each in found["nodes"]]
        table.rows = [{**each, "path": frame.address(each["path"])} for each in rows]
        lacking.rows = [{"partition": each, "what": "a leader"} for each in found["offline"]]
        lacking.rows += [
            {"partition": each, "what": "a replica"}
            for each in found["under_replicated"]
            if each not in found["offline"]
        ]
        frame.when_empty(lacking, UNKNOWN if found["problem"] else _COMPLETE)
        _show_problem(problem, found["problem"])

    reload: Callable[[], Any] = frame.keep_fresh(load)


def _show_problem(place: Any, text: str) -> None:
    place.clear()
    if text:
        with place, ui.element("div").classes("concern error"):
            ui.label("Error").classes("mark")
            ui.label(text[:1].upper() + text[1:]).classes("words")


def node_row(each: dict[str, Any]) -> dict[str, Any]:
    """Return a node as a row of a table."""
    broker, local, disk = each["broker"] or {}, each["local"] or {}, each["disk"] or {}
    state = "up" if broker else "starting" if local.get("state") == "running" else "down"
    role = local.get("role", "broker")
    address = f"{broker['host']}:{broker['port']}" if broker else f"port {local['port']}" if local else "—"
    return {
        "node": str(each["node"]),
        "path": f"/nodes/{each['node']}",
        "state": state,
        "look": {"up": "good", "starting": "warn", "down": "bad"}[state],
        "role": f"{role}, answers for the controller" if each["is_controller"] else role,
        "address": address,
        **{name: broker.get(name) for name in ("leads", "replicas", "lacking")},
        "data": size(disk.get("data_bytes")),
        "free": size(disk.get("free_bytes")),
        "memory": "—" if local.get("memory_mb") is None else f"{local['memory_mb']} MB",
    }


def _add(frame: Frame, reload: Any) -> None:
    action_id = secrets.token_hex(16)
    dialog, card = ask("Add a node", "A broker joins the cluster. It holds nothing until partitions are moved to it.")
    with card:

        async def do() -> None:
            done = await frame.act(lambda: frame.client.act("POST", "/nodes", action_id=action_id), "A node was added")
            if done is not None:
                dialog.close()
                await reload()

        ends(dialog, "Add", do)


async def draw(frame: Frame, node: str) -> None:
    """Draw one node."""
    page = _Node(frame, node)
    frame.draw_bar("Nodes")
    with frame.main():
        page.draw()
    page.reload = frame.keep_fresh(page.load)
    page.own_only.on_value_change(page.reload)


class _Node:
    """The parts of one open page, and what they do."""

    def __init__(self, frame: Frame, node: str) -> None:
        self.frame, self.node, self.path = frame, node, f"/nodes/{node}"
        self.reload: Any = None

    def draw(self) -> None:
        """Draw the name, what can be done, figures, settings and the log."""
        with ui.element("div").classes("head"):
            heading(f"Node {self.node}", 1)
            with ui.element("div").classes("tools"):
                self.stop = ui.button("Stop", on_click=lambda: self.sure("stop")).props("flat color=negative no-caps")
                self.restart = ui.button("Restart", on_click=lambda: self.sure("restart"))
                self.restart.props("outline color=primary no-caps")
        for button in (self.stop, self.restart):
            button.set_visibility(False)
        self.figures = ui.element("section").classes("figures")
        with ui.element("section").classes("part"):
            with ui.element("div").classes("head"):
                heading("Settings", 2)
                self.own_only = ui.checkbox("Only those that differ from the default", value=True)
            self.settings = self.frame.table(_SETTINGS, "name", _DEFAULTS)
            self.settings.classes("pairs")
        with ui.element("section").classes("part") as self.log_part:
            heading("Log", 2)
            self.log = log_panel()

    async def load(self) -> None:
        """Ask for everything; a node that is down still has its log."""
        client = self.frame.client
        found = await client.get("/nodes")
        mine = next((each for each in found["nodes"] if str(each["node"]) == self.node), None)
        if mine is None:
            self.figures.clear()
            return
        row, is_local = node_row(mine), mine["local"] is not None
        figures_in(
            self.figures,
            [
                ("State", row["state"]),
                ("Leads", count(row["leads"])),
                ("Replicas", count(row["replicas"])),
                ("Not in sync", count(row["lacking"])),
                ("Data", row["data"]),
                ("Free on disk", row["free"]),
            ],
        )
        self.restart.text = "Restart" if row["state"] != "down" else "Start"
        self.restart.set_visibility(is_local and self.frame.may("admin"))
        self.stop.set_visibility(is_local and self.frame.may("admin") and row["state"] != "down")
        self.log_part.set_visibility(is_local)
        if is_local:
            lines = (await client.get(f"{self.path}/log"))["lines"]
            self.log.text = "\n".join(lines) or "This log is empty."
        self.frame.when_empty(self.settings, _DEFAULTS if row["state"] == "up" else UNKNOWN)
        if row["state"] == "up":
            self.settings.rows = [
                {**each, "value": "secret" if each["value"] is None else each["value"], "own": _from(each)}
                for each in await client.get(f"{self.path}/settings")
                if each["is_own"] or not self.own_only.value
            ]

    def sure(self, what: str) -> None:
        """Ask whether it is meant, then do it."""
        action_id = secrets.token_hex(16)
        text = "Its data stay. What only it has cannot be read or written until it is back."
        title = f"{self.restart.text if what == 'restart' else 'Stop'} node {self.node}"
        dialog, card = ask(title, text)
        with card:

            async def do() -> None:
                path, done = f"{self.path}/{what}", f"{title}: done"
                dialog.close()
                with self.figures:  # the dialog is gone before the node is: what is said there is lost
                    ui.notify(f"{title} …")
                    await self.frame.act(lambda: self.frame.client.act("POST", path, action_id=action_id), done)
                    await self.reload()

            ends(dialog, title.partition(" ")[0], do, deletes=what == "stop")


def _from(setting: dict[str, Any]) -> str:
    return "this node" if setting["is_own"] else "default"
