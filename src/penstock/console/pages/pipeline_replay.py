"""Replaying a range of a pipeline's past: where from, the plan, the name typed once more, and what came of it."""

import secrets

from nicegui import ui

from penstock.console.pages.cells import NUMBER
from penstock.console.pages.command_output import CommandOutput
from penstock.console.pages.dialogs import ask
from penstock.console.pages.frame import Frame
from penstock.console.pages.wording import in_zone
from penstock.wording import plural

_PARTS = [
    {"name": "topic", "label": "Topic", "field": "topic", "align": "left"},
    {"name": "partition", "label": "Partition", "field": "partition", "align": "right"},
    {"name": "start", "label": "From", "field": "start", "align": "right", ":format": NUMBER},
    {"name": "end", "label": "To", "field": "end", "align": "right", ":format": NUMBER},
]
_TEXT = "Records that have landed go through the pipeline again, and their rows are replaced. The plan comes first."


class ReplayDialog:
    """One replay, from the question to its end."""

    def __init__(self, frame: Frame, name: str, path: str) -> None:
        self._frame, self._name, self._path = frame, name, path
        self._action_id = secrets.token_hex(16)
        self._replay = ""

    def open(self) -> None:
        """Ask where from."""
        dialog, card = ask("Replay a range", _TEXT)
        with card:
            self._since = ui.input("From", placeholder="2h, 2026-01-31T12:00, 42").props("outlined dense autofocus")
            self._until = ui.input("To", value="latest").props("outlined dense")
            self._status = ui.label().classes("number")
            self._plan = ui.table(columns=_PARTS, rows=[], pagination=10).props("flat dense").classes("planned")
            self._typed = ui.input(f"Type {self._name} to confirm").props("outlined dense autocomplete=off")
            self._output = CommandOutput(self._frame, self._status)
            with ui.element("div").classes("ends"):
                ui.button("Close", on_click=dialog.close).props("flat color=grey no-caps")
                self._show = ui.button("Show the plan", on_click=self._planned).props("outline color=primary no-caps")
                self._do = ui.button("Replay", on_click=self._started).props("unelevated color=primary no-caps")
        for each in (self._plan, self._typed, self._do):
            each.set_visibility(False)

    async def _planned(self) -> None:
        zone = self._frame.zone
        body = {"since": in_zone(self._since.value or "", zone), "until": in_zone(self._until.value or "latest", zone)}
        found = await self._frame.act(lambda: self._frame.client.act("POST", f"{self._path}/replays", body), "")
        if found is None:
            return
        self._replay = found["replay"]
        self._status.text = plural(found["offsets"], "offset")
        self._plan.rows = found["parts"]
        for each in (self._plan, self._typed, self._do):
            each.set_visibility(True)

    async def _started(self) -> None:
        path, body = f"{self._path}/replays/{self._replay}", {"confirm": self._typed.value or "-"}
        sent = lambda: self._frame.client.act("POST", path, body, action_id=self._action_id)  # noqa: E731 - asked once
        if await self._frame.act(sent, f"Replay {self._replay} is running") is None:
            return
        for each in (self._plan, self._typed, self._do, self._show, self._since, self._until):
            each.set_visibility(False)
        self._output.follow(path, f"Replay {self._replay}:")
