"""A pipeline's file, to be read and tried out: what would be wrong with it is said as one types."""

import asyncio
from typing import Any

from nicegui import ui

from penstock.console.pages.check_result import draw_findings
from penstock.console.pages.frame import Frame, heading

_PAUSE_S = 0.4
_THEMES: dict[bool, Any] = {False: "vscodeLight", True: "vscodeDark"}
_TEXT = "Try a change here. The file itself is not changed: copy the text into it when it says what you mean."


class DefinitionPart:
    """The part of a pipeline's page that holds its file."""

    def __init__(self, frame: Frame, path: str) -> None:
        self._frame, self._path = frame, path
        self._typed = 0
        """How often somebody has typed: a check that began before the last time says nothing of the text that is there
        now."""

    def draw(self) -> None:
        """Draw it without the text, which is loaded once: what is typed stays."""
        with ui.element("section").classes("part"):
            with ui.element("div").classes("head"):
                heading("Definition", 2)
                self._copy = ui.button("Copy", on_click=self._copied).props("flat color=primary no-caps")
            self._file = ui.label().classes("soft mono")
            self._status = ui.label(_TEXT).classes("soft small")
            self._place = ui.element("div")
            self._said = ui.element("div").classes("part").props('aria-live="polite"')
        self._copy.set_visibility(False)
        ui.timer(0, self._load, once=True)

    async def _load(self) -> None:
        found = await self._frame.act(lambda: self._frame.client.get(f"{self._path}/definition"), "")
        if found is None:
            return
        self._file.text = found["file"]
        is_yaml = found["language"] == "yaml"
        is_dark = await self._frame.is_dark()
        with self._place:
            self._text = ui.codemirror(
                found["text"],
                language="YAML" if is_yaml else "Python",
                theme=_THEMES[is_dark],
                line_wrapping=True,
                on_change=self._changed if is_yaml else None,
            ).classes("definition")
            if not is_yaml:
                self._text.disable()
        self._frame.on_theme.append(lambda dark: self._text.set_theme(_THEMES[dark]))
        self._copy.set_visibility(True)
        self._status.set_visibility(is_yaml)
        if is_yaml:
            await self._check()

    async def _changed(self) -> None:
        self._typed += 1
        now = self._typed
        await asyncio.sleep(_PAUSE_S)
        if now == self._typed:
            await self._check()

    async def _check(self) -> None:
        now, path = self._typed, f"{self._path}/definition/check"
        body = {"text": self._text.value}
        found = await self._frame.act(lambda: self._frame.client.act("POST", path, body), "")
        if found is not None and now == self._typed:
            self._show(found)

    def _show(self, found: dict[str, Any]) -> None:
        self._said.clear()
        with self._said:
            if not found["mistakes"]:
                ui.label("This can run.").classes("state good")
            draw_findings(found)

    def _copied(self) -> None:
        ui.clipboard.write(self._text.value)
        ui.notify("Copied", type="positive")
