"""What the routes work with: the store, and who is let in."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Annotated

from fastapi import Depends, Request
from sqlalchemy import Connection, Engine

from penstock.errors import Refused
from penstock.lineage.query.bounded import bound
from penstock.lineage.sign_in import oidc
from penstock.lineage.sign_in.passwords import UsersFile
from penstock.lineage.sign_in.tokens import LONGEST_DAYS, TokenKey
from penstock.lineage.sign_in.tries import Tries
from penstock.lineage.store.database import writing


@dataclass(frozen=True)
class SignIn:
    """How people and programs show who they are."""

    key: TokenKey
    users: UsersFile
    provider: oidc.Provider | None = None
    tries: Tries = field(default_factory=Tries)

    def require_account(self, user: str, account: str) -> None:
        """Raise `Refused` if somebody who has signed in once may no longer: the account is gone, or another's."""
        if account == oidc.ACCOUNT:
            is_there = self.provider is not None and self.provider.settings.lets_in(user)
        else:
            is_there = bool(account) and self.users.account(user) == account
        if not is_there:
            raise Refused("The user has no account any more")

    def token_days(self, account: str) -> int:
        """Return how many days a personal token of this account counts at most."""
        if account == oidc.ACCOUNT and self.provider is not None:
            return self.provider.settings.token_max_age // oidc.DAY_MS
        return LONGEST_DAYS


@dataclass(frozen=True)
class Service:
    """One service."""

    engine: Engine
    sign_in: SignIn | None
    """None: everybody on this machine may do everything."""


def service_of(request: Request) -> Service:
    """Return the service that a request is for."""
    service: Service = request.app.state.service
    return service


def _reading(request: Request) -> Iterator[Connection]:
    """Yield a read-only connection, on which every query has a time limit."""
    with service_of(request).engine.connect() as connection, bound(connection):
        yield connection


def _writing(request: Request) -> Iterator[Connection]:
    """Yield a connection that is committed once the route has answered without an error."""
    with writing(service_of(request).engine) as connection:
        yield connection


Reading = Annotated[Connection, Depends(_reading, scope="function")]
Writing = Annotated[Connection, Depends(_writing, scope="function")]
