"""Errors as clients get them: `{"error": {"code", "message", "safe", "fix"}}`, in the words of the command line."""

import logging
from http import HTTPStatus
from typing import Any

import orjson
from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, Field
from starlette.exceptions import HTTPException

from penstock.errors import (
    BadInput,
    Conflict,
    DeliveryFailed,
    Discontinuity,
    EnvironmentNotReady,
    NotFound,
    PenstockError,
    Refused,
    Transient,
)

A_DEFECT = "a defect in Penstock: the console's log says more"
_log = logging.getLogger(__name__)
_RETRY_AFTER_S = "2"
_STATUS: list[tuple[type[PenstockError], HTTPStatus, str]] = [
    (BadInput, HTTPStatus.UNPROCESSABLE_ENTITY, "bad_input"),
    (NotFound, HTTPStatus.NOT_FOUND, "not_found"),
    (Refused, HTTPStatus.FORBIDDEN, "refused"),
    (Conflict, HTTPStatus.CONFLICT, "conflict"),
    (Discontinuity, HTTPStatus.CONFLICT, "discontinuity"),
    (DeliveryFailed, HTTPStatus.BAD_GATEWAY, "delivery_failed"),
    (EnvironmentNotReady, HTTPStatus.SERVICE_UNAVAILABLE, "environment"),
    (Transient, HTTPStatus.SERVICE_UNAVAILABLE, "unavailable"),
]


class ErrorBody(BaseModel, frozen=True):
    """What went wrong."""

    code: str = Field(description="One word: bad_input, not_found, refused, conflict, unavailable and so on.")
    message: str = Field(description="What happened.")
    safe: str = Field("", description="What was not touched.")
    fix: str = Field("", description="What to do next.")


class ErrorAnswer(BaseModel, frozen=True):
    """The answer to every request that failed."""

    error: ErrorBody = Field(description="The error.")


class ApiError(Exception):
    """An error of HTTP alone, such as a missing sign-in."""

    def __init__(self, status: HTTPStatus, code: str, message: str, headers: dict[str, str] | None = None) -> None:
        super().__init__(message)
        self.status, self.body, self.headers = status, ErrorBody(code=code, message=message), headers


def answer(status: int, body: ErrorBody, headers: dict[str, str] | None = None) -> Response:
    """Return an error as a response."""
    return Response(orjson.dumps({"error": body.model_dump()}), status, headers, "application/json")


def answer_errors(app: FastAPI) -> None:
    """Register the answer to every error."""
    app.add_exception_handler(ApiError, _of_ours)
    app.add_exception_handler(PenstockError, _of_penstock)
    app.add_exception_handler(RequestValidationError, _of_request)
    app.add_exception_handler(HTTPException, _of_framework)
    app.add_exception_handler(Exception, _unknown)


def _of_ours(_: Request, error: Any) -> Response:
    return answer(error.status, error.body, error.headers)


def _of_penstock(request: Request, error: Any) -> Response:
    for kind, status, code in _STATUS:
        if isinstance(error, kind):
            headers = {"Retry-After": _RETRY_AFTER_S} if status is HTTPStatus.SERVICE_UNAVAILABLE else None
            return answer(status, ErrorBody(code=code, message=error.what, safe=error.safe, fix=error.fix), headers)
    return _unknown(request, error)


def _of_request(_: Request, error: Any) -> Response:
    """Return what is wrong with a request, without repeating its content, which may hold a password."""
    problems = [
        f"{'.'.join(map(str, each['loc'][1:])) or each['loc'][0]}: {_words(each['msg'])}" for each in error.errors()
    ]
    return answer(HTTPStatus.UNPROCESSABLE_ENTITY, ErrorBody(code="bad_input", message="; ".join(problems)))


def _words(message: str) -> str:
    words = message.removeprefix("Value error, ")
    return words if words[:2].isupper() else words[:1].lower() + words[1:]


def _of_framework(_: Request, error: Any) -> Response:
    status = HTTPStatus(error.status_code)
    return answer(status, ErrorBody(code=status.name.lower(), message=status.phrase), error.headers)


def _unknown(_: Request, error: Any) -> Response:
    _log.error("a defect in Penstock", exc_info=error)
    return answer(HTTPStatus.INTERNAL_SERVER_ERROR, ErrorBody(code="defect", message=A_DEFECT))
