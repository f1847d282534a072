"""Dead letters: by pipeline, stage and error; one in full with its reason; replay and discard, counted first."""

import secrets
from typing import Any
from urllib.parse import quote, urlencode

from nicegui import ui

from penstock.console.pages.cells import NUMBER, OPEN, TIME
from penstock.console.pages.frame import Frame, heading
from penstock.console.pages.messages import pretty
from penstock.console.pages.wording import count, exactly, moment
from penstock.wording import plural

_REASONS = [
    {"name": "pipeline", "label": "Pipeline", "field": "pipeline", "align": "left", "sortable": True},
    {"name": "stage", "label": "Stage", "field": "stage", "align": "left", "sortable": True},
    {"name": "error", "label": "Error", "field": "error", "align": "left", "sortable": True},
    {"name": "letters", "label": "Letters", "field": "letters", "align": "right", "sortable": True, ":format": NUMBER},
    {"name": "example", "label": "One of them said", "field": "example", "align": "left", "classes": "mono"},
]
_LETTERS = [
    {"name": "failed", "label": "Failed", "field": "failed", "align": "left", "sortable": True},
    {"name": "record", "label": "Record", "field": "record", "align": "left"},
    {"name": "error", "label": "Error", "field": "error", "align": "left"},
    {"name": "message", "label": "What it said", "field": "message", "align": "left", "classes": "mono"},
    {"name": "attempt", "label": "Attempt", "field": "attempt", "align": "right"},
]


_CHOOSE = """
<q-checkbox dense size="sm" v-model="props.selected" :aria-label="'Choose ' + props.row.record" />
"""
_CHOOSE_ALL = '<q-checkbox dense size="sm" v-model="props.selected" aria-label="Choose all of this page" />'
_FILTERS = ("pipeline", "stage", "error")
_LISTED = 500


async def draw(frame: Frame) -> None:
    """Draw the page."""
    page = _Letters(frame)
    frame.draw_bar("Dead letters")
    with frame.main():
        page.draw_reasons()
        page.draw_letters()
    page.reload = frame.keep_fresh(page.load)


