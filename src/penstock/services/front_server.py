"""The front as a process: it accepts requests, checks the login, forwards them, and adapts the answers.

Where nobody has to log in it answers only to names of this machine: otherwise a page in a browser could have its own
name lead here, and change schemas. Requests from pages of other sites are always refused.
"""

import base64
import contextlib
import hmac
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from penstock.listening import BoundedConnection
from penstock.loopback import host_name, is_loopback
from penstock.port_holder import require_own_listener
from penstock.secret import Secret
from penstock.services import front
from penstock.services.forwarding import handed_on, headers_of, raw_path
from penstock.services.front import FrontOptions
from penstock.services.registry_answers import RegistryAnswers

_BODY_MAX_BYTES = 10_000_000
_TIMEOUT_S = 60.0
_MOST_AT_ONCE = 400
_LAST_ANSWERS_S = 10
_METHODS = ["GET", "POST", "PUT", "PATCH", "DELETE"]


class Front:
    """The reverse proxy between a client and the program behind it."""

    def __init__(self, options: FrontOptions) -> None:
        self._options = options
        password = Secret.parse(f"file:{options.password_file}").reveal()
        self._login = base64.b64encode(f"{options.username}:{password}".encode())
        # The program behind asks for the login, too: others on this machine, and pages in browsers, reach its port.
        self._client = httpx.AsyncClient(
            base_url=options.behind,
            timeout=_TIMEOUT_S,
            trust_env=False,
            auth=(options.username, password),
            transport=_ToOwnProgram(),
        )
        self._adapted = RegistryAnswers(self._client) if options.adapts == "registry" else None

    def app(self) -> Starlette:
        """Return the application."""
        return Starlette(routes=[Route("/{path:path}", self.answer, methods=_METHODS)], lifespan=self._life)

    @contextlib.asynccontextmanager
    async def _life(self, _app: Starlette) -> AsyncIterator[None]:
        yield
        await self._client.aclose()

    async def answer(self, request: Request) -> Response:
        """Answer one request."""
        if (problem := self._of_another_site(request)) is not None:
            return JSONResponse({"error_code": 403, "message": problem}, status_code=403)
        if not self._may_enter(request):
            return JSONResponse(
                {"error_code": 401, "message": "a login is needed"},
                status_code=401,
                headers={"WWW-Authenticate": f'Basic realm="{self._options.username}"'},
            )
        body = bytearray()
        async for chunk in request.stream():
            body += chunk
            if len(body) > _BODY_MAX_BYTES:
                return JSONResponse({"error_code": 413, "message": "the body is too large"}, status_code=413)
        try:
            if self._adapted is not None:
                return await self._adapted.answer(request, bytes(body))
            answer = await handed_on(self._client, request, bytes(body), path=raw_path(request))
            return Response(answer.content, status_code=answer.status_code, headers=headers_of(answer))
        except httpx.TimeoutException:
            return JSONResponse({"error_code": 50002, "message": "the service took too long"}, status_code=500)
        except httpx.HTTPError:
            return JSONResponse({"error_code": 50003, "message": "the service is being started"}, status_code=503)

    def _of_another_site(self, request: Request) -> str | None:
        host, origin = request.headers.get("host", ""), request.headers.get("origin")
        if not self._options.asks_login and not is_loopback(host_name(host)):
            return "without a login only requests to a name of this machine are answered"
        if origin is not None and origin.partition("://")[2] != host:
            return "the request comes from a page of another site"
        return None

    def _may_enter(self, request: Request) -> bool:
        if not self._options.asks_login:
            return True
        kind, _, given = request.headers.get("authorization", "").partition(" ")
        return kind.lower() == "basic" and hmac.compare_digest(given.strip().encode(), self._login)


class _ToOwnProgram(httpx.AsyncHTTPTransport):
    """Hands on to a program of this user alone: while that starts or is away, anybody on the machine can have its port.

    They would get the login, and what clients send.
    """

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Forward a request, or answer that the program is unavailable."""
        try:
            require_own_listener(str(request.url))
        except ConnectionRefusedError as error:
            raise httpx.ConnectError(str(error)) from None
        return await super().handle_async_request(request)


def config(options: FrontOptions) -> uvicorn.Config:
    """Return how the front is served."""
    return uvicorn.Config(
        Front(options).app(),
        host=options.host,
        port=options.port,
        log_level="error",
        access_log=False,
        server_header=False,
        http=BoundedConnection,
        ws="none",
        proxy_headers=False,
        limit_concurrency=_MOST_AT_ONCE,
        timeout_graceful_shutdown=_LAST_ANSWERS_S,
        ssl_certfile=options.certificate,
        ssl_keyfile=None if options.certificate is None else str(options.certificate),
    )


def main() -> int:
    """Serve what the folder, which is the one argument, says, until SIGTERM."""
    uvicorn.Server(config(front.load(Path(sys.argv[1])))).run()
    return 0


if __name__ == "__main__":
    sys.exit(main())
