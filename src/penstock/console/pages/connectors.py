"""Connectors: the list; one with its tasks, traces and settings, and starting it again."""

from typing import Any

from nicegui import ui

from penstock.console.pages.cells import LINK, NUMBER, STATE
from penstock.console.pages.client import Failed
from penstock.console.pages.frame import Frame, figures_in, heading
from penstock.console.pages.paths import connector_path
from penstock.console.pages.wording import count, exactly, moment, size

_CONNECTORS = [
    {"name": "name", "label": "Connector", "field": "name", "align": "left", "sortable": True},
    {"name": "state", "label": "State", "field": "state", "align": "left", "sortable": True},
    {"name": "type", "label": "Type", "field": "type", "align": "left"},
    {"name": "tasks", "label": "Tasks that run", "field": "tasks", "align": "right"},
    {"name": "restarts", "label": "Restarts", "field": "restarts", "align": "right", ":format": NUMBER},
    {"name": "said", "label": "What it says", "field": "said", "align": "left", "classes": "mono"},
]
_TASKS = [
    {"name": "task", "label": "Task", "field": "task", "align": "left"},
    {"name": "state", "label": "State", "field": "state", "align": "left"},
    {"name": "worker", "label": "Worker", "field": "worker", "align": "left", "classes": "mono"},
    {"name": "action", "label": "", "field": "action", "align": "right"},
]
_SETTINGS = [
    {"name": "name", "label": "Setting", "field": "name", "align": "left", "sortable": True},
    {"name": "value", "label": "Value", "field": "value", "align": "left", "classes": "mono"},
]
_LOOKS = {"RUNNING": "good", "PAUSED": "warn", "RESTARTING": "warn", "UNASSIGNED": "warn", "FAILED": "bad"}
_SLOT_EVERY_S = 5.0
_SLOTS = {
    "nobody reads it": "The database keeps its log for it until it is read, and its disk fills up meanwhile.",
    "lost": "The database has discarded log that the capture had not read: remove the capture, and add it again.",
    "missing": "The database has no such slot: remove the capture, and add it again.",
}
_AGAIN = """
<q-td :props="props"><button class="open" @click="() => $parent.$emit('again', props.row)">Restart</button></q-td>
"""


async def draw_list(frame: Frame) -> None:
    """Draw the list."""
    frame.draw_bar("Connectors")
    with frame.main():
        heading("Connectors", 1)
        table = frame.table(_CONNECTORS, "name", "No connectors. Make one with: penstock connect add NAME")
        table.add_slot("body-cell-name", LINK)
        table.add_slot("body-cell-state", STATE)

    async def load() -> None:
        table.rows = [
            {
                **each,
                "path": connector_path(each["name"]),
                "look": _look(each),
                "state": _words(each),
                "said": each["trace"].partition("\n")[0],
            }
            for each in await frame.client.get("/connectors")
        ]

    frame.keep_fresh(load)


def _look(connector: dict[str, Any]) -> str:
    """Return how its state looks: it may run while a task of it has failed."""
    return "bad" if connector["trace"] else _LOOKS.get(connector["state"], "")


def _words(connector: dict[str, Any]) -> str:
    state = str(connector["state"]).lower()
    return f"{state}, a task failed" if connector["trace"] and state != "failed" else state


async def draw(frame: Frame, name: str) -> None:
    """Draw one connector."""
    page = _Connector(frame, name)
    frame.draw_bar("Connectors")
    with frame.main():
        page.draw()
    page.reload = frame.keep_fresh(page.load)
    ui.timer(_SLOT_EVERY_S, page.load_slot)


