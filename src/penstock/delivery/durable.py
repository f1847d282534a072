"""Small files that survive a crash: written aside, flushed to disk, then put in place whole."""

import os
from pathlib import Path
from typing import Any

import orjson


def write_json(path: Path, data: Any) -> None:
    """Replace `path` in one step: after a crash it holds either what was there or all of this."""
    path.parent.mkdir(parents=True, exist_ok=True)
    aside = path.with_name(f".{path.name}.{os.getpid()}")
    with aside.open("wb") as file:
        file.write(orjson.dumps(data, option=orjson.OPT_INDENT_2))
        file.flush()
        os.fsync(file.fileno())
    aside.replace(path)
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Make names in a folder durable, not only the files behind them."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
