"""What a check has found in a pipeline's file, line by line."""

import re
from typing import Any

from nicegui import ui

_PLACE = re.compile(r"(\d+):(\d+): ")


def draw_findings(found: dict[str, Any]) -> None:
    """Draw mistakes, then warnings, each marked with its line in the file or with what it is."""
    for level, lines in (("error", found["mistakes"]), ("warning", found["warnings"])):
        for line in lines:
            place = _PLACE.match(line)
            with ui.element("div").classes(f"concern {level}"):
                ui.label(f"Line {place[1]}, column {place[2]}" if place else level.capitalize()).classes("mark")
                ui.label(line[place.end() :] if place else line).classes("words")
