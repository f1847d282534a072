"""Files and folders that only their owner reads, whatever the umask."""

import os
import stat
from pathlib import Path
from typing import BinaryIO

OWNER_ONLY = 0o600
_OWNER_ONLY_FOLDER = 0o700
OWNER_ONLY_SHELL = ("/bin/sh", "-c", 'umask 077; exec "$0" "$@"')
"""Stands before a command, so that what that makes is its owner's alone; the process then becomes the command."""


def write_private(path: Path, content: bytes) -> None:
    """Write a file that only its owner reads, from its first byte on; after a crash it is the old one or the new."""
    make_missing_private(path.parent)
    aside = path.with_name(path.name + ".new")
    aside.unlink(missing_ok=True)
    with open_private(aside) as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    aside.replace(path)


def open_private(path: Path) -> BinaryIO:
    """Open a file that is not there yet, for its owner alone."""
    return os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, OWNER_ONLY), "wb")


def make_private(folder: Path) -> None:
    """Make a folder of ours, or close one that is there, so that nobody else reaches what is in it."""
    make_missing_private(folder)
    found = folder.stat()
    if stat.S_IMODE(found.st_mode) & ~_OWNER_ONLY_FOLDER and found.st_uid == os.geteuid():
        folder.chmod(_OWNER_ONLY_FOLDER)


def make_missing_private(folder: Path) -> None:
    """Make a folder and those above it for their owner alone; `mkdir(parents=True)` would leave those above open."""
    if not folder.exists():
        make_missing_private(folder.parent)
        folder.mkdir(mode=_OWNER_ONLY_FOLDER, exist_ok=True)
