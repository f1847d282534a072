"""What a check has found in a pipeline's file, line by line."""

from typing import Any

from nicegui import ui


def draw_findings(found: dict[str, Any]) -> None:
    """Draw mistakes, then warnings, each marked with its line in the file or with what it is."""
    for level, lines in (("error", found["mistakes"]), ("warning", found["warnings"])):
        for line in lines:
            has_line = line[:1].isdigit()
            with ui.element("div").classes(f"concern {level}"):
                ui.label(f"Line {line.partition(':')[0]}" if has_line else level.capitalize()).classes("mark")
                ui.label(line.partition(":")[2].strip() if has_line else line).classes("words")
