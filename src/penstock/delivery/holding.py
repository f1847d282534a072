"""A file that one running process holds, and which process that is.

Two locks of the system, both of which end with the process, however it dies. `flock` on the file itself keeps everybody
else out, other threads of this process included. A record lock on a second file names the holder: the system says the
process id, so it is never that of another process which got the number later.
"""

import fcntl
import os
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil

from penstock.private import OWNER_ONLY, make_missing_private

_ASKED = "hhqqi"  # struct flock: type, whence, start, length, process id
_own: set[Path] = set()


@contextmanager
def held(path: Path) -> Iterator[None]:
    """Hold a file; raise BlockingIOError if another process does."""
    make_missing_private(path.parent)
    lock = os.open(path, os.O_RDWR | os.O_CREAT, OWNER_ONLY)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        name = os.open(_named(path), os.O_RDWR | os.O_CREAT, OWNER_ONLY)
        try:
            fcntl.lockf(name, fcntl.LOCK_EX)
            _own.add(path.resolve())
            yield
        finally:
            _own.discard(path.resolve())
            os.close(name)
    finally:
        os.close(lock)


def holder(path: Path) -> psutil.Process | None:
    """Return the process that holds a file; None if nobody does."""
    if path.resolve() in _own:
        # Closing the file once more would give up the lock: record locks are the process's, not the descriptor's.
        return psutil.Process()
    found = _asked(path)
    try:
        process = psutil.Process(found) if found else None
    except psutil.NoSuchProcess:
        return None
    # Asked again: only if the number still holds the file, the process looked up is the one that it belongs to.
    return process if found == _asked(path) else None


def _asked(path: Path) -> int:
    try:
        descriptor = os.open(_named(path), os.O_RDONLY)
    except FileNotFoundError:
        return 0
    try:
        answer = fcntl.fcntl(descriptor, fcntl.F_GETLK, struct.pack(_ASKED, fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0))
    finally:
        os.close(descriptor)
    kind, _, _, _, pid = struct.unpack(_ASKED, answer)
    return 0 if kind == fcntl.F_UNLCK else int(pid)


def _named(path: Path) -> Path:
    return path.with_suffix(".holder")
