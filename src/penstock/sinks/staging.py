"""Where the tasks of one driver stage files: a folder of its own below the table's, which nobody else can read.

Guarantee: nothing is left behind. Files of attempts that lost go after each commit, those of a driver that was killed
when the next one opens the table. A driver is known to be alive by the lock that it holds in its folder.
"""

import fcntl
import os
import re
import shutil
import stat
import uuid
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from penstock.delivery.durable import locked, make_folder
from penstock.errors import Conflict

_FOLDER = ".staging"
_LOCK = "lock"
_NAME = re.compile("[0-9a-f]{32}")


class Staging:
    """The folder of one driver at one sink."""

    def __init__(self, table: Path) -> None:
        self.path = table / _FOLDER / uuid.uuid4().hex
        self._held: int | None = None

    def open(self, settle: Callable[[Path], None]) -> None:
        """Make the folder, and remove those of drivers that are gone; `settle` gets each of these first."""
        every = self.path.parent
        make_folder(every.parent)
        with suppress(FileExistsError):
            every.mkdir(mode=0o700)
        _require_own(every)
        # One at a time: a folder that is being made has no holder yet, and must not be taken for one that is left.
        with locked(every / _LOCK):
            for other in [each for each in every.iterdir() if _NAME.fullmatch(each.name)]:
                if (held := _hold(other)) is not None:
                    settle(other)
                    shutil.rmtree(other, ignore_errors=True)
                    os.close(held)
            self.path.mkdir(mode=0o700)
            self._held = _hold(self.path)

    def clear(self) -> None:
        """Remove what lies here: after a commit, all of it is of attempts that lost."""
        for path in self.path.glob("*"):
            if path.name != _LOCK:
                path.unlink(missing_ok=True)

    def close(self, *, keep: bool = False) -> None:
        """Remove the folder, or leave it to the next driver that opens the table."""
        if self._held is not None:
            if not keep:
                shutil.rmtree(self.path, ignore_errors=True)
            os.close(self._held)
            self._held = None


def _require_own(folder: Path) -> None:
    """Raise if the folder is a link or somebody else's: what is removed from it would be another's."""
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid():
        raise Conflict(
            f"{folder} is not a folder of yours",
            safe="Nothing was written or removed",
            fix="Remove it, and let nobody else write to the folder that it is in",
        )
    folder.chmod(0o700)


def _hold(folder: Path) -> int | None:
    """Take the lock of a folder; None if a driver has it."""
    try:
        descriptor = os.open(folder / _LOCK, os.O_RDWR | os.O_CREAT, 0o600)
    except FileNotFoundError:  # its driver has just removed it
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        return None
    return descriptor
