"""The commits in the log of a Delta table, as they are written there."""

from pathlib import Path
from typing import Any

import orjson

Actions = list[dict[str, Any]]


def commit_file(path: Path, version: int) -> Path:
    """Return where the commit of a version is, if it is there."""
    return path / "_delta_log" / f"{version:020d}.json"


def actions_in(text: bytes) -> Actions:
    """Return the actions of a commit, without what is null there; raise `ValueError` if it is none."""
    lines = [orjson.loads(line) for line in text.splitlines() if line.strip()]
    if not all(isinstance(each, dict) for each in lines):
        raise ValueError("a line that is no action")
    return [{name: value for name, value in each.items() if value is not None} for each in lines]
