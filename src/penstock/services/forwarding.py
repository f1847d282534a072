"""Forwarding a request to the program behind the front, and its answer back."""

import httpx
from starlette.requests import Request

_HOP_BY_HOP = {"connection", "content-encoding", "content-length", "date", "host", "keep-alive", "transfer-encoding"}
_OURS = {"accept-encoding", "authorization"}
"""The client has the login of the program behind, and compression is its own."""


async def handed_on(
    client: httpx.AsyncClient, request: Request, body: bytes, *, path: str, query: str | None = None
) -> httpx.Response:
    """Return the answer to a request that is handed on under a path, with its own query unless another is given."""
    query = request.url.query if query is None else query
    return await client.request(
        request.method,
        f"{path}?{query}" if query else path,
        content=body,
        headers={name: value for name, value in request.headers.items() if name not in _HOP_BY_HOP | _OURS},
    )


def headers_of(answer: httpx.Response) -> dict[str, str]:
    """Return the headers of an answer that are for the client."""
    return {name: value for name, value in answer.headers.items() if name not in _HOP_BY_HOP}


def raw_path(request: Request) -> str:
    """Return the path as the client wrote it: a subject's name may hold a slash as %2F."""
    raw: bytes = request.scope.get("raw_path") or request.url.path.encode()
    return raw.partition(b"?")[0].decode("ascii", errors="replace")