class _Letters:
    """The parts of one open page, and what they do."""

    def __init__(self, frame: Frame) -> None:
        self.frame = frame
        self.reason: dict[str, str] = {name: frame.query[name] for name in _FILTERS if frame.query.get(name)}
        """What the reason that is clicked says of its letters; empty: all. It is in the address."""
        self.replays: list[str] = []
        """Those that were begun here."""
        self.reload: Any = None

    def draw_reasons(self) -> None:
        """Draw the letters counted by why they failed."""
        with ui.element("div").classes("head"):
            heading("Dead letters", 1)
            self.summary = ui.label().classes("soft number")
        self.begun = ui.element("div").classes("parts")
        self.reasons = self.frame.table(_REASONS, "id", "No dead letters: every record got where it should")
        self.reasons.add_slot("body-cell-error", OPEN)
        self.reasons.on("open", lambda event: self.choose({name: event.args[name] for name in _FILTERS}))

    def draw_letters(self) -> None:
        """Draw the letters of the reason that is chosen, or of all, and what can be done with them."""
        with ui.element("section").classes("part") as self.listing:
            with ui.element("div").classes("head"):
                with ui.element("div").classes("tools"):
                    self.title = ui.label().classes("h2").props('role="heading" aria-level="2"')
                    self.all = ui.button("Show all", on_click=lambda: self.choose({}))
                    self.all.props("flat color=primary no-caps dense")
                self.buttons = {}
                with ui.element("div").classes("tools"):
                    if self.frame.may("operator"):
                        self.buttons["replay"] = ui.button(on_click=lambda: self.ask("replay", self.meant))
                        self.buttons["replay"].props("unelevated color=primary no-caps")
                    if self.frame.may("admin"):
                        self.buttons["discard"] = ui.button(on_click=lambda: self.ask("discard", self.meant))
                        self.buttons["discard"].props("flat color=negative no-caps")
            self.letters = self.frame.table(_LETTERS, "id", "None", rows_per_page=25)
            self.letters.add_slot("body-cell-failed", TIME)
            self.letters.add_slot("body-cell-record", OPEN)
            self.letters.on("open", self.show)
            if self.buttons:
                self.letters.set_selection("multiple").on_select(self.name_buttons)
                self.letters.add_slot("body-selection", _CHOOSE)
                self.letters.add_slot("header-selection", _CHOOSE_ALL)
                self.letters.props["selected-rows-label"] = ""
            self.listed = ui.label().classes("soft small")
            self.place = ui.element("div")
        self.name_buttons()
        self.name_reason()

    @property
    def meant(self) -> dict[str, Any]:
        """The letters that are chosen, or all of the reason, as the REST interface is asked."""
        if not self.letters.selected:
            return {"filter": dict(self.reason)}
        return {"letters": [_coordinates(each) for each in self.letters.selected]}

    def name_buttons(self) -> None:
        """Say on the buttons how many letters they are about."""
        chosen = len(self.letters.selected)
        for what, button in self.buttons.items():
            button.text = f"{what.capitalize()} {count(chosen)} chosen" if chosen else f"{what.capitalize()} all"

    def name_reason(self) -> None:
        """Say which letters are listed."""
        pipeline, stage, error = (self.reason.get(name) for name in _FILTERS)
        parts = [error or "All", f"of pipeline '{pipeline}'" if pipeline else "", f"at {stage}" if stage else ""]
        self.title.text = " ".join(part for part in parts if part) if self.reason else "All of them"
        self.all.set_visibility(bool(self.reason))

    async def load(self) -> None:
        """Count, and list those that are meant; what somebody else has settled is no longer chosen."""
        counted = await self.frame.client.get("/dead-letters")
        self.summary.text = f"{count(counted['total'])} open"
        self.reasons.rows = [{**each, "id": number} for number, each in enumerate(counted["reasons"])]
        self.listing.set_visibility(bool(counted["total"] or self.reason))
        found = await self.frame.client.get("/dead-letters/letters", count=_LISTED, **self.reason)
        self.letters.rows = [self._row(each) for each in found]
        there = {row["id"] for row in self.letters.rows}
        gone = len(self.letters.selected)
        self.letters.selected = [row for row in self.letters.selected if row["id"] in there]
        gone -= len(self.letters.selected)
        if gone:
            ui.notify(f"{plural(gone, 'letter')} that you chose {'is' if gone == 1 else 'are'} no longer open")
        self.name_buttons()
        for button in self.buttons.values():
            button.set_enabled(bool(found))
        total = sum(each["letters"] for each in counted["reasons"] if self._is_of_reason(each))
        self.listed.text = f"The first {count(len(found))} of {count(total)} are listed" if total > len(found) else ""
        await self._load_replays()

    def _is_of_reason(self, reason: dict[str, Any]) -> bool:
        return all(reason[name] == value for name, value in self.reason.items())

    async def _load_replays(self) -> None:
        """Say how the replays stand that were begun here."""
        states = [await self.frame.client.get(f"/dead-letters/replays/{each}") for each in self.replays]
        self.begun.clear()
        with self.begun:
            for each in states:
                look = {"done": "good", "given up": "error"}.get(each["state"], "")
                with ui.element("div").classes(f"concern {look}"):
                    ui.label("Replay").classes("mark")
                    with ui.element("div").classes("words"):
                        ui.label(f"{each['replay']}: {plural(each['letters'], 'letter')}, {each['state']}")
                        if each["said"] and each["state"] != "running":
                            ui.label("\n".join(each["said"])).classes("mono whole")

    def _row(self, letter: dict[str, Any]) -> dict[str, Any]:
        failed = letter["failed_ms"] / 1000
        return {
            **letter,
            "id": f"{letter['dead_topic']}/{letter['dead_partition']}/{letter['dead_offset']}",
            "failed": moment(failed, self.frame.zone),
            "exactly": exactly(failed),
            "record": f"{letter['topic']}/{letter['partition']} at {letter['offset']}",
        }

    async def choose(self, reason: dict[str, str]) -> None:
        """Show the letters of one reason, or of all."""
        self.reason = reason
        self.letters.selected = []
        ui.navigate.history.replace(f"/dead-letters?{urlencode(reason)}" if reason else "/dead-letters")
        self.name_reason()
        await self.reload()

    async def show(self, event: Any) -> None:
        """Show one letter in full, with what can be done with it."""
        row = event.args
        path = f"/dead-letters/letters/{quote(row['dead_topic'], safe='')}/{row['dead_partition']}/{row['dead_offset']}"
        found = await self.frame.act(lambda: self.frame.client.get(path), "")
        if found is None:
            return
        letter, record = found["letter"], found["record"]
        dialog = ui.dialog(value=True)
        dialog.on("hide", dialog.delete)

        async def ask(what: str) -> None:
            dialog.close()
            with self.place:  # this dialog is gone by the time the next one opens
                await self.ask(what, {"letters": [_coordinates(row)]})

        with dialog, ui.card().style("width: 720px"):
            heading(letter["error"], 2)
            ui.label(letter["message"]).classes("mono whole")
            where = f"{letter['topic']}/{letter['partition']} at offset {letter['offset']}"
            for name, value in (
                ("Record", where),
                ("Pipeline", f"{letter['pipeline']}, at {letter['stage']}, attempt {letter['attempt']}"),
                ("Line", letter["line"] or ""),
                ("Key", record["key"]["text"] if record["key"] else "none"),
                ("Value", pretty(record["value"]) if record["value"] else "none"),
                ("Headers", "\n".join(f"{name}: {(each or {}).get('text', '')}" for name, each in record["headers"])),
            ):
                if value:
                    with ui.element("div"):
                        ui.label(name).classes("soft small")
                        ui.label(value).classes("mono whole")
            with ui.element("div").classes("ends"):
                ui.button("Close", on_click=dialog.close).props("flat color=grey no-caps")
                if "discard" in self.buttons:
                    ui.button("Discard", on_click=lambda: ask("discard")).props("flat color=negative no-caps")
                if "replay" in self.buttons:
                    ui.button("Replay", on_click=lambda: ask("replay")).props("unelevated color=primary no-caps")

    async def ask(self, what: str, meant: dict[str, Any]) -> None:
        """Count what would be replayed or discarded, then do it."""
        path, action_id = f"/dead-letters/{what}", secrets.token_hex(16)
        counted = await self.frame.act(lambda: self.frame.client.act("POST", path, meant), "")
        if counted is None:
            await self.reload()
            return
        dialog = ui.dialog(value=True)
        dialog.on("hide", dialog.delete)

        async def do() -> None:
            sure = {**meant, "count": counted["found"]}
            done = await self.frame.act(lambda: self.frame.client.act("POST", path, sure, action_id=action_id), "")
            dialog.close()
            if done is not None:
                ui.notify(self._outcome(what, done), type="positive")
                self.letters.selected = []
            await self.reload()

        with dialog, ui.card():
            heading(f"{what.capitalize()} {plural(counted['found'], 'dead letter')}?", 2)
            which = "Those that you chose" if "letters" in meant else self.title.text
            warning = "They go through their pipeline again, once." if what == "replay" else "It cannot be undone."
            ui.label(f"{which}. {warning}").classes("soft")
            if counted["gone"]:
                ui.label(f"{plural(counted['gone'], 'letter')} of them: replayed or discarded in the meantime")
            for each in counted.get("left_out", []):
                ui.label(f"Left out: {each}").classes("soft")
            with ui.element("div").classes("ends"):
                ui.button("Cancel", on_click=dialog.close).props("flat color=grey no-caps")
                button = ui.button(what.capitalize(), on_click=do).props("unelevated no-caps")
                button.props("color=primary" if what == "replay" else "color=negative")
                button.set_enabled(counted["found"] > 0)

    def _outcome(self, what: str, done: dict[str, Any]) -> str:
        if what == "replay":
            self.replays = list(dict.fromkeys([*self.replays, done["replay"]]))  # once, though it was clicked twice
            return f"Replay {done['replay']} of {plural(done['found'], 'letter')} is running"
        lost = done["found"] - done["discarded"]
        others = f"; {plural(lost, 'letter')} had been settled by somebody else" if lost else ""
        return f"{plural(done['discarded'], 'letter')} discarded{others}"


def _coordinates(row: dict[str, Any]) -> dict[str, Any]:
    return {"topic": row["dead_topic"], "partition": row["dead_partition"], "offset": row["dead_offset"]}
