"""Questions that lie above a page."""

from collections.abc import Callable
from typing import Any

from nicegui import ui

from penstock.console.pages.frame import heading


def ask(title: str, text: str) -> tuple[Any, Any]:
    """Open a dialog; return it, and the card that takes what is asked for. It is gone once it is closed."""
    dialog = ui.dialog(value=True)
    dialog.on("hide", dialog.delete)
    with dialog, ui.card() as card:
        heading(title, 2)
        ui.label(text).classes("soft")
    return dialog, card


def ends(dialog: Any, name: str, do: Callable[[], Any], *, deletes: bool = False) -> None:
    """Draw the two ways out."""
    with ui.element("div").classes("ends"):
        ui.button("Cancel", on_click=dialog.close).props("flat color=grey no-caps")
        ui.button(name, on_click=do).props(f"unelevated no-caps color={'negative' if deletes else 'primary'}")
