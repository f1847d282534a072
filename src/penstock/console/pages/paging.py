"""A long list a page at a time: what is searched for, two buttons, and which of how many are shown."""

from collections.abc import Callable
from typing import Any

from nicegui import ui

from penstock.console.pages.wording import count

_DIGITS = 7


class Paging:
    """Which page of one list is asked for. Searching begins again at the first."""

    def __init__(self, size: int, page: str = "", search: str = "") -> None:
        """Begin at a page and with words, as an address has them."""
        self._size, self._page = size, int(page) if page.isdecimal() and len(page) < _DIGITS else 0
        self._words = search
        self._reload: Callable[[], Any] | None = None
        self._search: Any = None

    def draw_search(self, what: str) -> None:
        """Draw the field that is searched by."""
        self._search = ui.input(placeholder=f"Search {what}", value=self._words)
        self._search.props("outlined dense clearable debounce=300")

    def draw_turning(self) -> None:
        """Draw the buttons, each while there is a page to turn to."""
        with ui.element("div").classes("tools"):
            self._back = ui.button("Back", on_click=lambda: self._turn(-1)).props("flat color=primary no-caps")
            self._where = ui.label().classes("soft number")
            self._on = ui.button("Next", on_click=lambda: self._turn(1)).props("flat color=primary no-caps")
        self._back.set_visibility(False)
        self._on.set_visibility(False)

    def follow(self, reload: Callable[[], Any]) -> None:
        """Say what loads the page that was turned to."""
        self._reload = reload
        if self._search is not None:
            self._search.on_value_change(lambda: self._go_to(0))

    @property
    def asked(self) -> dict[str, Any]:
        """What the REST interface is asked with."""
        search = {} if self._search is None else {"search": self._search.value}
        return {**search, "page": self._page, "size": self._size}

    def show(self, shown: int, total: int) -> None:
        """Say which of how many are shown."""
        first = self._page * self._size
        self._where.text = f"{count(first + 1)} to {count(first + shown)} of {count(total)}" if shown else ""
        self._back.set_visibility(self._page > 0)
        self._on.set_visibility(first + shown < total)

    async def begin(self) -> None:
        """Go to the first page, as what is listed is now chosen otherwise."""
        await self._go_to(0)

    async def _turn(self, pages: int) -> None:
        await self._go_to(max(0, self._page + pages))

    async def _go_to(self, page: int) -> None:
        self._page = page
        if self._reload is not None:
            await self._reload()
