"""Ports: whether one is free, who has it, and finding free ones."""

import contextlib
import errno
import secrets
import socket
from collections.abc import Iterable

from penstock.errors import BadInput, Conflict
from penstock.port_holder import port_holder, shown

_KEPT_PORTS = range(15_000, 32_000)


_NEW_CLUSTERS = (
    "Free it, or choose another one: as `port` of the cluster in penstock.yaml, or, without such a file, with:"
    " penstock up --port PORT"
)
CLUSTERS_THAT_ARE_THERE = (
    "Free it, and run: penstock up. A cluster keeps the ports that it was made with; another one, with data of its own,"
    " is made with: penstock --home FOLDER up --port PORT"
)


def require_free(
    host: str, ports: Iterable[int], *, safe: str = "Nothing was started", fix: str = _NEW_CLUSTERS
) -> None:
    """Raise `Conflict` for the first port that is taken, naming who has it where that can be seen."""
    for port in ports:
        with socket.socket() as attempt:
            # As Kafka binds: a port in TIME_WAIT is free, a listening one is not.
            attempt.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                attempt.bind((host, port))
            except OSError as error:
                if isinstance(error, socket.gaierror) or error.errno == errno.EADDRNOTAVAIL:
                    raise BadInput(f"{host} is not an address of this machine") from None
                if error.errno == errno.EACCES:
                    raise BadInput(f"only root may listen on port {port}", fix="Choose one above 1023") from None
                holder = shown(port_holder(port))
                raise Conflict(
                    f"port {port} on {host} is in use{f' by {holder}' if holder else ''}",
                    safe=safe,
                    fix=fix,
                ) from None


def find_free(host: str, count: int) -> list[int]:
    """Return free ports below those that the system lends to outgoing connections.

    A node that is down would otherwise find its port taken by some client when it comes back.
    """
    found: list[int] = []
    # Of the system's chance: programs that seed theirs alike would all take the port of a node that is down.
    for port in secrets.SystemRandom().sample(_KEPT_PORTS, len(_KEPT_PORTS)):
        if len(found) == count:
            return found
        with socket.socket() as attempt, contextlib.suppress(OSError):
            attempt.bind((host, port))
            found.append(port)
    raise Conflict(f"no {count} free ports between {_KEPT_PORTS[0]} and {_KEPT_PORTS[-1]} on {host}")
