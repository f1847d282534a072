"""Pages and sockets are for those who have signed in: others get the sign-in, whatever they ask for.

NiceGUI keeps something in memory for each page that it is asked for, so nobody else gets that far.
"""

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from starlette.requests import HTTPConnection
from starlette.responses import RedirectResponse

from penstock.console.asking import SESSION_COOKIE, recognise
from penstock.console.service import Console

_Scope = MutableMapping[str, Any]
_Receive = Callable[[], Awaitable[Any]]
_Send = Callable[[Any], Awaitable[None]]
_App = Callable[[_Scope, _Receive, _Send], Awaitable[None]]

_OPEN = ("/api/", "/static/")
"""The REST interface has its own check on every route."""
_SIGN_IN = {"/sign-in", "/sign-out"}
_POLICY_VIOLATION = 1008


class SignInGate:
    """The layer behind the guard."""

    def __init__(self, app: _App, console: Console) -> None:
        self._app = app
        self._console = console

    async def __call__(self, scope: _Scope, receive: _Receive, send: _Send) -> None:
        """Handle one request."""
        if scope["type"] not in {"http", "websocket"} or self._is_allowed(scope):
            await self._app(scope, receive, send)
        elif scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": _POLICY_VIOLATION})
        else:
            await RedirectResponse("/sign-in", status_code=303)(scope, receive, send)

    def _is_allowed(self, scope: _Scope) -> bool:
        path = scope["path"]
        if scope["type"] == "http" and (path.startswith(_OPEN) or path in _SIGN_IN):
            return True
        return recognise(self._console, HTTPConnection(scope).cookies.get(SESSION_COOKIE)) is not None
