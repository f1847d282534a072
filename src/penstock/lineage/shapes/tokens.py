"""Sign-in and personal tokens."""

import datetime
from typing import Literal
from uuid import UUID

from pydantic import ConfigDict, Field, FutureDate

from penstock.lineage.shapes.shape import Shape, StoredText

Scope = Literal["all:read", "all:write"]
_LAST_DAY = "Its last day; if left out, the latest: 366 days from now, or what the OpenID provider's settings allow."


class AuthToken(Shape):
    """A token for somebody who has signed in."""

    access_token: str = Field(description="Goes into the header `Authorization: Bearer`.")
    token_type: str = Field(default="bearer", description="bearer.")
    expires_at: float = Field(description="When it ends, in seconds since 1970.")


class PersonalToken(Shape):
    """A token for programs; its text is shown once, when it is made."""

    id: UUID = Field(description="Id of the token.")
    name: str = Field(description="What its user calls it.")
    scopes: list[Scope] = Field(description="What it may be used for.")
    since: datetime.date = Field(description="The day on which it was made.")
    until: datetime.date = Field(description="The last day on which it is good.")


class PersonalTokenDetailed(Shape):
    """A personal token."""

    id: UUID = Field(description="Id of the token.")
    data: PersonalToken = Field(description="The token without its text.")


class PersonalTokenCreatedDetailed(PersonalTokenDetailed):
    """A personal token that was just made."""

    content: str = Field(description="Its text, which is shown now and never again.")


class PersonalTokenCreateRequest(Shape):
    """What a new token should be."""

    model_config = ConfigDict(extra="forbid")

    name: StoredText = Field(min_length=1, max_length=64, description="A name for it.")
    until: FutureDate | None = Field(default=None, description=_LAST_DAY)
    scopes: list[Scope] = Field(
        default=["all:read", "all:write"], min_length=1, max_length=2, description="What it may be used for."
    )


class PersonalTokenResetRequest(Shape):
    """What a token should be that takes another's place."""

    model_config = ConfigDict(extra="forbid")

    until: FutureDate | None = Field(default=None, description=_LAST_DAY)


class PingResponse(Shape):
    """That the service is there."""

    status: Literal["ok"] = Field(default="ok", description="ok.")
