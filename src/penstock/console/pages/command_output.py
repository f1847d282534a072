"""What a command says that runs in the background, shown in the dialog that has started it."""

from collections.abc import Callable
from typing import Any

from nicegui import ui

from penstock.console.pages.frame import Frame

_EVERY_S = 2.0


class CommandOutput:
    """The last lines of one command, and its state in a label of the dialog."""

    def __init__(self, frame: Frame, state: Any) -> None:
        """Draw the place for the lines; it shows once the command is followed."""
        self._frame, self._state = frame, state
        self._lines = ui.label().classes("panel mono whole").style("padding: 12px 16px")
        self._lines.set_visibility(False)

    def follow(self, path: str, what: str, on_end: Callable[[], Any] | None = None) -> None:
        """Ask how the command stands until it has ended, or until there is no answer."""
        self._lines.set_visibility(True)

        async def look() -> None:
            found: dict[str, Any] | None = await self._frame.act(lambda: self._frame.client.get(path), "")
            if found is not None:
                self._state.text = f"{what} {found['state']}"
                self._lines.text = "\n".join(found["said"]) or "It is starting."
            if found is None or found["state"] != "running":
                timer.cancel()
                if on_end is not None:
                    await on_end()

        timer = ui.timer(_EVERY_S, look)
