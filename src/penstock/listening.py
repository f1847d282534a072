"""Serving HTTP until it is stopped: the address is known as soon as it answers, and no client keeps others out."""

import asyncio
import errno
import socket
import ssl
from collections.abc import Callable
from pathlib import Path

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from penstock.errors import BadInput, Conflict
from penstock.loopback import neighbourhood
from penstock.port_holder import port_holder, shown

HEAD_S = 10.0
"""Seconds for the head of a request, from the connection or from its first byte on."""
BODY_S = 60.0
"""Seconds for its body; a service may answer sooner that it takes too long."""
_SHARE = 2
"""One address may have one of this many connections."""


class BoundedConnection(H11Protocol):
    """A connection that is closed if a request does not come in time, or if its address has half of all there may be.

    uvicorn itself waits for ever for a request that has begun, or has not, and counts silent connections as busy. Its
    parser is h11, whose heads are bounded.
    """

    _timer: asyncio.TimerHandle | None = None
    _waits_for: object = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Wait for the first request."""
        super().connection_made(transport)
        if self.limit_concurrency is not None and self._neighbours() > self.limit_concurrency // _SHARE:
            transport.abort()
            return
        self._wait(HEAD_S)

    def _neighbours(self) -> int:
        """Count the connections of the same client, this one among them: it can choose from several addresses."""
        clients = [getattr(each, "client", None) for each in self.connections]
        own = neighbourhood(self.client[0]) if self.client is not None else None
        return sum(each is not None and neighbourhood(each[0]) == own for each in clients)

    def data_received(self, data: bytes) -> None:
        """Take some bytes; how long for the rest of the request depends on what part of it they are."""
        super().data_received(data)
        state = self.conn.their_state
        if state is h11.SEND_BODY:
            if self._waits_for is not state:
                self._wait(BODY_S)
        elif state is h11.IDLE:
            if self._timer is None:
                self._wait(HEAD_S)
        else:
            self._stop_waiting()
        self._waits_for = state

    def on_response_complete(self) -> None:
        """Wait for the next request as uvicorn does, until its first byte comes."""
        self._stop_waiting()
        super().on_response_complete()
        if self.conn.their_state is h11.SEND_BODY:  # of a request that came with the one before
            self._wait(BODY_S)

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget it."""
        self._stop_waiting()
        super().connection_lost(exc)

    def _wait(self, seconds: float) -> None:
        self._stop_waiting()
        self._timer = self.loop.call_later(seconds, self.transport.close)

    def _stop_waiting(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


class Server(uvicorn.Server):
    """Serves one application; `ready` is called as soon as it answers."""

    def __init__(self, config: uvicorn.Config, ready: Callable[[], None]) -> None:
        super().__init__(config)
        self._ready = ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start, then say so."""
        await super().startup(sockets)
        self._ready()


def require_certificate(certificate: str | Path | None, key: str | Path | None) -> None:
    """Raise `BadInput` unless both are left out, or are a certificate and its key."""
    if certificate is None and key is None:
        return
    safe = "Nothing was started"
    if certificate is None or key is None:
        missing = "--certificate" if certificate is None else "--key"
        raise BadInput("--certificate and --key go together", safe=safe, fix=f"Add {missing} FILE, as PEM")
    marks = (("--certificate", certificate, b"CERTIFICATE-----"), ("--key", key, b"PRIVATE KEY-----"))
    for option, file, mark in marks:
        if not Path(file).is_file():
            raise BadInput(f"{option}: there is no file {file}", safe=safe)
        content = Path(file).read_bytes()
        if mark not in content:
            raise BadInput(f"{option}: {file} holds none, as PEM", safe=safe)
        if b"ENCRYPTED" in content:  # OpenSSL would ask on the terminal, if there is one
            raise BadInput(f"{option}: {file} has a password", safe=safe, fix="Name a key without one")
    try:
        ssl.create_default_context(ssl.Purpose.CLIENT_AUTH).load_cert_chain(certificate, key)
    except ssl.SSLError as error:
        is_other = error.reason == "KEY_VALUES_MISMATCH"
        raise BadInput(
            f"certificate {certificate} with key {key} cannot be used:"
            f" {'the key is that of another certificate' if is_other else error.strerror or error}",
            safe=safe,
        ) from None


def listen(host: str, port: int, what: str) -> socket.socket:
    """Take a port; raise `Conflict`, which begins with what wanted it, if that is not to be had."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
    except OSError as error:
        listener.close()
        if isinstance(error, socket.gaierror) or error.errno == errno.EADDRNOTAVAIL:
            raise BadInput(f"{host} is not an address of this machine", safe="Nothing was started") from None
        holder = shown(port_holder(port)) if error.errno == errno.EADDRINUSE else ""
        raise Conflict(
            f"{what} cannot listen at {host}:{port}: {f'{holder} has the port' if holder else error.strerror}",
            safe="Nothing was started",
            fix="Name another with --port; 0 takes a free one",
        ) from None
    return listener
