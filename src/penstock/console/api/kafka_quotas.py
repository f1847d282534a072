"""Quotas of Kafka's users: listed, set, removed."""

from fastapi import APIRouter, Request
from pydantic import BaseModel, Field

from penstock.broker.quotas import Quota
from penstock.console.actions import ActionRoute, note_about
from penstock.console.asking import NEEDS, FromConsole
from penstock.console.kafka_access import Principal, require_clients_known, require_not_own
from penstock.errors import BadInput, NotFound

router = APIRouter(prefix="/access/quotas", tags=["access"], route_class=ActionRoute)
_SLOWEST_BYTES_PER_S = 1_000


class NewQuota(BaseModel, frozen=True, extra="forbid"):
    """A quota to set; whatever is left out has no limit from then on."""

    user: Principal | None = Field(description="The user; none for every user without a quota of their own.")
    producer_bytes_per_s: int | None = Field(
        None, ge=_SLOWEST_BYTES_PER_S, le=10**15, description="Bytes that may be written a second."
    )
    consumer_bytes_per_s: int | None = Field(
        None, ge=_SLOWEST_BYTES_PER_S, le=10**15, description="Bytes that may be read a second."
    )
    request_percent: float | None = Field(
        None, ge=1, le=100_000, description="Share of the time of a node's threads; 100 is one thread."
    )


class QuotaOf(BaseModel, frozen=True, extra="forbid"):
    """Whose quota to remove."""

    user: Principal | None = Field(description="The user; none for every user without a quota of their own.")


@router.get("", summary="List quotas of users", dependencies=NEEDS["admin"])
def list_quotas(console: FromConsole) -> list[Quota]:
    """Return what users may write and read a second. Takes a second or two: Kafka's own tool is asked."""
    require_clients_known(console)
    return console.quotas.list()


@router.put("", summary="Set a quota", dependencies=NEEDS["admin"])
def put_quota(console: FromConsole, request: Request, wanted: NewQuota) -> Quota:
    """Limit a user, or all who have no quota of their own. The console's own user is not limited."""
    quota = Quota(**wanted.model_dump())
    limits = ", ".join(f"{name}={value:,}" for name, value in quota.settings().items())
    note_about(request, f"{wanted.user or 'every other user'}: {limits}")
    if not quota.settings():
        raise BadInput("give at least one limit", safe="Nothing was changed", fix="To end one, remove the quota")
    require_clients_known(console)
    require_not_own(console, wanted.user)
    console.quotas.put(quota)
    return quota


@router.post("/remove", summary="Remove a quota", dependencies=NEEDS["admin"])
def remove_quota(console: FromConsole, request: Request, wanted: QuotaOf) -> Quota:
    """End the limits of a user, or of all who have none of their own."""
    note_about(request, wanted.user or "every other user")
    require_clients_known(console)
    if not console.quotas.remove(wanted.user):
        whose = "all other users have" if wanted.user is None else f"user '{wanted.user}' has"
        raise NotFound(f"{whose} no quota")
    return Quota(user=wanted.user)
