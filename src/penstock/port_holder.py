"""Which process listens on a port of this machine, where the system shows it."""

import errno
import os
import socket
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

if TYPE_CHECKING:
    import psutil

_OURS = "penstock"
_ROOT = 0
_TABLES = (Path("/proc/net/tcp"), Path("/proc/net/tcp6"))
_LISTENS = "0A"
_MAPPED = f"{0:016X}FFFF0000"
"""What the kernel writes before an IPv4 address of a socket of IPv6's kind, as Java has them."""


def port_holder(port: int) -> "psutil.Process | None":
    """Return the process that listens on a port; None if it is somebody else's, or nobody does."""
    import psutil

    with suppress(psutil.Error, OSError):
        for connection in psutil.net_connections("tcp"):
            if connection.status == psutil.CONN_LISTEN and connection.laddr[1:] == (port,) and connection.pid:
                return psutil.Process(connection.pid)
    return None


def require_own_listener(url: str) -> None:
    """Raise `ConnectionRefusedError` unless a program of this user, or of root, listens at an IPv4 address of here.

    It is asked before a login is shown there without TLS. While a server starts, or is away, its port is anybody's on
    this machine, who would be told the login. One that is seen listening keeps the port to its end.
    """
    if sys.byteorder != "little" or not _TABLES[0].exists():  # who listens is not to be seen, or written otherwise
        return
    parts = urlsplit(url)
    place = socket.inet_aton(parts.hostname or "")[::-1].hex().upper()
    found = {place: owner for table in _TABLES for place, owner in _listeners(table, parts.port or 0)}
    # Of several, the one with the exact address gets the connections.
    owner = next((found[each] for each in (place, _MAPPED + place, f"{0:08X}", f"{0:032X}") if each in found), None)
    if owner is None:
        raise ConnectionRefusedError(errno.ECONNREFUSED, os.strerror(errno.ECONNREFUSED))
    if owner not in {_ROOT, os.geteuid()}:
        raise ConnectionRefusedError(
            errno.ECONNREFUSED, f"a program of another user ({owner}) has the port, and was shown no login"
        )


def _listeners(table: Path, port: int) -> Iterator[tuple[str, int]]:
    """Yield address and owner of each socket that listens on a port; the kernel lists them before all connections."""
    with suppress(FileNotFoundError), table.open(encoding="ascii") as lines:
        next(lines)
        for line in lines:
            words = line.split()
            if words[3] != _LISTENS:
                return
            place, _, number = words[1].partition(":")
            if int(number, 16) == port:
                yield place, int(words[7])


def shown(holder: "psutil.Process | None") -> str:
    """Name a process for people; nothing for none, or one that is gone."""
    import psutil

    with suppress(psutil.Error):
        return f"{_name(holder)} (process {holder.pid})" if holder is not None else ""
    return ""


def _name(process: "psutil.Process") -> str:
    """Name a program; of our own, which is a script of Python's, the command."""
    words = iter(process.cmdline())
    if any(Path(word).name == _OURS for word in words):
        command = next(words, "-")
        return _OURS if command.startswith("-") else f"{_OURS} {command}"
    return process.name()
