"""Tokens: signed with a key that only this home has, each for one purpose, each with an end.

A token names its user's account, and is good only as long as that is there. A personal token is also a row in the
store, by its id alone: it is looked up at each use, so revoking works at once. Nothing that is kept or logged anywhere
is enough to make one.
"""

import datetime
import secrets
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal, NamedTuple
from uuid import UUID

import jwt

from penstock.clock import clock
from penstock.errors import BadInput, Refused
from penstock.private import make_missing_private, open_private

_ALGORITHM = "HS256"
_ISSUER = "penstock-lineage"
_KEY_BYTES = 32
ACCESS_S = 36_000
LONGEST_DAYS = 366
"""How long a personal token is good at most."""
PREFIX: dict[str, str] = {"access": "access_token_", "personal": "personal_token_"}
Purpose = Literal["access", "personal", "sign-in"]


class Access(NamedTuple):
    """A token for some hours, and when it ends in seconds since 1970."""

    content: str
    expires_at: float


class TokenKey:
    """Signs and reads tokens."""

    def __init__(self, key: bytes) -> None:
        self._key = key

    @classmethod
    def of(cls, folder: Path) -> "TokenKey":
        """Return the key in a folder; it is made the first time, for its owner alone."""
        path = folder / "token.key"
        make_missing_private(folder)
        with suppress(FileExistsError), open_private(path) as file:
            file.write(secrets.token_bytes(_KEY_BYTES))
        key = path.read_bytes()
        if len(key) != _KEY_BYTES:
            raise BadInput(
                f"{path} is not a key of {_KEY_BYTES} bytes",
                safe="Nothing was started",
                fix="Remove it: a new one is made, and all tokens so far end",
            )
        return cls(key)

    def access(self, user: str, account: str, lasts_s: int = ACCESS_S) -> Access:
        """Make a token for somebody who has just signed in."""
        end = clock().now() + datetime.timedelta(seconds=lasts_s)
        return Access(PREFIX["access"] + self.sign("access", {"sub": user, "account": account}, end), end.timestamp())

    def personal(self, user: str, account: str, token_id: UUID, until: datetime.date) -> str:
        """Make a personal token that is good to the end of a day."""
        end = datetime.datetime.combine(until, datetime.time(), datetime.UTC) + datetime.timedelta(days=1)
        claims = {"sub": user, "account": account, "jti": str(token_id)}
        return PREFIX["personal"] + self.sign("personal", claims, end)

    def sign(self, purpose: Purpose, claims: Mapping[str, Any], end: datetime.datetime) -> str:
        """Sign claims for one purpose, until a time."""
        whole = {**claims, "iss": _ISSUER, "aud": purpose, "iat": clock().now(), "exp": end}
        return jwt.encode(whole, self._key, _ALGORITHM)

    def read(self, purpose: Purpose, content: str) -> dict[str, Any]:
        """Return the claims of a token for this purpose; raise `Refused` if it is none, or has ended."""
        try:
            claims: dict[str, Any] = jwt.decode(
                content.removeprefix(PREFIX.get(purpose, "")),
                self._key,
                [_ALGORITHM],
                audience=purpose,
                issuer=_ISSUER,
                # Times are those of the clock that signed, so that one clock decides.
                options={"require": ["exp", "iat", "aud", "iss"], "verify_exp": False, "verify_iat": False},
            )
        except jwt.InvalidTokenError:
            raise Refused("Invalid token") from None
        if claims["exp"] <= clock().now().timestamp():
            raise Refused("Token has expired")
        return claims
