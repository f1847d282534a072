"""Access rules of Kafka on the access page: allowing something and taking it away, with the plan shown first."""

import secrets
from collections.abc import Callable
from typing import Any

from nicegui import ui

from penstock.console.pages.access_part import PagedPart
from penstock.console.pages.dialogs import ask
from penstock.kafka.acls import OPERATIONS

_RULE = [
    {"name": "user", "label": "User", "field": "user", "align": "left", "classes": "mono"},
    {"name": "permission", "label": "Rule", "field": "permission", "align": "left"},
    {"name": "operation", "label": "To", "field": "operation", "align": "left"},
    {"name": "resource", "label": "What", "field": "resource", "align": "left"},
    {"name": "name", "label": "Called", "field": "name", "align": "left", "classes": "mono"},
]
_ACLS = [
    *_RULE,
    {"name": "host", "label": "From", "field": "host", "align": "left", "classes": "mono"},
    {"name": "change", "label": "", "field": "id", "align": "right"},
]
_STEPS = [*_RULE[1:], {"name": "effect", "label": "Effect", "field": "effect", "align": "left"}]
_CHANGE = """
<q-td :props="props"><button class="open bad" @click="() => $parent.$emit('remove', props.row)">Remove</button></q-td>
"""
_MAY = {"produce": "What a producer needs", "consume": "What a consumer needs", "": "Single operations"}


class AclsPart(PagedPart):
    """One part of an open page."""

    def draw(self) -> None:
        """Draw the list and what can be done."""
        with self.section("Access rules of Kafka"):
            with ui.element("div").classes("tools"):
                self.paging.draw_search("rules")
                allow = ui.button("Allow something", on_click=self.ask_grant)
                allow.props("outline color=primary no-caps")
            self.table = self.frame.table(_ACLS, "id", "No rules: only administrators may do anything", 0)
            self.table.classes("acts").props("hide-pagination").add_slot("body-cell-change", _CHANGE)
            self.table.on("remove", lambda event: self.ask_removal(event.args["rule"]))
            self.paging.draw_turning()

    async def load(self, problem: str) -> None:
        """Show the rules, or why there are none to show."""
        if not self.show_unless(problem):
            return
        found = await self.frame.client.get("/access/acls", **self.paging.asked)
        self.table.rows = [{**each, "id": number, "rule": each} for number, each in enumerate(found["acls"])]
        self.paging.show(len(found["acls"]), found["total"])

    def ask_grant(self) -> None:
        """Ask who is to be allowed what, show the rules, then add them."""
        dialog, card = ask("Allow something", "A name that ends in * matches every name with that prefix.")
        with card:
            user = ui.input("User").props("outlined dense autofocus autocomplete=off")
            may = ui.select(_MAY, value="produce", label="May").props("outlined dense")
            operations = ui.select(list(OPERATIONS), multiple=True, label="Operations")
            operations.props("outlined dense use-chips").bind_visibility_from(may, "value", lambda value: not value)
            topics = ui.input("Topics", placeholder="orders, returns*").props("outlined dense")
            groups = ui.input("Groups").props("outlined dense")
            groups.bind_visibility_from(may, "value", lambda value: value != "produce")
            ids = ui.input("Transactional ids").props("outlined dense")
            ids.bind_visibility_from(may, "value", lambda value: value != "consume")
            cluster = ui.checkbox("On the cluster itself").bind_visibility_from(may, "value", lambda value: not value)

            def requested() -> dict[str, Any]:
                single = not may.value
                return {
                    "user": (user.value or "").strip(),
                    "may": may.value or None,
                    "operations": operations.value if single else [],
                    "topics": _names(topics.value),
                    "groups": _names(groups.value) if may.value != "produce" else [],
                    "transactional_ids": _names(ids.value) if may.value != "consume" else [],
                    "cluster": bool(cluster.value) and single,
                }

            self._plan_then_do(dialog, "/access/acls", requested, "Allow", "The rules are added")

    def ask_removal(self, rule: dict[str, Any]) -> None:
        """Show what would go, then take it away."""
        dialog, card = ask("Remove a rule", f"What {rule['user']} may do by it ends at once.")
        with card:
            body = {"user": rule["user"], "acls": [rule]}
            self._plan_then_do(dialog, "/access/acls/remove", lambda: body, "Remove", "The rule is removed")

    def _plan_then_do(
        self, dialog: Any, path: str, requested: Callable[[], dict[str, Any]], name: str, done: str
    ) -> None:
        """Draw the plan and the ways out; what is done is what the plan has shown."""
        action_id = secrets.token_hex(16)
        planned: dict[str, Any] = {}
        client, removes = self.frame.client, path.endswith("/remove")
        table = ui.table(columns=_STEPS, rows=[]).props("flat dense hide-pagination").classes("planned")
        table.set_visibility(False)

        async def show() -> None:
            body = requested()
            user = body.pop("user") if removes else body["user"]
            found = await self.frame.act(lambda: client.act("POST", path, body), "")
            table.set_visibility(found is not None)
            do.set_visibility(found is not None)
            if found is not None:
                planned.update(body=body, user=user)
                table.rows = [{**each["acl"], "effect": each["effect"]} for each in found["steps"]]

        async def carry_out() -> None:
            body = {**planned["body"], "confirm": planned["user"]}
            if await self.frame.act(lambda: client.act("POST", path, body, action_id=action_id), done) is not None:
                dialog.close()
                await self.reload()

        with ui.element("div").classes("ends"):
            ui.button("Cancel", on_click=dialog.close).props("flat color=grey no-caps")
            ui.button("Show the plan", on_click=show).props("outline color=primary no-caps")
            do = ui.button(name, on_click=carry_out)
            do.props(f"unelevated no-caps color={'negative' if removes else 'primary'}")
            do.set_visibility(False)


def _names(text: str | None) -> list[str]:
    return [each.strip() for each in (text or "").split(",") if each.strip()]
