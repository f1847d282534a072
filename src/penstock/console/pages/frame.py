"""What every page has: who looks at it, the bar at its top, the theme, and how it says what goes wrong."""

import datetime
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlencode

from fastapi import FastAPI, Request
from fastapi.responses import RedirectResponse
from nicegui import ui

from penstock.console.asking import SESSION_COOKIE, Asker, recognise
from penstock.console.pages.clicks import Clicks
from penstock.console.pages.client import Client, Failed
from penstock.console.pages.wording import zone_of
from penstock.console.users import Role

UNKNOWN = "Not known at the moment"
_LOADING = "Loading …"
THEME_COOKIE = "penstock_theme"
_EVERY_S = 5.0
_LINKS = (
    ("Overview", "/"),
    ("Topics", "/topics"),
    ("Groups", "/groups"),
    ("Pipelines", "/pipelines"),
    ("Dead letters", "/dead-letters"),
    ("Tables", "/tables"),
    ("Lineage", "/lineage"),
    ("Schemas", "/schemas"),
    ("Connectors", "/connectors"),
    ("Nodes", "/nodes"),
    ("Lab", "/lab"),
)
_PATHS = dict(_LINKS)
_OWN = "This project's"
_FOR_ADMINS = (("Access", "/access"),)
_THEMES = {"dark": True, "light": False}
_KEEP_THEME = "document.cookie = 'penstock_theme={}; path=/; max-age=31536000; samesite=strict'"
_SHOW_PLACE = "document.querySelector('.links .here')?.scrollIntoView({inline: 'center', block: 'nearest'})"
_ZONE = "Intl.DateTimeFormat().resolvedOptions().timeZone"


