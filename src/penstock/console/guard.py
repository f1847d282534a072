"""The checks of every request: which site's page it comes from, security headers, and a limit on bodies."""

from collections.abc import Awaitable, Callable, MutableMapping
from http import HTTPStatus
from typing import Any

from starlette.requests import HTTPConnection

from penstock.console.actions import SAFE_METHODS
from penstock.console.asking import recognise, token_of
from penstock.console.errors import ErrorBody, answer
from penstock.console.service import Console
from penstock.loopback import host_name, is_loopback

_Scope = MutableMapping[str, Any]
_Receive = Callable[[], Awaitable[Any]]
_Send = Callable[[Any], Awaitable[None]]
_App = Callable[[_Scope, _Receive, _Send], Awaitable[None]]

MOST_BODY_BYTES = 2 * 2**20
MOST_OF_STRANGERS_BYTES = 16 * 2**10
"""Of those who have not signed in, who send a name and a password: many may send all that they can at the same time."""
_POLICY_VIOLATION = 1008
_OWN_SITE = {b"same-origin", b"none"}
_EVERYWHERE = [
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"same-origin"),  # with none at all, browsers hide the origin of our own forms, too
]
_API_POLICY = b"default-src 'none'; frame-ancestors 'none'"
# NiceGUI's own page has scripts in it and compiles templates. Data get there as text alone, never as markup.
_PAGE_POLICY = (
    b"default-src 'self'; script-src 'self' 'unsafe-inline' 'unsafe-eval'; style-src 'self' 'unsafe-inline';"
    b" img-src 'self' data:; font-src 'self' data:; connect-src 'self' ws: wss:; object-src 'none'; base-uri 'none';"
    b" form-action 'self'; frame-ancestors 'none'"
)


class Guard:
    """The outermost layer, for pages, the REST interface and WebSockets alike.

    Without sign-in it answers only to names of this machine: otherwise another site's page could have its own name
    resolve to this machine, and act as its reader (DNS rebinding).
    """

    def __init__(self, app: _App, console: Console) -> None:
        self._app = app
        self._console = console

    async def __call__(self, scope: _Scope, receive: _Receive, send: _Send) -> None:
        """Handle one request."""
        if scope["type"] not in {"http", "websocket"}:
            await self._app(scope, receive, send)
            return
        reason = self._refusal(scope, dict(scope["headers"]))
        if reason is not None and scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": _POLICY_VIOLATION})
        elif reason is not None:
            await answer(HTTPStatus.FORBIDDEN, ErrorBody(code="forbidden", message=reason))(scope, receive, send)
        elif scope["type"] == "websocket":
            await self._app(scope, receive, send)
        else:
            await self._handle(scope, receive, send)

    async def _handle(self, scope: _Scope, receive: _Receive, send: _Send) -> None:
        is_api = scope["path"].startswith("/api/")
        policy = _API_POLICY if is_api else _PAGE_POLICY
        extra = [*_EVERYWHERE, (b"content-security-policy", policy), *([(b"cache-control", b"no-store")] * is_api)]
        read, most, is_answered = 0, self._most_bytes(scope), False

        async def send_with_headers(message: Any) -> None:
            nonlocal is_answered
            if message["type"] == "http.response.start":
                is_answered = True
                message["headers"] = [*message["headers"], *extra]
            await send(message)

        async def receive_within_limit() -> Any:
            nonlocal read
            message = await receive()
            read += len(message.get("body", b""))
            if read > most:
                raise _TooLargeError
            return message

        body = ErrorBody(code="too_large", message=f"the body is larger than {most:,} bytes")
        too_large = answer(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, body)
        length = dict(scope["headers"]).get(b"content-length", b"0")
        if length.isdigit() and int(length) > most:  # where a route reads it by itself, it would say less
            await too_large(scope, receive, send_with_headers)
            return
        try:
            await self._app(scope, receive_within_limit, send_with_headers)
        except _TooLargeError:
            if is_answered:
                raise
            await too_large(scope, receive, send_with_headers)

    def _most_bytes(self, scope: _Scope) -> int:
        if scope["method"] in SAFE_METHODS or recognise(self._console, token_of(HTTPConnection(scope))) is not None:
            return MOST_BODY_BYTES
        return MOST_OF_STRANGERS_BYTES

    def _refusal(self, scope: _Scope, headers: dict[bytes, bytes]) -> str | None:
        host = headers.get(b"host", b"")
        if self._console.sign_in is None and not is_loopback(host_name(host.decode("latin-1"))):
            return "without sign-in only requests from this machine are answered"
        origin = headers.get(b"origin")
        if origin is not None and origin.partition(b"://")[2] != host:
            return "the request comes from a page of another site"
        changes = scope["type"] == "websocket" or scope["method"] not in SAFE_METHODS
        # Links lead here. Pictures and frames in other pages have no use, and each page that is drawn takes memory.
        is_link = not changes and headers.get(b"sec-fetch-dest") == b"document"
        if headers.get(b"sec-fetch-site", b"none") not in _OWN_SITE and not is_link:
            return "the request comes from a page of another site"
        return self._console.why_closed()


class _TooLargeError(Exception):
    """A body that goes on beyond the limit."""
