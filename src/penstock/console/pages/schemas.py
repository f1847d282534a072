"""Schemas: the list of subjects; one with its versions, what changed between two, and its compatibility."""

import secrets
from typing import Any, get_args

from nicegui import ui

from penstock.console.pages.cells import LINK, NUMBER
from penstock.console.pages.dialogs import ask, ends
from penstock.console.pages.frame import Frame, figures_in, heading
from penstock.console.pages.paging import Paging
from penstock.console.pages.paths import subject_path
from penstock.schemas.formats import Level

_SIZE = 25
_SUBJECTS = [
    {"name": "subject", "label": "Subject", "field": "subject", "align": "left"},
    {"name": "format", "label": "Format", "field": "format", "align": "left"},
    {"name": "versions", "label": "Versions", "field": "versions", "align": "right", ":format": NUMBER},
    {"name": "id", "label": "Id of the latest", "field": "id", "align": "right"},
    {"name": "compatibility", "label": "Compatibility", "field": "compatibility", "align": "left"},
]


async def draw_list(frame: Frame) -> None:
    """Draw the list."""
    frame.draw_bar("Schemas")
    paging = Paging(_SIZE, frame.query.get("page", ""), frame.query.get("search", ""))
    with frame.main():
        with ui.element("div").classes("head"):
            heading("Schemas", 1)
            paging.draw_search("subjects")
        summary = ui.label().classes("soft")
        table = frame.table(_SUBJECTS, "subject", "No subjects: the first schema that is registered makes one", 0)
        table.props("hide-pagination")
        table.add_slot("body-cell-subject", LINK)
        paging.draw_turning()

    async def load() -> None:
        asked = paging.asked
        frame.keep_address("/schemas", search=asked["search"], page=asked["page"])
        found = await frame.client.get("/schemas", **asked)
        table.rows = [
            {**each, "path": subject_path(each["subject"]), "compatibility": _words(each["compatibility"])}
            for each in found["subjects"]
        ]
        summary.text = (
            f"{found['registry']}; compatibility: {_words(found['compatibility'])}, unless a subject has its own"
        )
        paging.show(len(found["subjects"]), found["total"])

    paging.follow(frame.keep_fresh(load, every_s=15.0))


async def draw(frame: Frame, subject: str) -> None:
    """Draw one subject."""
    page = _Subject(frame, subject)
    frame.draw_bar("Schemas")
    with frame.main():
        page.draw()
    page.reload = frame.keep_fresh(page.load, every_s=15.0)


class _Subject:
    """The parts of one open page, and what they do."""

    def __init__(self, frame: Frame, subject: str) -> None:
        self.frame, self.subject = frame, subject
        self.reload: Any = None
        self.compatibility = "BACKWARD"

    def draw(self) -> None:
        """Draw the name, figures, the schema and what changed."""
        with ui.element("div").classes("head"):
            heading(self.subject, 1)
            if self.frame.may("admin"):
                change = ui.button("Compatibility", on_click=self.ask_level)
                change.props("outline color=primary no-caps")
        self.figures = ui.element("section").classes("figures")
        with ui.element("div").classes("columns"):
            with ui.element("section").classes("part"):
                with ui.element("div").classes("head"):
                    heading("Schema", 2)
                    self.version = ui.select([], on_change=lambda: self.reload())  # noqa: PLW0108 - set later
                    self.version.props('outlined dense aria-label="Version"')
                self.text = self.frame.loading_label().classes("panel mono whole").style("padding: 12px 16px")
            with ui.element("section").classes("part"):
                with (
                    ui.element("div").classes("head").style("min-height: 40px")
                ):  # as high as the other, with its versions
                    heading("Changed since the version before", 2)
                self.diff = ui.element("div").classes("panel mono whole diff").style("padding: 12px 16px")

    async def load(self) -> None:
        """Ask for the version that is chosen, and what it changed."""
        client = self.frame.client
        found = await client.get("/schemas/subject", subject=self.subject, version=self.version.value)
        self.compatibility = found["compatibility"]
        if self.version.options != found["versions"][::-1]:
            self.version.set_options(found["versions"][::-1], value=found["version"])
        whose = "" if found["is_own"] else " (the registry's)"
        figures_in(
            self.figures,
            [
                ("Version", f"{found['version']} of {len(found['versions'])}"),
                ("Id", str(found["id"])),
                ("Format", found["format"].capitalize()),
                (f"Compatibility{whose}", _words(found["compatibility"])),
            ],
        )
        self.text.text = found["text"]
        before = [each for each in found["versions"] if each < found["version"]]
        lines = []
        if before:
            asked = {"subject": self.subject, "first": before[-1], "second": found["version"]}
            lines = (await client.get("/schemas/diff", **asked))["lines"]
        self.diff.clear()
        with self.diff:
            if not lines:
                ui.label("Nothing: it is the first version." if not before else "Nothing.").classes("soft")
            for line in lines[2:]:
                kind = {"+": "plus", "-": "minus", "@": "soft"}.get(line[:1], "")
                ui.label(line or " ").classes(kind)

    def ask_level(self) -> None:
        """Ask which other versions a new one must be compatible with."""
        action_id = secrets.token_hex(16)
        dialog, card = ask("Compatibility", "What a new version must be compatible with, from now on.")
        with card:
            level = ui.select({each: _words(each) for each in get_args(Level)}, value=self.compatibility)
            level.props('outlined dense aria-label="Compatibility"')

            async def do() -> None:
                body = {"subject": self.subject, "level": level.value}
                path, done = "/schemas/compatibility", f"New versions of '{self.subject}': {_words(level.value)}"
                client = self.frame.client
                if await self.frame.act(lambda: client.act("PUT", path, body, action_id=action_id), done) is not None:
                    dialog.close()
                    await self.reload()

            ends(dialog, "Change", do)


def _words(level: str) -> str:
    return level.replace("_", " ").lower()
