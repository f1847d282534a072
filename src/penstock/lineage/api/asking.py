"""Who makes a request, and what they may do."""

import datetime
from dataclasses import dataclass
from http import HTTPStatus
from typing import Annotated, Literal
from uuid import UUID

from fastapi import Depends, Request
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer
from sqlalchemy import Connection, select

from penstock.clock import clock
from penstock.errors import Refused
from penstock.lineage.api.errors import ApiError, ErrorAnswer, forbidden, unauthorized
from penstock.lineage.api.service import SignIn, service_of
from penstock.lineage.shapes.tokens import Scope
from penstock.lineage.sign_in.tokens import PREFIX
from penstock.lineage.store import tables

SESSION_COOKIE = "penstock_session"
_bearer = HTTPBearer(auto_error=False, description="An access token or a personal token.")
_EVERYTHING: frozenset[Scope] = frozenset({"all:read", "all:write"})


@dataclass(frozen=True)
class Asker:
    """Somebody, and what they may do."""

    name: str
    scopes: frozenset[Scope]
    by: Literal["nothing", "access", "personal"]
    """By what they have shown who they are."""
    account: str = ""
    """What tells them from others of the same name."""


def _asker(
    request: Request,
    credentials: Annotated[HTTPAuthorizationCredentials | None, Depends(_bearer)],
) -> Asker:
    service = service_of(request)
    sign_in = service.sign_in
    if sign_in is None:
        return Asker("anonymous", _EVERYTHING, "nothing")
    content = credentials.credentials if credentials else request.cookies.get(SESSION_COOKIE)
    if content is None:
        raise _missing(sign_in)
    try:
        if content.startswith(PREFIX["personal"]):
            with service.engine.connect() as connection:  # given back before the route asks for one
                return _by_personal_token(sign_in, connection, content)
        claims = sign_in.key.read("access", content)
        user, account = str(claims.get("sub", "")), str(claims.get("account", ""))
        sign_in.require_account(user, account)
        return Asker(user, _EVERYTHING, "access", account)
    except Refused as error:
        raise unauthorized(error.what) from None


def _missing(sign_in: SignIn) -> ApiError:
    if sign_in.provider is None:
        return unauthorized("Missing Authorization header")
    return ApiError(
        HTTPStatus.UNAUTHORIZED, "auth_redirect", "Please authorize using provided URL", {"url": "/v1/auth/login"}
    )


def _by_personal_token(sign_in: SignIn, connection: Connection, content: str) -> Asker:
    claims = sign_in.key.read("personal", content)
    token, user = tables.personal_token.c, tables.user.c
    row = connection.execute(
        select(user.name, token.scopes, token.since, token.until, token.revoked_at)
        .join(tables.user, user.id == token.user_id)
        .where(token.id == UUID(claims["jti"]))
    ).one_or_none()
    if row is None or row.revoked_at is not None:
        raise Refused("Token was revoked")
    account = str(claims.get("account", ""))
    oldest = datetime.timedelta(days=sign_in.token_days(account))  # the settings may say less than when it was made
    if min(row.until, row.since + oldest) < clock().now().date():
        raise Refused("Token has expired")
    sign_in.require_account(row.name, account)
    return Asker(row.name, frozenset(row.scopes), "personal", account)


AnyAsker = Annotated[Asker, Depends(_asker)]


def _may_read(asker: AnyAsker) -> Asker:
    if "all:read" not in asker.scopes:
        raise forbidden("The token lacks the scope all:read")
    return asker


def _may_write(asker: AnyAsker) -> Asker:
    if "all:write" not in asker.scopes:
        raise forbidden("The token lacks the scope all:write")
    return asker


def _in_person(asker: AnyAsker) -> Asker:
    """Refuse programs: who has got hold of a token shall not make more of them."""
    if asker.by == "personal":
        raise unauthorized("Personal token was passed but access token was expected")
    if asker.by == "nothing":
        raise forbidden("There are no tokens without sign-in: start the service with --sign-in")
    return asker


Reader = Annotated[Asker, Depends(_may_read)]
Writer = Annotated[Asker, Depends(_may_write)]
Person = Annotated[Asker, Depends(_in_person)]
NEEDS_READER = [Depends(_may_read)]
REFUSALS: dict[int | str, dict[str, object]] = {
    status.value: {"model": ErrorAnswer, "description": status.phrase}
    for status in (
        HTTPStatus.UNAUTHORIZED,
        HTTPStatus.FORBIDDEN,
        HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
        HTTPStatus.UNPROCESSABLE_ENTITY,
        HTTPStatus.INTERNAL_SERVER_ERROR,
        HTTPStatus.SERVICE_UNAVAILABLE,
    )
}
