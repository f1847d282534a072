"""Files and folders that only their owner reads, whatever the umask; and whose those are that are found."""

import grp
import os
import pwd
import secrets
import stat
from pathlib import Path
from typing import BinaryIO

from penstock.errors import Conflict

OWNER_ONLY = 0o600
_AS_UMASK_SAYS = 0o666
_OWNER_ONLY_FOLDER = 0o700
_OWNER_WRITES, _OWNER_WRITES_FOLDER = 0o644, 0o755
_ROOT = 0
OWNER_ONLY_SHELL = ("/bin/sh", "-c", 'umask 077; exec "$0" "$@"')
"""Stands before a command, so that what that makes is its owner's alone; the process then becomes the command."""


def write_private(path: Path, content: bytes) -> None:
    """Write a file that only its owner reads, from its first byte on; after a crash it is the old one or the new."""
    make_missing_private(path.parent)
    temporary = path.with_name(path.name + ".new")
    temporary.unlink(missing_ok=True)
    with open_private(temporary) as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)


def replace_file(path: Path, content: bytes) -> None:
    """Write a file that its user has named, whole, with the mode that the umask gives; a link there is not followed.

    Whoever may write to the folder could have put one there, to have a file of the user's overwritten.
    """
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    try:
        with os.fdopen(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _AS_UMASK_SAYS), "wb") as file:
            file.write(content)
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


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
        try:
            folder.mkdir(mode=_OWNER_ONLY_FOLDER)
        except FileExistsError:  # somebody was faster
            if (why := distrust(folder)) is not None:
                raise Conflict(
                    f"{folder} {why}", safe="Nothing was written there", fix="Use a folder that only you write to"
                ) from None


def make_missing_public(folder: Path) -> None:
    """Make a folder and those above it for all to read and for their owner alone to write, whatever the umask."""
    if not folder.exists():
        make_missing_public(folder.parent)
        folder.mkdir(mode=_OWNER_WRITES_FOLDER, exist_ok=True)


def make_public(place: Path) -> None:
    """Let all read a file, or a folder with what is in it, and its owner alone write, whatever the umask."""
    for path in (place, *place.rglob("*")):
        path.chmod(_OWNER_WRITES_FOLDER if path.is_dir() else _OWNER_WRITES)


def distrust(place: Path) -> str | None:
    """Return why somebody else could have put this there or can change it; None if only this user and root can.

    Of a link both count, the link and what it leads to. In a folder with the sticky bit, such as /tmp, nobody moves
    what belongs to others, so everybody may write to it. A group of the user's name without other members is the user.
    """
    try:
        looked_at = (place.lstat(), place.stat())
    except OSError as error:
        return f"leads nowhere ({error.strerror})"
    for found in looked_at:
        if _is_strangers(found):
            return f"belongs to another user ({found.st_uid})"
        if stat.S_ISLNK(found.st_mode) or (stat.S_ISDIR(found.st_mode) and found.st_mode & stat.S_ISVTX):
            continue
        if found.st_mode & stat.S_IWOTH:
            return "is writable by everybody"
        if found.st_mode & stat.S_IWGRP and not _is_own_group(found.st_gid):
            return f"is writable by a group ({found.st_gid})"
    return None


def is_strangers(place: Path) -> bool:
    """Return whether a place, or what it leads to if it is a link, belongs to neither the user nor root.

    What cannot be looked at, because it has just gone, is nothing of ours either.
    """
    try:
        return any(map(_is_strangers, (place.lstat(), place.stat())))
    except OSError:
        return True


def _is_strangers(found: os.stat_result) -> bool:
    return found.st_uid not in {_ROOT, os.geteuid()}


def distrust_way(place: Path) -> str | None:
    """Return which folder or link on the way to a place, or the place itself, is not to be trusted, and why.

    For programs: whoever may rename one of the folders above can put another program in their place.
    """
    place = place.absolute()
    for step in (*reversed(place.parents), place):
        if (why := distrust(step)) is not None:
            return f"{step} {why}"
        if step.is_symlink() and (why := distrust_way(step.parent / step.readlink())) is not None:
            return why
    return None


def _is_own_group(group_id: int) -> bool:
    try:
        group, user = grp.getgrgid(group_id), pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        return False
    return group.gr_name in {user, "root"} and set(group.gr_mem) <= {user}
