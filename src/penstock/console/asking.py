"""Who makes a request, and what they may do."""

from collections.abc import Callable
from dataclasses import dataclass
from http import HTTPStatus
from typing import Annotated, Any

from fastapi import Depends, Query, Request
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer
from starlette.requests import HTTPConnection

from penstock.console.errors import ApiError, ErrorAnswer
from penstock.console.kafka_side import KafkaSide
from penstock.console.service import Console, console_of
from penstock.console.users import ROLES, Role
from penstock.errors import BadInput, Refused

SESSION_COOKIE = "penstock_console"
_bearer = HTTPBearer(auto_error=False, description="A token, as signing in gives it.")


@dataclass(frozen=True)
class Asker:
    """A user and their role."""

    name: str
    role: Role

    def may(self, role: Role) -> bool:
        """Return whether their role is this one or one above."""
        return ROLES.index(self.role) >= ROLES.index(role)


def recognise(console: Console, token: str | None) -> Asker | None:
    """Return whose token this is; None if it has expired or the user was removed."""
    if console.sign_in is None:
        return Asker("anonymous", console.role)
    if not token:
        return None
    try:
        claims = console.sign_in.key.read("access", token)
    except Refused:
        return None
    user, users = str(claims.get("sub", "")), console.sign_in.users
    account = users.account(user)
    return None if account is None or account != claims.get("account") else Asker(user, users.role(user))


def token_of(request: HTTPConnection) -> str | None:
    """Return the token that a request shows: in its head, or in the cookie of a browser."""
    scheme, _, given = request.headers.get("authorization", "").partition(" ")
    return given if scheme.lower() == "bearer" else request.cookies.get(SESSION_COOKIE)


def _asker(request: Request, _: Annotated[HTTPAuthorizationCredentials | None, Depends(_bearer)]) -> Asker:
    asker = recognise(console_of(request), token_of(request))
    if asker is None:
        raise ApiError(
            HTTPStatus.UNAUTHORIZED,
            "unauthorized",
            "sign in first: POST /api/v1/sign-in",
            {"WWW-Authenticate": "Bearer"},
        )
    return asker


def _at_least(role: Role) -> Callable[[Asker], Asker]:
    def check(asker: Annotated[Asker, Depends(_asker)]) -> Asker:
        if not asker.may(role):
            raise ApiError(
                HTTPStatus.FORBIDDEN, "forbidden", f"this needs the role {role}; '{asker.name}' is {asker.role}"
            )
        return asker

    return check


Viewer = Annotated[Asker, Depends(_at_least("viewer"))]
NEEDS: dict[Role, list[Any]] = {role: [Depends(_at_least(role))] for role in ROLES}
"""Put one of these on every route: `dependencies=NEEDS["operator"]`."""
FromConsole = Annotated[Console, Depends(console_of)]


async def _kafka(
    console: FromConsole,
    cluster: Annotated[
        str, Query(max_length=63, description="A cluster from `clusters:` in the project file; its own if left out.")
    ] = "",
) -> KafkaSide:
    return console.kafka(cluster)


FromKafka = Annotated[KafkaSide, Depends(_kafka)]
"""The cluster that a request is about; roles are the same for all."""
REFUSALS: dict[int | str, dict[str, Any]] = {
    status.value: {"model": ErrorAnswer, "description": status.phrase}
    for status in (
        HTTPStatus.UNAUTHORIZED,
        HTTPStatus.FORBIDDEN,
        HTTPStatus.UNPROCESSABLE_ENTITY,
        HTTPStatus.SERVICE_UNAVAILABLE,
    )
}


def require_typed(kind: str, name: str, typed: str | None) -> None:
    """Raise if the name was not typed once more to confirm a change that cannot be undone."""
    if typed != name:
        raise BadInput(
            f"type the {kind}'s name, '{name}', to confirm", safe="Nothing was changed", fix=f"Send confirm={name}"
        )
