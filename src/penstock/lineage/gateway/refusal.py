"""What the gateway says instead of 201, in the shape of the lineage's REST interface."""

from typing import Any

import orjson
from starlette.responses import Response

_CODES = {
    400: "invalid_request",
    401: "unauthorized",
    403: "forbidden",
    404: "not_found",
    405: "method_not_allowed",
    408: "timeout",
    409: "conflict",
    413: "too_large",
    415: "unsupported_media_type",
    422: "invalid_request",
    429: "too_many_requests",
    503: "unavailable",
}


class Refusal(Exception):
    """A request that is not answered with 201. Unless `details` says otherwise, nothing of it was written."""

    def __init__(
        self, status: int, message: str, *, details: Any = None, retry_after_s: int | None = None, code: str = ""
    ) -> None:
        super().__init__(message)
        self.status = status
        self.code = code or _CODES.get(status, "internal_error")
        self.message = message
        self.details = details
        self.retry_after_s = retry_after_s

    def response(self) -> Response:
        """Return the answer."""
        headers = {} if self.retry_after_s is None else {"Retry-After": str(self.retry_after_s)}
        if self.status == 401:  # noqa: PLR2004 - the word that HTTP has for it
            headers["WWW-Authenticate"] = "Bearer"
        content = orjson.dumps({"error": {"code": self.code, "message": self.message, "details": self.details}})
        return Response(content, self.status, headers, "application/json")


def invalid(message: str, *location: str | int, code: str = "value_error") -> Refusal:
    """Refuse a body for what is at one place in it."""
    detail = {"location": ["body", *location], "message": message, "code": code}
    where = "".join(f" {part}" for part in location if isinstance(part, int))
    return Refusal(422, f"Event{where}: {message}" if where else message, details=[detail])
