"""Quotas of Kafka's users on the access page: setting one and taking it away."""

import secrets
from typing import Any

from nicegui import ui

from penstock.console.pages.access_part import AccessPart
from penstock.console.pages.dialogs import ask, ends
from penstock.console.pages.frame import Frame
from penstock.console.pages.wording import size

_KB = 1_000
_SIZE = 25
_QUOTAS = [
    {"name": "user", "label": "User", "field": "who", "align": "left", "classes": "mono"},
    {"name": "produce", "label": "May write", "field": "produce", "align": "right"},
    {"name": "consume", "label": "May read", "field": "consume", "align": "right"},
    {"name": "requests", "label": "Time of request threads", "field": "requests", "align": "right"},
    {"name": "change", "label": "", "field": "id", "align": "right"},
]
_CHANGE = """
<q-td :props="props"><span class="row-tools">
<button class="open" @click="() => $parent.$emit('change', props.row)">Change</button>
<button class="open bad" @click="() => $parent.$emit('remove', props.row)">Remove</button></span></q-td>
"""
_EVERY_OTHER = "every other user"


class QuotasPart(AccessPart):
    """One part of an open page. It asks apart, once and after each change: it takes Kafka's tool seconds."""

    def __init__(self, frame: Frame) -> None:
        super().__init__(frame)
        self.problem: str | None = None

    def draw(self) -> None:
        """Draw the list and what can be done."""
        with self.section("Quotas of Kafka's users"):
            with ui.element("div").classes("tools"):
                add = ui.button("Set a quota", on_click=lambda: self.ask_quota({}))
                add.props("outline color=primary no-caps")
            self.table = ui.table(columns=_QUOTAS, rows=[], row_key="id", pagination=_SIZE).classes("acts")
            self.table.props("flat dense loading").add_slot("body-cell-change", _CHANGE)
            self.table.on("change", lambda event: self.ask_quota(event.args))
            self.table.on("remove", lambda event: self.ask_removal(event.args))

    async def load(self, problem: str) -> None:
        """Say why there are none to show, if so; the first time, ask for them."""
        is_first, self.problem = self.problem is None, problem
        if self.show_unless(problem) and is_first:
            with self.shown:
                ui.timer(0, self.ask_kafka, once=True)

    async def ask_kafka(self) -> None:
        """Show what Kafka's tool says."""
        self.table.props("loading")
        found = await self.frame.act(lambda: self.frame.client.get("/access/quotas"), "")
        empty = "Not known at the moment" if found is None else "No quotas: nobody is slowed down"
        self.table.props(remove="loading").props["no-data-label"] = empty
        self.table.rows = [_row(number, each) for number, each in enumerate(found or [])]
        self.table.props(
            **({"add": "hide-pagination"} if len(self.table.rows) <= _SIZE else {"remove": "hide-pagination"})
        )

    def ask_quota(self, now: dict[str, Any]) -> None:
        """Ask whom to slow down, and how much."""
        action_id = secrets.token_hex(16)
        text = "Kafka slows down clients that exceed it. An empty field sets no limit. Each broker counts for itself."
        dialog, card = ask("Set a quota", text)
        with card:
            user = ui.input("User", value=now.get("user"), placeholder=_EVERY_OTHER)
            user.props("outlined dense autocomplete=off").set_enabled(not now)
            produce = _number("May write, kB a second", now.get("producer_bytes_per_s"), _KB)
            consume = _number("May read, kB a second", now.get("consumer_bytes_per_s"), _KB)
            requests = _number("Time of request threads, % of one", now.get("request_percent"), 1)

            async def do() -> None:
                body = {
                    "user": (user.value or "").strip() or None,
                    "producer_bytes_per_s": _times(produce.value, _KB),
                    "consumer_bytes_per_s": _times(consume.value, _KB),
                    "request_percent": requests.value,
                }
                await self._do("PUT", "/access/quotas", body, action_id, "The quota is set", dialog)

            ends(dialog, "Set", do)

    def ask_removal(self, row: dict[str, Any]) -> None:
        """Ask whether it is meant."""
        action_id = secrets.token_hex(16)
        dialog, card = ask("Remove the quota", f"There is no limit for {row['who']} from then on.")
        with card:

            async def do() -> None:
                body = {"user": row["user"]}
                await self._do("POST", "/access/quotas/remove", body, action_id, "The quota is removed", dialog)

            ends(dialog, "Remove", do, deletes=True)

    async def _do(self, method: str, path: str, body: dict[str, Any], action_id: str, done: str, dialog: Any) -> None:
        client = self.frame.client
        if await self.frame.act(lambda: client.act(method, path, body, action_id=action_id), done) is not None:
            dialog.close()
            await self.ask_kafka()


def _number(label: str, now: float | None, unit: float) -> Any:
    return ui.number(label, value=None if now is None else now / unit, min=1).props("outlined dense clearable")


def _times(number: float | None, unit: float) -> int | None:
    return None if number is None else round(number * unit)


def _row(number: int, quota: dict[str, Any]) -> dict[str, Any]:
    percent = quota["request_percent"]
    return {
        **quota,
        "id": number,
        "who": quota["user"] or _EVERY_OTHER,
        "produce": _speed(quota["producer_bytes_per_s"]),
        "consume": _speed(quota["consumer_bytes_per_s"]),
        "requests": "—" if percent is None else f"{percent:g} %",
    }


def _speed(bytes_per_s: float | None) -> str:
    return "—" if bytes_per_s is None else f"{size(bytes_per_s)}/s"
