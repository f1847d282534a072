"""Errors as clients get them: `{"error": {"code", "message", "details"}}`. Internal details are never shown."""

import logging
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

import orjson
from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from pydantic import Field
from sqlalchemy.exc import OperationalError
from sqlalchemy.exc import TimeoutError as AllInUse
from starlette.exceptions import HTTPException

from penstock.errors import BadInput, PenstockError, Transient
from penstock.lineage.shapes.shape import Shape

_log = logging.getLogger(__name__)
_RETRY_AFTER_S = 5
_SIGN_IN_PATH = "/v1/auth/token"
"""What is sent there is never repeated."""


class ErrorBody(Shape):
    """What went wrong."""

    code: str = Field(
        description="One word: not_found, invalid_request, forbidden, unauthorized, auth_redirect, conflict and so on."
    )
    message: str = Field(description="For people.")
    details: Any = Field(default=None, description="For programs: what exactly was not found or not accepted.")


class ErrorAnswer(Shape):
    """The answer to every request that failed."""

    error: ErrorBody = Field(description="The error.")


class ApiError(Exception):
    """An error that becomes an answer."""

    def __init__(
        self,
        status: HTTPStatus,
        code: str,
        message: str,
        details: Any = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.status, self.code, self.message, self.details, self.headers = status, code, message, details, headers


def not_found(entity_type: str, field: str, value: object) -> ApiError:
    """Return that something is not there."""
    return ApiError(
        HTTPStatus.NOT_FOUND,
        "not_found",
        f"{entity_type} with {field}={value!r} not found",
        {"entity_type": entity_type, "field": field, "value": value},
    )


def conflict(entity_type: str, field: str, value: object) -> ApiError:
    """Return that something is there already."""
    return ApiError(
        HTTPStatus.CONFLICT,
        "conflict",
        f"{entity_type} with {field}={value!r} already exists",
        {"entity_type": entity_type, "field": field, "value": value},
    )


def unauthorized(message: str) -> ApiError:
    """Return that it is not known who asks."""
    return ApiError(HTTPStatus.UNAUTHORIZED, "unauthorized", message, headers={"WWW-Authenticate": "Bearer"})


def forbidden(message: str) -> ApiError:
    """Return that somebody may not do this."""
    return ApiError(HTTPStatus.FORBIDDEN, "forbidden", message)


def answer_errors(app: FastAPI) -> None:
    """Register the answer to every error."""
    app.add_exception_handler(ApiError, _of_ours)
    app.add_exception_handler(RequestValidationError, _of_request)
    app.add_exception_handler(PenstockError, _of_penstock)
    app.add_exception_handler(OperationalError, _unavailable)
    app.add_exception_handler(AllInUse, _unavailable)
    app.add_exception_handler(HTTPException, _of_framework)
    app.add_exception_handler(Exception, _unknown)


def answer(
    status: int, code: str, message: str, details: Any = None, headers: Mapping[str, str] | None = None
) -> Response:
    """Return an error as a response."""
    said = {"code": code, "message": message, "details": details}
    try:
        body = orjson.dumps({"error": said}, default=str)
    except TypeError:  # a number beyond 64 bits or half a character, repeated from what was sent
        body = orjson.dumps({"error": {**said, "details": None}})
    return Response(body, status, headers=dict(headers or {}), media_type="application/json")


def _of_ours(_: Request, error: Any) -> Response:
    return answer(error.status, error.code, error.message, error.details, error.headers)


def _of_request(request: Request, error: Any) -> Response:
    # A password may be under any name there, also a misspelt one.
    is_secret = request.url.path == _SIGN_IN_PATH
    details = [
        {
            "location": list(each["loc"]),
            "message": each["msg"],
            "code": each["type"],
            "context": {name: value for name, value in each.get("ctx", {}).items() if name != "error"},
            "input": None if is_secret else each.get("input"),
        }
        for each in error.errors()
    ]
    return answer(HTTPStatus.UNPROCESSABLE_ENTITY, "invalid_request", "Invalid request", details)


def _of_penstock(request: Request, error: Any) -> Response:
    if isinstance(error, BadInput):
        return answer(HTTPStatus.UNPROCESSABLE_ENTITY, "invalid_request", str(error))
    if isinstance(error, Transient):
        return _unavailable(request, error)
    return _unknown(request, error)


def _unavailable(_: Request, error: Any) -> Response:
    _log.warning("the store does not answer: %s", type(error).__name__)
    return answer(
        HTTPStatus.SERVICE_UNAVAILABLE,
        "unavailable",
        "The store does not answer. Try again in a moment",
        headers={"Retry-After": str(_RETRY_AFTER_S)},
    )


def _of_framework(_: Request, error: Any) -> Response:
    status = HTTPStatus(error.status_code)
    return answer(status, status.name.lower(), status.phrase, headers=error.headers)


def _unknown(_: Request, error: Any) -> Response:
    _log.error("a defect in Penstock", exc_info=error)
    return answer(HTTPStatus.INTERNAL_SERVER_ERROR, "unknown", "A defect in Penstock: the server's log says more")
