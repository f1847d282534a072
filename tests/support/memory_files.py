"""Temporary files in memory: a unit test need not wait for a disk.

What the product syncs to disk before it goes on is synced here, too, and a file system in memory does that at once.
"""

import os
import shutil
import tempfile
from pathlib import Path

_MEMORY = Path("/dev/shm")  # noqa: S108 - whoever makes files below it chooses names that nobody can guess
_NEEDED_BYTES = 2_000_000_000


def use_memory_for_files() -> None:
    """Let this process and those that it starts make temporary files in memory, if there is a place with enough of it.

    Some containers have only 64 MB there, or let nothing be run from there, which tests do.
    """
    if not os.access(_MEMORY, os.W_OK) or shutil.disk_usage(_MEMORY).free < _NEEDED_BYTES:
        return
    if not _flags(_MEMORY) & os.ST_NOEXEC:
        os.environ["TMPDIR"] = str(_MEMORY)
        tempfile.tempdir = None


def _flags(folder: Path) -> int:
    return os.statvfs(folder).f_flag
