"""Personal tokens: made, replaced and revoked by people, used by programs."""

import datetime
import uuid
from http import HTTPStatus
from typing import Annotated

from fastapi import APIRouter, Depends, Path, Query, Request, Response
from sqlalchemy import ColumnElement, Connection, Row, func, insert, select, update

from penstock.clock import clock
from penstock.lineage.api.asking import Asker, Person, Reader
from penstock.lineage.api.errors import ErrorAnswer, conflict, forbidden, not_found
from penstock.lineage.api.service import Reading, SignIn, Writing, service_of
from penstock.lineage.query.sets import among
from penstock.lineage.shapes.page import Page
from penstock.lineage.shapes.parameters import Parameters, PersonalTokensQuery
from penstock.lineage.shapes.tokens import (
    PersonalToken,
    PersonalTokenCreatedDetailed,
    PersonalTokenCreateRequest,
    PersonalTokenDetailed,
    PersonalTokenResetRequest,
    Scope,
)
from penstock.lineage.store import tables

router = APIRouter(prefix="/personal-tokens", tags=["Personal tokens"])
TokenId = Annotated[uuid.UUID, Path(description="Id of the token.")]
_of = tables.personal_token.c
_MISSING: dict[int | str, dict[str, object]] = {
    HTTPStatus.NOT_FOUND.value: {"model": ErrorAnswer, "description": "Not Found"}
}
_TAKEN: dict[int | str, dict[str, object]] = {
    HTTPStatus.CONFLICT.value: {"model": ErrorAnswer, "description": "Conflict"}
}


def _sign_in(request: Request) -> SignIn:
    sign_in = service_of(request).sign_in
    if sign_in is None:
        raise forbidden("There are no tokens without sign-in: start the service with --sign-in")
    return sign_in


WithSignIn = Annotated[SignIn, Depends(_sign_in)]


@router.get("", summary="List your personal tokens")
def list_tokens(
    request: Request, connection: Reading, asker: Reader, query: Annotated[PersonalTokensQuery, Query()]
) -> Page[PersonalTokenDetailed]:
    """Return a page of one's own tokens that are good, without their texts."""
    conditions = [tables.user.c.name == asker.name, *_good(asker, service_of(request).sign_in)]
    if query.personal_token_id:
        conditions.append(among(connection, _of.id, query.personal_token_id))
    statement = select(tables.personal_token).join(tables.user, tables.user.c.id == _of.user_id).where(*conditions)
    total = connection.execute(select(func.count()).select_from(statement.subquery())).scalar_one()
    skipped = (query.page - 1) * query.page_size
    rows = connection.execute(statement.order_by(_of.name, _of.id).limit(query.page_size).offset(skipped))
    items = [PersonalTokenDetailed(id=row.id, data=_shape(row)) for row in rows]
    return Page.of(items, page=query.page, page_size=query.page_size, total_count=total)


@router.post("", summary="Make a personal token", responses=_TAKEN)
def create_token(
    connection: Writing,
    asker: Person,
    sign_in: WithSignIn,
    wanted: PersonalTokenCreateRequest,
    _: Annotated[Parameters, Query()],
) -> PersonalTokenCreatedDetailed:
    """Make a token; its text is in the answer, and nowhere else."""
    user_id = _user_id(connection, asker.name)
    taken = select(_of.id).where(_of.user_id == user_id, _of.name == wanted.name, *_good(asker, sign_in))
    if connection.execute(taken).first() is not None:
        raise conflict("PersonalToken", "name", wanted.name)
    return _make(connection, asker, sign_in, user_id, wanted.name, wanted.scopes, wanted.until)


@router.patch("/{token_id}", summary="Replace a personal token", responses=_MISSING)
def reset_token(
    connection: Writing,
    asker: Person,
    sign_in: WithSignIn,
    token_id: TokenId,
    wanted: PersonalTokenResetRequest,
    _: Annotated[Parameters, Query()],
) -> PersonalTokenCreatedDetailed:
    """Revoke a token, and make one of the same name and scopes in its place."""
    old = _revoke(connection, asker, token_id)
    return _make(connection, asker, sign_in, old.user_id, old.name, old.scopes, wanted.until)


@router.delete("/{token_id}", summary="Revoke a personal token", status_code=HTTPStatus.NO_CONTENT, responses=_MISSING)
def revoke_token(connection: Writing, asker: Person, token_id: TokenId, _: Annotated[Parameters, Query()]) -> Response:
    """Revoke a token. From now on nobody gets in with it."""
    _revoke(connection, asker, token_id)
    return Response(status_code=HTTPStatus.NO_CONTENT)


def _make(
    connection: Connection,
    asker: Asker,
    sign_in: SignIn,
    user_id: int,
    name: str,
    scopes: list[Scope],
    until: datetime.date | None,
) -> PersonalTokenCreatedDetailed:
    latest = _today() + datetime.timedelta(days=sign_in.token_days(asker.account))
    token = PersonalToken(
        id=uuid.uuid4(), name=name, scopes=sorted(set(scopes)), since=_today(), until=min(until or latest, latest)
    )
    connection.execute(insert(tables.personal_token).values(user_id=user_id, **token.model_dump()))
    content = sign_in.key.personal(asker.name, asker.account, token.id, token.until)
    return PersonalTokenCreatedDetailed(id=token.id, data=token, content=content)


def _revoke(connection: Connection, asker: Asker, token_id: uuid.UUID) -> Row[tuple[object, ...]]:
    row = connection.execute(
        select(tables.personal_token)
        .join(tables.user, tables.user.c.id == _of.user_id)
        .where(_of.id == token_id, tables.user.c.name == asker.name, _of.revoked_at.is_(None))
    ).one_or_none()
    if row is None:
        raise not_found("PersonalToken", "id", str(token_id))
    connection.execute(update(tables.personal_token).where(_of.id == token_id).values(revoked_at=clock().now()))
    return row


def _good(asker: Asker, sign_in: SignIn | None) -> list[ColumnElement[bool]]:
    """Return the conditions for valid tokens of somebody; without sign-in there are none."""
    days = 0 if sign_in is None else sign_in.token_days(asker.account)
    return [
        _of.revoked_at.is_(None),
        _of.until >= _today(),
        _of.since >= _today() - datetime.timedelta(days=days),
    ]


def _user_id(connection: Connection, name: str) -> int:
    known = select(tables.user.c.id).where(tables.user.c.name == name)
    found = connection.execute(known).scalar_one_or_none()
    if found is None:
        found = connection.execute(insert(tables.user).values(name=name).returning(tables.user.c.id)).scalar_one()
    return int(found)


def _today() -> datetime.date:
    return clock().now().date()


def _shape(row: Row[tuple[object, ...]]) -> PersonalToken:
    return PersonalToken(id=row.id, name=row.name, scopes=row.scopes, since=row.since, until=row.until)
