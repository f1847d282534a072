"""Personal tokens of the lineage service, for admins: the list, a new one whose text is shown once, revoking one."""

import datetime
import secrets
from typing import Any

from nicegui import ui

from penstock.clock import clock
from penstock.console.pages.dialogs import ask, ends
from penstock.console.pages.frame import Frame, heading
from penstock.console.pages.lineage_words import list_path
from penstock.console.pages.paging import Paging
from penstock.console.pages.paths import lineage_token_path

TOKENS = "tokens"
_SIZE = 50
_COLUMNS = [
    {"name": "name", "label": "Token", "field": "name", "align": "left"},
    {"name": "user", "label": "User", "field": "user", "align": "left"},
    {"name": "may", "label": "May", "field": "may", "align": "left"},
    {"name": "since", "label": "Made on", "field": "since", "align": "left"},
    {"name": "until", "label": "Good until", "field": "until", "align": "left"},
    {"name": "revoke", "label": "", "field": "id", "align": "right"},
]
_REVOKE = """
<q-td :props="props"><button class="open bad" @click="() => $parent.$emit('revoke', props.row)">Revoke</button></q-td>
"""
_MAY = {"read": "Read", "write": "Read and write"}
_SCOPES = {"read": ["all:read"], "write": ["all:read", "all:write"]}
_LAST = {30: "30 days", 90: "90 days", 366: "a year"}


def draw_tabs(frame: Frame, kinds: dict[str, str], here: str) -> dict[str, Any]:
    """Draw the names of all lists; tokens only for whoever may see them."""
    shown = {**kinds, **({TOKENS: "Tokens"} if frame.may("admin") else {})}
    with ui.element("nav").classes("tabs").props('aria-label="Lists"'):
        links = {name: ui.link(label, list_path(name)) for name, label in shown.items()}
        links[here].classes("here").props('aria-current="page"')
    return links


class Tokens:
    """One open list."""

    def __init__(self, frame: Frame) -> None:
        self.frame, self.paging = frame, Paging(_SIZE)
        self.users: list[str] = []

    def draw(self, kinds: dict[str, str]) -> None:
        """Draw the list and what can be done; `kinds` are the other lists."""
        with ui.element("div").classes("head"):
            heading("Lineage", 1)
            with ui.element("div").classes("tools"):
                self.paging.draw_search("tokens")
        with ui.element("div").classes("head"):
            draw_tabs(self.frame, kinds, TOKENS)
            with ui.element("div").classes("tools"):
                self.add = ui.button("Make a token", on_click=self.ask_new).props("outline color=primary no-caps")
        ui.label("Programs show a token to the lineage service, in place of a user's password.").classes("soft")
        self.problem = ui.label().classes("soft").props('role="status"')
        self.problem.set_visibility(False)
        self.table = self.frame.table(_COLUMNS, "id", "No tokens", rows_per_page=0)
        self.table.classes("acts").props("hide-pagination").add_slot("body-cell-revoke", _REVOKE)
        self.table.on("revoke", lambda event: self.ask_revoking(event.args))
        self.paging.draw_turning()
        self.place = ui.element("div")
        self.reload = self.frame.keep_fresh(self.load, every_s=30.0)
        self.paging.follow(self.reload)

    async def load(self) -> None:
        """Show the tokens of this page."""
        found = await self.frame.client.get("/lineage/tokens", **self.paging.asked)
        self.users = found["users"]
        self.problem.text = found["problem"]
        self.problem.set_visibility(bool(found["problem"]))
        self.add.set_enabled(not found["problem"])
        self.table.rows = [{**each, "may": _may(each["scopes"])} for each in found["items"]]
        self.paging.show(len(found["items"]), found["total"])

    def ask_new(self) -> None:
        """Ask what a new token should be."""
        action_id = secrets.token_hex(16)
        dialog, card = ask("Make a token", "Whoever has it may do this in the user's name, until it ends.")
        with card:
            user = ui.select(self.users, value=next(iter(self.users), None), label="User").props("outlined dense")
            name = ui.input("Name").props("outlined dense autofocus autocomplete=off")
            may = ui.select(_MAY, value="read", label="May").props("outlined dense")
            days = ui.select(_LAST, value=90, label="Good for").props("outlined dense")

            async def do() -> None:
                until = clock().now().date() + datetime.timedelta(days=days.value)
                body = {"user": user.value, "name": (name.value or "").strip(), "scopes": _SCOPES[may.value]}
                body["until"] = until.isoformat()
                client = self.frame.client
                made = await self.frame.act(
                    lambda: client.act("POST", "/lineage/tokens", body, action_id=action_id),
                    f"Token '{body['name']}' made",
                )
                if made is not None:
                    dialog.close()
                    with self.place:  # this dialog is gone by the time the next one opens
                        _show_once(made)
                    await self.reload()

            ends(dialog, "Make", do)

    def ask_revoking(self, token: dict[str, Any]) -> None:
        """Have the name of a token typed."""
        action_id = secrets.token_hex(16)
        text = f"Programs that use it are refused from their next request on. It is {token['user']}'s."
        dialog, card = ask(f"Revoke {token['name']}", text)
        with card:
            typed = ui.input(f"Type {token['name']} to confirm").props("outlined dense autofocus autocomplete=off")

            async def do() -> None:
                path, client = lineage_token_path(token["id"]), self.frame.client
                revoked = await self.frame.act(
                    lambda: client.act("DELETE", path, action_id=action_id, confirm=typed.value or "-"),
                    f"Token '{token['name']}' revoked",
                )
                if revoked is not None:
                    dialog.close()
                    await self.reload()

            ends(dialog, "Revoke", do, deletes=True)


def _show_once(made: dict[str, Any]) -> None:
    """Show the text of a new token; with the dialog it is gone."""
    dialog, card = ask(f"Token '{made['name']}'", "It is shown now, and never again: copy it to where it is needed.")
    dialog.props("persistent")
    with card:
        ui.label(made["content"]).classes("mono secret").props('role="status"')
        ui.label(f"Good until {made['until']}").classes("soft small")
        with ui.element("div").classes("ends"):
            ui.button("Copy", on_click=lambda: ui.clipboard.write(made["content"])).props("flat color=primary no-caps")
            ui.button("Done", on_click=dialog.close).props("unelevated no-caps color=primary")


def _may(scopes: list[str]) -> str:
    """Write what a token is good for."""
    if scopes == ["all:write"]:
        return "Write"
    return _MAY["write" if "all:write" in scopes else "read"]
