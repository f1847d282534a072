"""Who listens on a port of this machine, where that can be seen."""

from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import psutil

_OURS = "penstock"


def port_holder(port: int) -> "psutil.Process | None":
    """Return the process that listens on a port; None if it is somebody else's, or nobody does."""
    import psutil

    with suppress(psutil.Error, OSError):
        for connection in psutil.net_connections("tcp"):
            if connection.status == psutil.CONN_LISTEN and connection.laddr[1:] == (port,) and connection.pid:
                return psutil.Process(connection.pid)
    return None


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
