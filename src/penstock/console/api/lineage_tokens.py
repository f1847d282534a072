"""Personal tokens of the lineage service: listed, made, revoked. The text of one is in one answer, and kept nowhere.

They belong to users of the service, whose accounts and key are in the home folder. The service itself lets people
make their own; here, admins make them for programs of anybody who may sign in there.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated
from uuid import UUID

from fastapi import APIRouter, Path, Query, Request
from pydantic import BaseModel, Field, FutureDate

from penstock.console.actions import OneTimeAnswerRoute, note_about
from penstock.console.asking import NEEDS, FromConsole, require_typed
from penstock.console.lineage_store import store_of
from penstock.console.service import Console
from penstock.errors import Conflict, NotFound
from penstock.lineage.shapes.shape import StoredText
from penstock.lineage.shapes.tokens import PersonalToken, Scope

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from penstock.lineage.sign_in.passwords import UsersFile

router = APIRouter(prefix="/lineage/tokens", tags=["lineage"], route_class=OneTimeAnswerRoute)
_NOBODY = "nobody has an account at the lineage service, so it has no tokens. Add one: penstock lineage user add NAME"
TokenId = Annotated[UUID, Path(description="Id of the token.")]


class TokenRow(PersonalToken):
    """A token without its text."""

    user: str = Field(description="Whose it is.")


class TokenPage(BaseModel, frozen=True):
    """Some tokens, and for whom more can be made."""

    users: list[str] = Field(description="Who has an account at the lineage service, by a password.")
    problem: str = Field("", description="Why none can be made here.")
    total: int = Field(description="How many match.")
    items: list[TokenRow] = Field(description="Those on this page, by user and name.")


class NewToken(BaseModel, frozen=True, extra="forbid"):
    """What a new token should be."""

    user: str = Field(max_length=63, description="Whose it is: somebody with an account at the lineage service.")
    name: StoredText = Field(min_length=1, max_length=64, description="A name that none of the user's tokens has.")
    scopes: list[Scope] = Field(
        default=["all:read"], min_length=1, max_length=2, description="What it may be used for."
    )
    until: FutureDate | None = Field(None, description="Its last day; left out, and at most, 366 days from now.")


class TokenMade(TokenRow):
    """A token that was just made."""

    content: str = Field(description="Its text, which is shown now and never again.")


class TokenRevoked(BaseModel, frozen=True):
    """A token that was, or would be, revoked."""

    token: TokenRow = Field(description="The token.")
    is_done: bool = Field(description="Whether it was done; without a confirmation it is only shown.")


@router.get("", summary="List personal tokens of the lineage service", dependencies=NEEDS["admin"])
def list_tokens(
    console: FromConsole,
    search: Annotated[str, Query(max_length=64, description="Part of the token's or the user's name.")] = "",
    page: Annotated[int, Query(ge=0, lt=1_000_000, description="Page, from 0.")] = 0,
    size: Annotated[int, Query(ge=1, le=200, description="Tokens on a page.")] = 50,
) -> TokenPage:
    """Return the tokens that are good, of everybody. Their texts are nowhere."""
    with _store(console, writes=False) as connection:
        from penstock.lineage.sign_in import personal

        rows = [_row(row.user, personal.shape(row)) for row in connection.execute(personal.tokens_of(None))]
    words = search.strip().lower()
    fitting = [each for each in rows if words in each.name.lower() or words in each.user.lower()]
    fitting.sort(key=lambda each: (each.user, each.name, each.id))
    users = _users(console).names()
    return TokenPage(
        users=users,
        problem="" if users else _NOBODY,
        total=len(fitting),
        items=fitting[page * size : (page + 1) * size],
    )


@router.post("", summary="Make a personal token of the lineage service", dependencies=NEEDS["admin"])
def make_token(console: FromConsole, request: Request, wanted: NewToken) -> TokenMade:
    """Make a token. Its text is in this answer alone: the same action id again is answered only that it was made."""
    note_about(request, f"'{wanted.name}' of {wanted.user}: {', '.join(sorted(set(wanted.scopes)))}")
    account = _users(console).account(wanted.user)
    if account is None:
        raise NotFound(
            f"'{wanted.user}' has no account at the lineage service",
            safe="No token was made",
            fix=f"Add one: penstock lineage user add {wanted.user}",
        )
    with _store(console) as connection:
        from penstock.lineage.sign_in import personal
        from penstock.lineage.sign_in.tokens import TokenKey

        owner = personal.Owner(wanted.user, account)
        if personal.is_taken(connection, owner, wanted.name):
            raise Conflict(f"{wanted.user} has a token '{wanted.name}' already", safe="No token was made")
        key = TokenKey.of(console.settings.home / "lineage")
        made = personal.make(connection, key, owner, wanted.name, list(wanted.scopes), wanted.until)
    return TokenMade(**dict(made.data), user=wanted.user, content=made.content)


@router.delete("/{token_id}", summary="Revoke a personal token of the lineage service", dependencies=NEEDS["admin"])
def revoke_token(
    console: FromConsole,
    request: Request,
    token_id: TokenId,
    confirm: Annotated[str | None, Query(description="The token's name once more; only shown without it.")] = None,
) -> TokenRevoked:
    """Show the token; with its name as confirmation, revoke it. From then on nobody gets in with it."""
    with _store(console) as connection:
        from penstock.lineage.sign_in import personal

        found = personal.find(connection, token_id)
        if found is None:
            raise NotFound(f"there is no token {token_id}, or it was revoked")
        note_about(request, f"{'' if confirm is not None else 'only shown: '}'{found.name}' of {found.user}")
        if confirm is not None:
            require_typed("token", str(found.name), confirm)
            personal.revoke(connection, token_id)
        token = _row(found.user, personal.shape(found))
    return TokenRevoked(token=token, is_done=confirm is not None)


@contextmanager
def _store(console: Console, *, writes: bool = True) -> "Iterator[Connection]":
    """Open the store for a moment."""
    address = store_of(console)
    from penstock.lineage.store.database import explained, open_engine, writing

    engine = open_engine(address, pool_size=1)
    try:
        with explained(address), writing(engine) if writes else engine.connect() as connection:
            yield connection
    finally:
        engine.dispose()


def _users(console: Console) -> "UsersFile":
    from penstock.lineage.sign_in.passwords import UsersFile

    return UsersFile.of(console.settings.home / "lineage")


def _row(user: str, token: PersonalToken) -> TokenRow:
    return TokenRow(**dict(token), user=user)
