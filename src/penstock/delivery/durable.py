"""Small files that survive a crash: written aside, flushed to disk, then put in place whole."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import orjson

from penstock.errors import Conflict
from penstock.private import make_missing_private, open_private


def write_json(path: Path, data: Any) -> None:
    """Replace `path` with readable JSON, in one step."""
    write_bytes(path, orjson.dumps(data, option=orjson.OPT_INDENT_2))


def write_bytes(path: Path, data: bytes) -> None:
    """Replace `path`, for its owner alone, in one step: after a crash it holds either what was there or all of this."""
    make_missing_private(path.parent)
    aside = path.with_name(f".{path.name}.{os.getpid()}")
    aside.unlink(missing_ok=True)
    with open_private(aside) as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    aside.replace(path)
    sync(path.parent)


def make_folder(path: Path) -> None:
    """Make a folder that a sink writes to, unless it is there."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError):
        raise Conflict(
            f"{path} cannot be a folder: a file is in its place",
            safe="Nothing was written",
            fix="Write to another path",
        ) from None


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold the lock file for one process of this machine, and wait for it; the system lets go when a process dies."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def sync(path: Path) -> None:
    """Make a file durable, or the names in a folder, not only the files behind them."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
