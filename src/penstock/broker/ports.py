"""Ports: whether one is free, who has it, and finding free ones."""

import contextlib
import errno
import socket
from collections.abc import Iterable

import psutil

from penstock.errors import BadInput, Conflict


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
                    fix="Free it, or choose another with: penstock up --port PORT",
                ) from None


def find_free(host: str, count: int) -> list[int]:
    """Give free ports; held open together while choosing, so that none is given twice."""
    with contextlib.ExitStack() as stack:
        found = []
        for _ in range(count):
            attempt = stack.enter_context(socket.socket())
            attempt.bind((host, 0))
            found.append(int(attempt.getsockname()[1]))
        return found


def _holder(port: int) -> str:
    try:
        for connection in psutil.net_connections("tcp"):
            if connection.status == psutil.CONN_LISTEN and connection.laddr[1:] == (port,) and connection.pid:
                return f" by {psutil.Process(connection.pid).name()} (process {connection.pid})"
    except (psutil.Error, OSError):
        pass
    return ""
