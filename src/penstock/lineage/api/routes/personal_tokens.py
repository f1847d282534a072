"""Personal tokens: made, replaced and revoked by people, used by programs."""

import uuid
from http import HTTPStatus
from typing import Annotated

from fastapi import APIRouter, Depends, Path, Query, Request, Response
from sqlalchemy import Connection, Row, func, select

from penstock.lineage.api.asking import Asker, Person, Reader
from penstock.lineage.api.errors import ErrorAnswer, conflict, forbidden, not_found
from penstock.lineage.api.service import Reading, SignIn, Writing, service_of
from penstock.lineage.query.sets import among
from penstock.lineage.shapes.page import Page
from penstock.lineage.shapes.parameters import Parameters, PersonalTokensQuery
from penstock.lineage.shapes.tokens import (
    PersonalTokenCreatedDetailed,
    PersonalTokenCreateRequest,
    PersonalTokenDetailed,
    PersonalTokenResetRequest,
)
from penstock.lineage.sign_in import personal
from penstock.lineage.sign_in.personal import Owner
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
    sign_in = service_of(request).sign_in
    days = 0 if sign_in is None else sign_in.token_days(asker.account)  # without sign-in there are none
    statement = personal.tokens_of(asker.name, days)
    if query.personal_token_id:
        statement = statement.where(among(connection, _of.id, query.personal_token_id))
    total = connection.execute(select(func.count()).select_from(statement.subquery())).scalar_one()
    skipped = (query.page - 1) * query.page_size
    rows = connection.execute(statement.order_by(_of.name, _of.id).limit(query.page_size).offset(skipped))
    items = [PersonalTokenDetailed(id=row.id, data=personal.shape(row)) for row in rows]
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
    owner = _owner(asker, sign_in)
    if personal.is_taken(connection, owner, wanted.name):
        raise conflict("PersonalToken", "name", wanted.name)
    return personal.make(connection, sign_in.key, owner, wanted.name, wanted.scopes, wanted.until)


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
    return personal.make(connection, sign_in.key, _owner(asker, sign_in), old.name, old.scopes, wanted.until)


@router.delete("/{token_id}", summary="Revoke a personal token", status_code=HTTPStatus.NO_CONTENT, responses=_MISSING)
def revoke_token(connection: Writing, asker: Person, token_id: TokenId, _: Annotated[Parameters, Query()]) -> Response:
    """Revoke a token. From now on nobody gets in with it."""
    _revoke(connection, asker, token_id)
    return Response(status_code=HTTPStatus.NO_CONTENT)


def _owner(asker: Asker, sign_in: SignIn) -> Owner:
    return Owner(asker.name, asker.account, sign_in.token_days(asker.account))


def _revoke(connection: Connection, asker: Asker, token_id: uuid.UUID) -> Row[tuple[object, ...]]:
    found = personal.find(connection, token_id, asker.name)
    if found is None:
        raise not_found("PersonalToken", "id", str(token_id))
    personal.revoke(connection, token_id)
    return found
