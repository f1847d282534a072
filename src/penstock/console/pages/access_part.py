"""What the parts of the access page have in common: tools and a table, or the reason why there are none."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from nicegui import ui

from penstock.console.pages.frame import Frame, heading
from penstock.console.pages.paging import Paging

_SIZE = 25


class AccessPart:
    """One part of an open page."""

    def __init__(self, frame: Frame) -> None:
        self.frame = frame

    @contextmanager
    def section(self, title: str) -> Iterator[None]:
        """Draw what is inside below a heading, where it can be taken away for a reason."""
        with ui.element("section").classes("part"):
            heading(title, 2)
            self._reason = ui.label().classes("soft")
            with ui.element("div").classes("part") as self.shown:
                yield

    def show_unless(self, problem: str) -> bool:
        """Show the part, or the problem in its place; return whether the part is shown."""
        self._reason.text = problem
        self._reason.set_visibility(bool(problem))
        self.shown.set_visibility(not problem)
        return not problem


class PagedPart(AccessPart):
    """A part whose table has pages."""

    def __init__(self, frame: Frame) -> None:
        super().__init__(frame)
        self.paging = Paging(_SIZE)
        self.reload: Callable[[], Any]

    def follow(self, reload: Callable[[], Any]) -> None:
        """Say what loads the page."""
        self.reload = reload
        self.paging.follow(reload)
