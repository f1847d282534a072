"""Who may do what, and who did what: users of the console, whether Kafka has users, the audit."""

from typing import Annotated

from fastapi import APIRouter, Query
from pydantic import BaseModel, Field

from penstock.broker import local_users
from penstock.console.asking import NEEDS, FromConsole
from penstock.console.audit import Entry
from penstock.console.kafka_access import own_user, require_clients_known
from penstock.console.users import User
from penstock.errors import Conflict, PenstockError

router = APIRouter(tags=["access"])


class Access(BaseModel, frozen=True):
    """Who may do what."""

    signs_in: bool = Field(description="Whether this console has people sign in.")
    users: list[User] = Field(description="Users of the console, by name.")
    kafka_user: str | None = Field(description="The user of Kafka that the console works as; none if it has no name.")
    users_problem: str = Field("", description="Why users of Kafka are neither listed nor changed here.")
    rules_problem: str = Field("", description="Why access rules and quotas of Kafka are neither listed nor changed.")


@router.get("/access", summary="Who may do what", dependencies=NEEDS["admin"])
def get_access(console: FromConsole) -> Access:
    """Return the users of the console, and what can be said and changed about those of Kafka.

    Kafka is not contacted.
    """
    users_problem = rules_problem = ""
    try:
        local_users.require_secure(console.settings)
    except Conflict as error:
        users_problem = _why(error)
    try:
        require_clients_known(console)
    except Conflict as error:
        rules_problem = _why(error)
    return Access(
        signs_in=console.sign_in is not None,
        users=console.sign_in.users.list() if console.sign_in is not None else [],
        kafka_user=own_user(console),
        users_problem=users_problem,
        rules_problem=rules_problem,
    )


def _why(error: PenstockError) -> str:
    """Write why something is not shown; a reader need not be told that nothing was changed."""
    what = f"{error.what[:1].upper()}{error.what[1:]}"
    return ". ".join(part for part in (what, error.fix) if part)


@router.get("/audit", summary="Who did what", dependencies=NEEDS["admin"])
def get_audit(
    console: FromConsole, count: Annotated[int, Query(ge=1, le=1_000, description="How many at most.")] = 100
) -> list[Entry]:
    """Return the newest requests that would have changed something, the newest first."""
    return console.audit.newest(count)
