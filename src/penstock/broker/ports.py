"""Ports: whether one is free, who has it, and finding free ones."""

import contextlib
import errno
import random
import socket
from collections.abc import Iterable

import psutil

from penstock.errors import BadInput, Conflict

_KEPT_PORTS = range(15_000, 32_000)


def require_free(host: str, ports: Iterable[int]) -> None:
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
                raise Conflict(
                    f"port {port} on {host} is in use{_holder(port)}",
                    safe="Nothing was started",
                    fix="Free it, or choose another one: as `port` of the cluster in penstock.yaml, or, without"
                    " such a file, with: penstock up --port PORT",
                ) from None


def find_free(host: str, count: int) -> list[int]:
    """Return free ports below those that the system lends to outgoing connections.

    A node that is down would otherwise find its port taken by some client when it comes back.
    """
    found: list[int] = []
    for port in random.sample(_KEPT_PORTS, len(_KEPT_PORTS)):
        if len(found) == count:
            return found
        with socket.socket() as attempt, contextlib.suppress(OSError):
            attempt.bind((host, port))
            found.append(port)
    raise Conflict(f"no {count} free ports between {_KEPT_PORTS[0]} and {_KEPT_PORTS[-1]} on {host}")


def _holder(port: int) -> str:
    try:
        for connection in psutil.net_connections("tcp"):
            if connection.status == psutil.CONN_LISTEN and connection.laddr[1:] == (port,) and connection.pid:
                return f" by {psutil.Process(connection.pid).name()} (process {connection.pid})"
    except (psutil.Error, OSError):
        pass
    return ""
