"""How a scenario or drill ended, as its command says with `--json`."""

from pathlib import Path
from typing import Any

import orjson
from pydantic import BaseModel, Field

from penstock.driver.log_files import last_lines

_STEPS = "steps"
_DIFFERENCES = "differences"


class Verdict(BaseModel, frozen=True):
    """What came out, and whether that is what had to."""

    is_right: bool = Field(description="Whether nothing differs, and every step of a drill passed.")
    figures: dict[str, int | float | str] = Field(description="Single values, such as events and seconds.")
    tables: dict[str, list[dict[str, Any]]] = Field(
        description="standings (the podium beside the truth), sinks, facts, reasons, differences; ways and accounts of"
        " midnight; steps of a drill."
    )


def read_verdict(path: Path) -> Verdict | None:
    """Read what a command has written; None if that is not whole."""
    try:
        found = orjson.loads(path.read_bytes())
    except (OSError, orjson.JSONDecodeError):
        return None
    if isinstance(found, list):
        return Verdict(is_right=all(each["passed"] for each in found), figures={}, tables={_STEPS: found})
    return Verdict(
        is_right=not found.get(_DIFFERENCES),
        figures={name: value for name, value in found.items() if isinstance(value, int | float | str)},
        tables={name: value for name, value in found.items() if isinstance(value, list)},
    )


def why_failed(said: Path) -> str:
    """Return the error of a command that came to no verdict: the last line that it said, a JSON object or not."""
    (last,) = last_lines(said, 1) or [""]
    try:
        parsed = orjson.loads(last)
    except orjson.JSONDecodeError:
        parsed = None
    if isinstance(parsed, dict) and "error" in parsed:
        return str(parsed["error"])
    return last or "it ended without any output"