class Frame:
    """One open page."""

    def __init__(self, app: FastAPI, request: Request, asker: Asker, *, of_cluster: bool = False) -> None:
        self.asker = asker
        self.query = dict(request.query_params)
        """What the address asks for behind its `?`."""
        self.cluster = self.query.get("cluster", "")
        """The cluster that is chosen; empty for the project's own."""
        self._of_cluster = of_cluster
        chosen, address = self.cluster if of_cluster else "", request.client or ("", 0)
        self.client = Client(app, request.cookies.get(SESSION_COOKIE), chosen, (address[0], address[1]))
        self._clusters: list[str] = sorted(app.state.console.clusters)
        self.zone: datetime.tzinfo = datetime.UTC
        self._theme = _THEMES.get(request.cookies.get(THEME_COOKIE, ""))
        self._signs_in = app.state.console.sign_in is not None
        self.has_downloads: bool = app.state.console.has_downloads
        self._problem: Any = None
        self._tables: list[tuple[Any, int, str]] = []
        self._labels: list[Any] = []
        self._knows_zone = False
        self.clicks = Clicks()
        self.on_theme: list[Callable[[bool], None]] = []
        """Called with whether it is dark, when somebody chooses another theme."""

    def may(self, role: Role) -> bool:
        """Return whether whoever looks may do what takes this role."""
        return self.asker.may(role)

    def address(self, path: str) -> str:
        """Return the address of a page with the cluster that is chosen."""
        if not self.cluster:
            return path
        return f"{path}{'&' if '?' in path else '?'}{urlencode({'cluster': self.cluster})}"

    def keep_address(self, path: str, **chosen: Any) -> None:
        """Put what is chosen on a page into its address, to be shared, and for whoever comes back to it."""
        given = {name: value for name, value in chosen.items() if value not in {None, "", 0}}
        ui.navigate.history.replace(self.address(f"{path}?{urlencode(given)}" if given else path))

    def draw_bar(self, here: str) -> None:
        """Draw the top of the page."""
        ui.add_head_html('<link rel="stylesheet" href="/static/console.css">')
        ui.colors(primary="#1d5fd1", positive="#1b7f4b", negative="#b42318", warning="#9a6200", dark_page="#131519")
        theme = ui.dark_mode(self._theme)
        with ui.element("header").classes("bar"):
            ui.link("Penstock", self.address("/")).classes("brand")
            if self._clusters:
                self._draw_clusters(here)
            with ui.element("nav").classes("links").props('aria-label="Pages"'):
                for name, path in (*_LINKS, *(_FOR_ADMINS if self.may("admin") else ())):
                    link = ui.link(name, self.address(path))
                    if name == here:
                        link.classes("here").props('aria-current="page"')
            if self._signs_in:
                ui.label(f"{self.asker.name} ({self.asker.role})").classes("who")
                leave = ui.element("form").props('method="post" action="/sign-out"')
                with leave, ui.element("button").classes("open who").props('type="submit"'):
                    ui.label("Sign out")

            async def turn() -> None:
                theme.value = not await self.is_dark()  # it may be the system's until now
                ui.run_javascript(_KEEP_THEME.format("dark" if theme.value else "light"))
                for each in self.on_theme:
                    each(bool(theme.value))

            ui.run_javascript(_SHOW_PLACE)
            ui.button(icon="contrast", on_click=turn).props('flat round dense color=grey aria-label="Light or dark"')

    def _draw_clusters(self, here: str) -> None:
        """Draw the choice of a cluster; it leads to the page that lists what is here."""

        def choose(event: Any) -> None:
            self.cluster = event.value
            ui.navigate.to(self.address(_PATHS.get(here, "/")))

        known = {"": _OWN, **{each: each for each in self._clusters}}
        chosen = self.cluster if self.cluster in known else None
        choice = ui.select(known, value=chosen, on_change=choose).classes("clusters")
        choice.props('outlined dense options-dense aria-label="Cluster"')

    @contextmanager
    def main(self) -> Iterator[None]:
        """Hold what the page is about; above it is what goes wrong, if anything does."""
        with ui.element("main").classes("main"):
            self._problem = ui.element("div").props('role="status"')
            if self.cluster and not self._of_cluster:
                with ui.element("div").classes("concern good"):
                    ui.label("Cluster").classes("mark")
                    text = "This page belongs to the project, and shows its own cluster"
                    ui.label(f"{text}, not {self.cluster}.").classes("words")
            yield

    def keep_fresh(self, load: Callable[[], Awaitable[None]], every_s: float = _EVERY_S) -> Callable[[], Any]:
        """Load as soon as the browser is there, and again every few seconds; return what loads at once."""

        async def load_or_say() -> None:
            try:
                if not self._knows_zone:
                    self.zone = zone_of(await ui.run_javascript(f"return {_ZONE}", timeout=5.0))
                    self._knows_zone = True
                await load()
            except Failed as failure:
                self._say(str(failure))
            except TimeoutError:
                return  # the browser has gone, or is busy: the next time will tell
            else:
                self.is_loaded()
                self._problem.clear()

        ui.timer(every_s, load_or_say)
        return load_or_say

    async def is_dark(self) -> bool:
        """Ask the browser whether it shows the dark theme, which may be that of its system."""
        try:
            return bool(await ui.run_javascript("return document.body.classList.contains('body--dark')", timeout=5.0))
        except TimeoutError:
            return False

    def load_once(self, load: Callable[[], Awaitable[None]]) -> None:
        """Load as soon as the browser is there, and not again by itself."""

        async def begin() -> None:
            try:
                self.zone = zone_of(await ui.run_javascript(f"return {_ZONE}", timeout=5.0))
            except TimeoutError:
                return
            await load()

        ui.timer(0, begin, once=True)

    def table(self, columns: list[Any], row_key: str, empty: str, rows_per_page: int = 50) -> Any:
        """Draw a table that is loading until it gets rows, and that says so if there are none."""
        table = ui.table(columns=columns, rows=[], row_key=row_key, pagination=rows_per_page)
        table.props("flat dense loading").props["no-data-label"] = empty
        table.props["rows-per-page-label"] = "Rows"
        self._tables.append((table, rows_per_page, empty))
        return table

    def loading_label(self) -> Any:
        """Draw a text that is loading until it is set, and that is not known if loading fails."""
        label = ui.label(_LOADING)
        self._labels.append(label)
        return label

    def when_empty(self, table: Any, words: str) -> None:
        """Say something else in a table that has no rows."""
        self._tables = [(each, rows, words if each is table else empty) for each, rows, empty in self._tables]

    def is_loaded(self) -> None:
        """Say that all tables have what there is."""
        for table, rows_per_page, empty in self._tables:
            table.props(remove="loading").props["no-data-label"] = empty
            if rows_per_page:
                fits = len(table.rows) <= rows_per_page
                table.props(add="hide-pagination") if fits else table.props(remove="hide-pagination")

    def _say(self, text: str) -> None:
        self.is_loaded()
        for table, _, _ in self._tables:
            table.props["no-data-label"] = UNKNOWN  # that it is empty is not known, either
        for label in self._labels:
            label.text = UNKNOWN if label.text == _LOADING else label.text
        self._problem.clear()
        with self._problem, ui.element("div").classes("concern error"):
            ui.label("Error").classes("mark")
            ui.label(text[:1].upper() + text[1:]).classes("words")

    async def act(self, do: Callable[[], Awaitable[Any]], done: str) -> Any:
        """Do something and say so; None if it failed, which is said, too."""
        try:
            answer = await do()
        except Failed as failure:
            ui.notify(str(failure), type="negative", multi_line=True, close_button="Close", timeout=0)
            return None
        if done:
            ui.notify(done, type="positive")
        return answer


def heading(text: str, level: int) -> None:
    """Draw a heading; whatever is in it is text."""
    ui.label(text).classes(f"h{level}").props(f'role="heading" aria-level="{level}"')


def log_panel() -> Any:
    """Draw the place of a log, which shows the end of it; return what takes its text."""
    with ui.element("div").classes("panel log"):
        return ui.label().classes("mono")


def figures_in(place: Any, shown: list[tuple[str, str]]) -> None:
    """Draw the figures of a page, each above its name."""
    place.clear()
    with place:
        for name, value in shown:
            with ui.element("div").classes("figure"):
                ui.label(value).classes("value")
                ui.label(name).classes("soft small")


def register(
    app: FastAPI, path: str, title: str, draw: Callable[..., Awaitable[None]], *, of_cluster: bool = False
) -> None:
    """Put a page at a path, for whoever is let in; others are sent to the sign-in.

    A page of a cluster shows the one that its address names, all others the project's own.
    """

    async def show(request: Request) -> RedirectResponse | None:
        asker = recognise(app.state.console, request.cookies.get(SESSION_COOKIE))
        if asker is None:
            return RedirectResponse("/sign-in", status_code=303)
        if named := "".join(request.path_params.values()):
            ui.page_title(f"{named} · {title} · Penstock")
        await draw(Frame(app, request, asker, of_cluster=of_cluster), **request.path_params)
        return None

    ui.page(path, title=f"{title} · Penstock")(show)
