"""Users of Kafka on the access page: adding one, another password, removing one."""

import secrets

from nicegui import ui

from penstock.console.pages.access_part import PagedPart
from penstock.console.pages.dialogs import ask, ends
from penstock.console.pages.paths import kafka_user_path

_USERS = [
    {"name": "user", "label": "User", "field": "user", "align": "left", "classes": "mono"},
    {"name": "mechanism", "label": "Signs in by", "field": "mechanism", "align": "left"},
    {"name": "change", "label": "", "field": "is_fixed", "align": "right"},
]
_CHANGE = """
<q-td :props="props"><span v-if="props.row.is_fixed" class="soft">Penstock's own</span>
<span v-else class="row-tools">
<button class="open" @click="() => $parent.$emit('password', props.row)">New password</button>
<button class="open bad" @click="() => $parent.$emit('remove', props.row)">Remove</button></span></q-td>
"""


class UsersPart(PagedPart):
    """One part of an open page."""

    def draw(self) -> None:
        """Draw the list and what can be done."""
        with self.section("Users of Kafka"):
            with ui.element("div").classes("tools"):
                self.paging.draw_search("users")
                add = ui.button("Add a user", on_click=lambda: self.ask_password(None))
                add.props("outline color=primary no-caps")
            self.table = self.frame.table(_USERS, "user", "No users", rows_per_page=0)
            self.table.classes("acts").props("hide-pagination").add_slot("body-cell-change", _CHANGE)
            self.table.on("password", lambda event: self.ask_password(event.args["user"]))
            self.table.on("remove", lambda event: self.ask_removal(event.args["user"]))
            self.paging.draw_turning()

    async def load(self, problem: str) -> None:
        """Show the users, or why there are none to show."""
        if not self.show_unless(problem):
            return
        found = await self.frame.client.get("/access/users", **self.paging.asked)
        self.table.rows = [{**each, "mechanism": ", ".join(each["mechanisms"])} for each in found["users"]]
        self.paging.show(len(found["users"]), found["total"])

    def ask_password(self, known: str | None) -> None:
        """Ask for a password, and for the name of a user that is new."""
        action_id = secrets.token_hex(16)
        text = (
            "It may do nothing until a rule allows it." if known is None else f"What works as {known} needs it at once."
        )
        dialog, card = ask(
            "Add a user" if known is None else "New password", f"{text} The password is not shown again."
        )
        with card:
            name = ui.input("User", value=known or "").props("outlined dense autocomplete=off")
            name.set_enabled(known is None)
            word = ui.input("Password").props("outlined dense type=password autocomplete=new-password")
            again = ui.input("Password again").props("outlined dense type=password autocomplete=new-password")

            async def do() -> None:
                if word.value != again.value:
                    ui.notify("The two passwords differ. Nothing was changed", type="negative")
                    return
                body = {"user": (name.value or "").strip(), "password": word.value or ""}
                done = f"User '{body['user']}' has a new password" if known else f"User '{body['user']}' added"
                client = self.frame.client
                put = await self.frame.act(lambda: client.act("PUT", "/access/users", body, action_id=action_id), done)
                if put is not None:
                    word.value = again.value = ""
                    dialog.close()
                    await self.reload()

            ends(dialog, "Add" if known is None else "Change", do)

    async def ask_removal(self, user: str) -> None:
        """Say what goes with a user, then have its name typed."""
        action_id = secrets.token_hex(16)
        path, client = kafka_user_path(user), self.frame.client
        counted = await self.frame.act(lambda: client.act("DELETE", path), "")
        if counted is None:
            return
        text = f"With the user go its access rules: {counted['rules']}. What uses it can sign in no longer."
        dialog, card = ask(f"Remove {user}", text)
        with card:
            typed = ui.input(f"Type {user} to confirm").props("outlined dense autofocus autocomplete=off")

            async def do() -> None:
                confirm = typed.value or "-"
                removed = await self.frame.act(
                    lambda: client.act("DELETE", path, action_id=action_id, confirm=confirm), f"User '{user}' removed"
                )
                if removed is not None:
                    dialog.close()
                    await self.reload()

            ends(dialog, "Remove", do, deletes=True)
