"""What every request goes through: an id, headers that browsers obey, a limit on bodies, and counting."""

import re
import time
import uuid
from collections.abc import Awaitable, Callable, MutableMapping
from http import HTTPStatus
from typing import Any

from fastapi import HTTPException

from penstock.lineage.api.errors import answer
from penstock.lineage.api.requests import Requests
from penstock.loopback import host_name, is_loopback

_Scope = MutableMapping[str, Any]
_Receive = Callable[[], Awaitable[Any]]
_Send = Callable[[Any], Awaitable[None]]
_App = Callable[[_Scope, _Receive, _Send], Awaitable[None]]

_REQUEST_ID = re.compile(rb"[A-Za-z0-9_.-]{1,64}")
MOST_BODY_BYTES = 64 * 1024
_HEADERS = [
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'"),
    (b"referrer-policy", b"no-referrer"),
    (b"cache-control", b"no-store"),
]


class Guard:
    """The outermost layer.

    Without sign-in it answers only to names of this machine. Otherwise a page in a browser could have its own name
    resolve to this machine, and read what its user may read (DNS rebinding).
    """

    def __init__(self, app: _App, requests: Requests, *, only_loopback: bool) -> None:
        self._app = app
        self._requests = requests
        self._only_loopback = only_loopback

    async def __call__(self, scope: _Scope, receive: _Receive, send: _Send) -> None:
        """Handle one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = dict(scope["headers"])
        given = headers.get(b"x-request-id", b"")
        request_id = given if _REQUEST_ID.fullmatch(given) else uuid.uuid4().hex.encode()
        started, status = time.perf_counter(), 0

        async def send_with_headers(message: Any) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [*message["headers"], *_HEADERS, (b"x-request-id", request_id)]
            await send(message)

        try:
            await self._handle(scope, headers, receive, send_with_headers)
        finally:
            self._requests.count(scope["method"], _route(scope), status, time.perf_counter() - started)

    async def _handle(self, scope: _Scope, headers: dict[bytes, bytes], receive: _Receive, send: _Send) -> None:
        refusal = self._refusal(headers)
        if refusal is not None:
            await refusal(scope, receive, send)
            return
        read = 0

        async def receive_within_limit() -> Any:
            nonlocal read
            message = await receive()
            read += len(message.get("body", b""))
            if read > MOST_BODY_BYTES:
                raise HTTPException(HTTPStatus.REQUEST_ENTITY_TOO_LARGE)
            return message

        await self._app(scope, receive_within_limit, send)

    def _refusal(self, headers: dict[bytes, bytes]) -> Any:
        if self._only_loopback and not is_loopback(host_name(headers.get(b"host", b"").decode("latin-1"))):
            return answer(
                HTTPStatus.FORBIDDEN, "forbidden", "Without sign-in only requests from this machine are answered"
            )
        length = headers.get(b"content-length", b"0")
        if not length.isdigit() or int(length) > MOST_BODY_BYTES:
            status = HTTPStatus.REQUEST_ENTITY_TOO_LARGE
            return answer(status, status.name.lower(), f"The body is larger than {MOST_BODY_BYTES:,} bytes")
        return None


def _route(scope: _Scope) -> str:
    """Return the path with names for what varies; nothing if there is no such route."""
    if scope.get("route") is None:
        return ""
    names = {str(value): f"{{{name}}}" for name, value in scope.get("path_params", {}).items()}
    return "/".join(names.get(part, part) for part in scope["path"].split("/"))
