"""Signing in and out, and who is signed in."""

import math
from http import HTTPStatus

from fastapi import APIRouter, Request, Response
from pydantic import BaseModel, ConfigDict, Field

from penstock.console.asking import NEEDS, SESSION_COOKIE, FromConsole, Viewer
from penstock.console.errors import ApiError
from penstock.console.service import Console
from penstock.console.users import Role
from penstock.errors import Transient
from penstock.lineage.sign_in.tokens import ACCESS_S, Access

router = APIRouter(tags=["sign-in"])
_BUSY_S = 1.0


class Credentials(BaseModel):
    """A user's name and password."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    user: str = Field(min_length=1, max_length=63, description="Name.")
    password: str = Field(min_length=1, max_length=1024, repr=False, description="Password.")


class Token(BaseModel, frozen=True):
    """A token for the header `Authorization: Bearer TOKEN`."""

    token: str = Field(description="The token.")
    expires_at: float = Field(description="When it ends, in seconds since 1970.")


class Me(BaseModel, frozen=True):
    """Who asks."""

    user: str = Field(description="Name; anonymous on a console without sign-in.")
    role: Role = Field(description="viewer, operator or admin.")
    signs_in: bool = Field(description="Whether this console has people sign in.")


def sign_in(console: Console, user: str, password: str, address: str) -> Access:
    """Return a token, or raise for a wrong password; after three failures a name has to wait, longer each time."""
    known = console.sign_in
    if known is None:
        raise ApiError(HTTPStatus.NOT_IMPLEMENTED, "not_implemented", "this console runs without sign-in")
    wait_s = known.tries.begin(user, address)
    if wait_s > 0:
        raise _too_many("too many failed tries: try again later", wait_s)
    try:
        is_accepted = known.users.accepts(user, password, address)
    except Transient:
        known.tries.not_looked_at(user, address)
        raise _too_many("too many people sign in at once: try again in a moment", _BUSY_S) from None
    account = known.users.account(user)
    if not is_accepted or account is None:
        raise ApiError(HTTPStatus.UNAUTHORIZED, "unauthorized", "wrong user name or password")
    known.tries.succeeded(user, address)
    return known.key.access(user, account)


def set_session(response: Response, access: Access, *, is_https: bool) -> None:
    """Set the session of a browser: a cookie that scripts cannot read and that pages of other sites do not send."""
    response.set_cookie(
        SESSION_COOKIE, access.content, max_age=ACCESS_S, httponly=True, secure=is_https, samesite="strict"
    )


def _too_many(message: str, wait_s: float) -> ApiError:
    headers = {"Retry-After": str(math.ceil(wait_s))}
    return ApiError(HTTPStatus.TOO_MANY_REQUESTS, "too_many_requests", message, headers)


@router.post("/sign-in", summary="Sign in by password")
def post_sign_in(request: Request, response: Response, console: FromConsole, given: Credentials) -> Token:
    """Return a token for ten hours; a browser also gets it as a cookie."""
    access = sign_in(console, given.user, given.password, request.client.host if request.client else "")
    set_session(response, access, is_https=request.url.scheme == "https")
    return Token(token=access.content, expires_at=access.expires_at)


@router.post("/sign-out", summary="End a browser's session", status_code=HTTPStatus.NO_CONTENT)
def post_sign_out(response: Response) -> None:
    """Remove the cookie. A copy of the token remains valid until it expires."""
    response.delete_cookie(SESSION_COOKIE)


@router.get("/me", summary="Who asks", dependencies=NEEDS["viewer"])
def me(console: FromConsole, asker: Viewer) -> Me:
    """Return the name and role of whoever asks."""
    return Me(user=asker.name, role=asker.role, signs_in=console.sign_in is not None)
