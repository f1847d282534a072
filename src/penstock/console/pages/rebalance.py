"""Moving partitions to where they belong: the plan first, then what the command says until it ends."""

import secrets
from collections.abc import Callable
from typing import Any

from nicegui import ui

from penstock.console.pages.command_output import CommandOutput
from penstock.console.pages.dialogs import ask
from penstock.console.pages.frame import Frame
from penstock.wording import plural

_MOVES = [
    {"name": "topic", "label": "Topic", "field": "topic", "align": "left", "sortable": True},
    {"name": "partition", "label": "Partition", "field": "partition", "align": "right"},
    {"name": "now", "label": "Nodes now", "field": "now", "align": "left"},
    {"name": "then", "label": "Nodes then", "field": "then", "align": "left"},
]
_TEXT = "Spreads partitions evenly over the nodes. A replica goes only once the new one is in sync: no record is lost."


class RebalanceDialog:
    """One rebalance, from the plan to its end."""

    def __init__(self, frame: Frame, reload: Callable[[], Any]) -> None:
        self._frame, self._reload = frame, reload
        self._action_id = secrets.token_hex(16)
        self._count = 0

    def open(self) -> None:
        """Work out the plan and show it."""
        dialog, card = ask("Rebalance", _TEXT)
        with card:
            self._status = ui.label("Working out the plan …").classes("number")
            self._plan = ui.table(columns=_MOVES, rows=[], pagination=10).props("flat dense").classes("planned")
            self._output = CommandOutput(self._frame, self._status)
            with ui.element("div").classes("ends"):
                ui.button("Close", on_click=dialog.close).props("flat color=grey no-caps")
                self._do = ui.button("Move", on_click=self._started).props("unelevated color=primary no-caps")
            ui.timer(0, self._planned, once=True)
        for each in (self._plan, self._do):
            each.set_visibility(False)

    async def _planned(self) -> None:
        found = await self._frame.act(lambda: self._frame.client.act("POST", "/nodes/rebalance", {}), "")
        if found is None:
            self._status.text = "There is no plan."
            return
        self._count = len(found["moves"])
        self._status.text = (
            plural(self._count, "partition moves", "partitions move") if self._count else "Every node is evenly used."
        )
        self._plan.rows = [
            {**each, "now": ", ".join(map(str, each["replicas"])), "then": ", ".join(map(str, each["target"]))}
            for each in found["moves"]
        ]
        for each in (self._plan, self._do):
            each.set_visibility(bool(self._count))

    async def _started(self) -> None:
        body, client = {"moves": self._count}, self._frame.client
        begun = await self._frame.act(
            lambda: client.act("POST", "/nodes/rebalance", body, action_id=self._action_id), "Partitions are moving"
        )
        if begun is None:
            return
        self._do.set_visibility(False)
        self._plan.set_visibility(False)
        self._output.follow("/nodes/rebalance", "The rebalance is", self._reload)
