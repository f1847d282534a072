"""Personal tokens in a store: which are good, making one, revoking one.

The store has what a token is called and for how long it is good. Its text is returned once, and kept nowhere.
"""

import datetime
import uuid
from dataclasses import dataclass

from sqlalchemy import ColumnElement, Connection, Row, Select, insert, select, update

from penstock.clock import clock
from penstock.lineage.shapes.tokens import PersonalToken, PersonalTokenCreatedDetailed, Scope
from penstock.lineage.sign_in.tokens import LONGEST_DAYS, TokenKey
from penstock.lineage.store import tables

_of = tables.personal_token.c


@dataclass(frozen=True)
class Owner:
    """Whose token it is."""

    name: str
    account: str
    longest_days: int = LONGEST_DAYS
    """How long the owner's tokens are good at most."""


def tokens_of(name: str | None, longest_days: int = LONGEST_DAYS) -> Select[tuple[object, ...]]:
    """Return the statement for all tokens that are good, of a user or of everybody, with the user's name."""
    whose = [] if name is None else [tables.user.c.name == name]
    return (
        select(tables.personal_token, tables.user.c.name.label("user"))
        .join(tables.user, tables.user.c.id == _of.user_id)
        .where(*whose, *_good(longest_days))
    )


def is_taken(connection: Connection, owner: Owner, name: str) -> bool:
    """Return whether a good token of the owner's is called so."""
    found = connection.execute(tokens_of(owner.name, owner.longest_days).where(_of.name == name))
    return found.first() is not None


def make(
    connection: Connection,
    key: TokenKey,
    owner: Owner,
    name: str,
    scopes: list[Scope],
    until: datetime.date | None,
) -> PersonalTokenCreatedDetailed:
    """Make a token, good until a day or for as long as its owner's may be; its text is in what is returned."""
    latest = _today() + datetime.timedelta(days=owner.longest_days)
    token = PersonalToken(
        id=uuid.uuid4(), name=name, scopes=sorted(set(scopes)), since=_today(), until=min(until or latest, latest)
    )
    user_id = _user_id(connection, owner.name)
    connection.execute(insert(tables.personal_token).values(user_id=user_id, **token.model_dump()))
    content = key.personal(owner.name, owner.account, token.id, token.until)
    return PersonalTokenCreatedDetailed(id=token.id, data=token, content=content)


def find(connection: Connection, token_id: uuid.UUID, user: str | None = None) -> Row[tuple[object, ...]] | None:
    """Return a token that nobody has revoked, of a user or of anybody."""
    whose = [] if user is None else [tables.user.c.name == user]
    statement = (
        select(tables.personal_token, tables.user.c.name.label("user"))
        .join(tables.user, tables.user.c.id == _of.user_id)
        .where(_of.id == token_id, _of.revoked_at.is_(None), *whose)
    )
    return connection.execute(statement).one_or_none()


def revoke(connection: Connection, token_id: uuid.UUID) -> None:
    """Revoke a token: from the commit on nobody gets in with it."""
    connection.execute(update(tables.personal_token).where(_of.id == token_id).values(revoked_at=clock().now()))


def shape(row: Row[tuple[object, ...]]) -> PersonalToken:
    """Return a token as answers have it."""
    return PersonalToken(id=row.id, name=row.name, scopes=row.scopes, since=row.since, until=row.until)


def _good(longest_days: int) -> list[ColumnElement[bool]]:
    oldest = _today() - datetime.timedelta(days=longest_days)
    return [_of.revoked_at.is_(None), _of.until >= _today(), _of.since >= oldest]


def _user_id(connection: Connection, name: str) -> int:
    known = select(tables.user.c.id).where(tables.user.c.name == name)
    found = connection.execute(known).scalar_one_or_none()
    if found is None:
        found = connection.execute(insert(tables.user).values(name=name).returning(tables.user.c.id)).scalar_one()
    return int(found)


def _today() -> datetime.date:
    return clock().now().date()