class _Connector:
    """The parts of one open page, and what they do."""

    def __init__(self, frame: Frame, name: str) -> None:
        self.frame, self.name, self.path = frame, name, connector_path(name)
        self.reload: Any = None

    def draw(self) -> None:
        """Draw the name, what can be done, tasks, traces and settings."""
        with ui.element("div").classes("head"):
            heading(self.name, 1)
            if self.frame.may("operator"):
                with ui.element("div").classes("tools"):
                    self.pause = ui.button("Pause", on_click=lambda: self.do("pause"))
                    self.resume = ui.button("Resume", on_click=lambda: self.do("resume"))
                    again = ui.button("Restart", on_click=lambda: self.do("restart"))
                    for button in (self.pause, self.resume):
                        button.props("flat color=primary no-caps").set_visibility(False)
                    again.props("outline color=primary no-caps")
        self.figures = ui.element("section").classes("figures")
        self.trace = ui.element("div")
        self.restarts = ui.label().classes("soft")
        with ui.element("section").classes("part") as self.of_slot:
            heading("Replication slot", 2)
            self.slot = ui.element("div").classes("figures")
            self.slot_state = ui.label("Asking the database …").classes("soft").props('role="status"')
        self.of_slot.set_visibility(False)
        with ui.element("section").classes("part"):
            heading("Tasks", 2)
            self.tasks = self.frame.table(_TASKS, "task", "It has no tasks now")
            self.tasks.add_slot("body-cell-state", STATE)
            if self.frame.may("operator"):
                self.tasks.add_slot("body-cell-action", _AGAIN)
                self.tasks.on("again", self.restart_task)
        with ui.element("section").classes("part"):
            heading("Settings", 2)
            self.settings = self.frame.table(_SETTINGS, "name", "None")
            self.settings.classes("pairs")

    async def load(self) -> None:
        """Ask for everything."""
        found = await self.frame.client.get(self.path)
        connector = found["connector"]
        failed = found["restarts"] or {"count": 0}
        figures_in(
            self.figures,
            [
                ("State", _words(connector)),
                ("Type", connector["type"]),
                ("Tasks that run", connector["tasks"]),
                ("Restarts", count(failed["count"])),
            ],
        )
        self._show_restarts(failed, is_meant_to_run=connector["state"] in {"RUNNING", "FAILED"})
        self.trace.clear()
        if connector["trace"]:
            with self.trace, ui.element("div").classes("concern error"):
                ui.label("Failed").classes("mark")
                ui.label(connector["trace"]).classes("words mono whole")
        self.tasks.rows = [
            {**each, "state": each["state"].lower(), "look": _LOOKS.get(each["state"], "")} for each in found["tasks"]
        ]
        self.settings.rows = [
            {**each, "value": "secret" if each["value"] is None else each["value"]} for each in found["settings"]
        ]
        self.of_slot.set_visibility(found["is_capture"])
        if self.frame.may("operator"):
            self.pause.set_visibility(connector["state"] == "RUNNING")
            self.resume.set_visibility(connector["state"] in {"PAUSED", "STOPPED"})

    def _show_restarts(self, failed: dict[str, Any], *, is_meant_to_run: bool) -> None:
        """Say when it failed last and why, whether or not it runs again by now; one that was paused stays as it is."""
        self.restarts.set_visibility("failed_at" in failed)
        if "failed_at" in failed:
            zone = self.frame.zone
            is_due = is_meant_to_run and failed["again_at"]
            again = f". It is started again at {moment(failed['again_at'], zone)[11:]}" if is_due else ""
            self.restarts.text = f"Failed last at {moment(failed['failed_at'], zone)}: {failed['reason']}{again}"
            self.restarts.props["title"] = exactly(failed["failed_at"])

    async def load_slot(self) -> None:
        """Ask how the slot is, apart from all else: a database that is away takes its time."""
        if not self.of_slot.visible:
            return
        try:
            slot = await self.frame.client.get(f"{self.path}/slot")
        except Failed as failure:
            self.slot.clear()
            self.slot_state.text = str(failure)
            return
        known = [
            ("Its state", slot["state"]),
            ("WAL that the database keeps for it", size(slot["wal_held_bytes"])),
            ("WAL that it has not confirmed", size(slot["lag_bytes"])),
        ]
        figures_in(self.slot, [("Slot", slot["slot"]), *(known if not slot["problem"] else [])])
        text = f"Not known at the moment: {slot['problem']}" if slot["problem"] else _SLOTS.get(slot["state"], "")
        self.slot_state.text = text
        self.slot_state.set_visibility(bool(text))

    async def do(self, what: str) -> None:
        """Do something with the whole connector."""
        await self._act(f"{self.path}/{what}", f"{what.capitalize()} of '{self.name}': accepted")

    async def restart_task(self, event: Any) -> None:
        """Start one task again."""
        task = event.args["task"]
        await self._act(f"{self.path}/tasks/{task}/restart", f"Task {task} of '{self.name}' is started again")

    async def _act(self, path: str, done: str) -> None:
        action_id = self.frame.clicks.action_id(path)
        await self.frame.act(lambda: self.frame.client.act("POST", path, action_id=action_id), done)
        await self.reload()
