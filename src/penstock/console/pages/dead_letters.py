"""Dead letters: by pipeline, stage and error; one in full with its reason; replay and discard, counted first."""

import secrets
from typing import Any

from nicegui import ui

from penstock.console.pages.cells import NUMBER, OPEN, TIME
from penstock.console.pages.frame import Frame, heading
from penstock.console.pages.messages import pretty
from penstock.console.pages.wording import count, exactly, moment

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
        self.chosen: dict[str, str] = {}
        """What the reason that is clicked says of its letters; empty: all."""
        self.reload: Any = None

    def draw_reasons(self) -> None:
        """Draw the letters counted by why they failed."""
        with ui.element("div").classes("head"):
            heading("Dead letters", 1)
            with ui.element("div").classes("tools"):
                self.summary = ui.label().classes("soft number")
                if self.frame.may("operator"):
                    replay = ui.button("Replay", on_click=lambda: self.ask("replay"))
                    replay.props("unelevated color=primary no-caps")
                if self.frame.may("admin"):
                    discard = ui.button("Discard", on_click=lambda: self.ask("discard"))
                    discard.props("flat color=negative no-caps")
        self.reasons = self.frame.table(_REASONS, "id", "No dead letters: every record got where it should")
        self.reasons.add_slot("body-cell-error", OPEN)
        self.reasons.on("open", self.choose)

    def draw_letters(self) -> None:
        """Draw the letters of the reason that is chosen, or of all."""
        with ui.element("section").classes("part"):
            with ui.element("div").classes("head"):
                self.title = ui.label("Of all reasons").classes("h2").props('role="heading" aria-level="2"')
                self.all = ui.button("Show all", on_click=self.choose_all).props("flat color=primary no-caps dense")
                self.all.set_visibility(False)
            self.letters = self.frame.table(_LETTERS, "id", "None", rows_per_page=25)
            self.letters.add_slot("body-cell-failed", TIME)
            self.letters.add_slot("body-cell-record", OPEN)
            self.letters.on("open", self.show)

    async def load(self) -> None:
        """Count, and list those that are chosen."""
        counted = await self.frame.client.get("/dead-letters")
        self.summary.text = f"{count(counted['total'])} open"
        self.reasons.rows = [{**each, "id": number} for number, each in enumerate(counted["reasons"])]
        found = await self.frame.client.get("/dead-letters/letters", **self.chosen)
        self.letters.rows = [self._row(each) for each in found]

    def _row(self, letter: dict[str, Any]) -> dict[str, Any]:
        failed = letter["failed_ms"] / 1000
        return {
            **letter,
            "id": f"{letter['dead_topic']}/{letter['dead_partition']}/{letter['dead_offset']}",
            "failed": moment(failed, self.frame.zone),
            "exactly": exactly(failed),
            "record": f"{letter['topic']}/{letter['partition']} at {letter['offset']}",
        }

    async def choose(self, event: Any) -> None:
        """Show the letters of one reason."""
        row = event.args
        self.chosen = {name: row[name] for name in ("pipeline", "stage", "error")}
        self.title.text = f"{row['error']} of pipeline '{row['pipeline']}' at {row['stage']}"
        self.all.set_visibility(True)
        await self.reload()

    async def choose_all(self) -> None:
        """Show the letters of all reasons."""
        self.chosen = {}
        self.title.text = "Of all reasons"
        self.all.set_visibility(False)
        await self.reload()

    async def show(self, event: Any) -> None:
        """Show one letter in full."""
        row = event.args
        path = f"/dead-letters/letters/{row['dead_topic']}/{row['dead_partition']}/{row['dead_offset']}"
        found = await self.frame.act(lambda: self.frame.client.get(path), "")
        if found is None:
            return
        letter, record = found["letter"], found["record"]
        dialog = ui.dialog(value=True)
        dialog.on("hide", dialog.delete)
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
                ui.button("Close", on_click=dialog.close).props("flat color=primary no-caps")

    async def ask(self, what: str) -> None:
        """Count what would be replayed or discarded, then do it."""
        path, action_id = f"/dead-letters/{what}", secrets.token_hex(16)
        body: dict[str, Any] = {"filter": dict(self.chosen)}
        counted = await self.frame.act(lambda: self.frame.client.act("POST", path, body), "")
        if counted is None:
            return
        dialog = ui.dialog(value=True)
        dialog.on("hide", dialog.delete)

        async def do() -> None:
            sure = {**body, "count": counted["found"]}
            done = await self.frame.act(lambda: self.frame.client.act("POST", path, sure, action_id=action_id), "")
            if done is not None:
                replay = f"Replay {done['replay']} is running" if what == "replay" else f"{done['discarded']} discarded"
                ui.notify(replay, type="positive")
                dialog.close()
                await self.reload()

        with dialog, ui.card():
            heading(f"{what.capitalize()} {count(counted['found'])} dead letters?", 2)
            text = "They go through their pipeline again, once." if what == "replay" else "It cannot be undone."
            ui.label(f"{self.title.text}. {text}").classes("soft")
            for each in counted.get("left_out", []):
                ui.label(f"Left out: {each}").classes("soft")
            with ui.element("div").classes("ends"):
                ui.button("Cancel", on_click=dialog.close).props("flat color=grey no-caps")
                button = ui.button(what.capitalize(), on_click=do).props("unelevated no-caps")
                button.props("color=primary" if what == "replay" else "color=negative")
                button.set_enabled(counted["found"] > 0)
