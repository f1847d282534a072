"""Small files that survive a crash: written under another name, synced to disk, then renamed into place."""

import fcntl
import os
import shlex
import time
from collections.abc import Collection, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import orjson

from penstock.errors import Conflict, SinkUnavailable
from penstock.private import OWNER_ONLY, make_missing_private, open_private
from penstock.record import formats

_LONGEST_WAIT_S = 60.0
_LOOK_EVERY_S = 0.01
_ROOT = 0
_SYNCS_AT_ONCE = 16


def write_json(path: Path, data: Any) -> None:
    """Replace `path` with readable JSON, in one step."""
    write_bytes(path, orjson.dumps(data, option=orjson.OPT_INDENT_2))


def write_versioned(path: Path, version: int, data: Mapping[str, Any]) -> None:
    """Replace `path` with readable JSON that says its format version, in one step."""
    write_json(path, {formats.KEY: version, **data})


def read_versioned(path: Path, version: int, *, otherwise: str = "") -> dict[str, Any]:
    """Read what `write_versioned` wrote.

    Raise `FormatNotUnderstood` if it has another version, `ValueError` if it is damaged, `OSError` if it is not there.
    """
    data = orjson.loads(path.read_bytes())
    if not isinstance(data, dict):
        raise ValueError(f"{path.name} is not a JSON object")  # noqa: TRY004 - damaged like any other
    formats.require_format(str(path), data.pop(formats.KEY, None), version, otherwise=otherwise)
    return data


def write_bytes(path: Path, data: bytes) -> None:
    """Replace `path`, for its owner alone, in one step: after a crash it has either the old or the new content."""
    make_missing_private(path.parent)
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    temporary.unlink(missing_ok=True)
    with open_private(temporary) as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)
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
    """Wait for the lock file and hold it; the kernel releases it when the process dies.

    Whoever may read a file may lock it forever, so only its owner can read it, and the wait is limited. A file that
    somebody else has created is refused, unless the folder is theirs, too.
    """
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, OWNER_ONLY)
    except PermissionError:
        if not path.exists():
            raise
        raise _not_ours(path) from None
    try:
        owner = os.fstat(descriptor).st_uid
        if owner not in {os.geteuid(), _ROOT, path.parent.stat().st_uid}:
            raise _not_ours(path)
        if owner == os.geteuid():
            os.fchmod(descriptor, OWNER_ONLY)  # it was there, with another mode
        deadline = time.monotonic() + _LONGEST_WAIT_S
        while not _is_held(descriptor):
            if time.monotonic() > deadline:
                raise SinkUnavailable(
                    f"another process has held the lock {path} for {_LONGEST_WAIT_S:.0f} s",
                    safe="Nothing was written",
                    fix=f"See which one it is with: fuser -v {shlex.quote(str(path))}",
                )
            time.sleep(_LOOK_EVERY_S)
        yield
    finally:
        os.close(descriptor)


def _not_ours(path: Path) -> Conflict:
    return Conflict(
        f"the lock {path} belongs to another user, who could hold it forever",
        safe="Nothing was written",
        fix="Run the pipeline as the user who writes to that folder, or, if nobody else does, remove the file",
    )


def _is_held(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def sync_all(paths: Collection[Path]) -> None:
    """Make many files or folders durable, several at a time: a disk needs fewer steps for that than one by one."""
    if len(paths) <= 1:
        for path in paths:
            sync(path)
        return
    with ThreadPoolExecutor(min(len(paths), _SYNCS_AT_ONCE)) as pool:
        for _ in pool.map(sync, paths):
            pass


def sync(path: Path) -> None:
    """Make a file durable, or the names in a folder besides the files themselves."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
