"""Access rules of Kafka: listed, added and removed, with the plan first."""

from typing import Annotated, Literal

from fastapi import APIRouter, Query, Request
from pydantic import BaseModel, Field

from penstock.console.actions import ActionRoute, note_about
from penstock.console.asking import NEEDS, FromConsole, require_typed
from penstock.console.kafka_access import Principal, require_clients_known, require_not_relied_on
from penstock.errors import BadInput
from penstock.kafka import acls
from penstock.kafka.acls import Acl, Operation

router = APIRouter(prefix="/access/acls", tags=["access"], route_class=ActionRoute)
_MOST_RULES = 200
Names = Annotated[list[Principal], Field(max_length=_MOST_RULES)]


class AclPage(BaseModel, frozen=True):
    """Some access rules."""

    total: int = Field(description="How many match.")
    acls: list[Acl] = Field(description="Those on this page, by user.")


class Grant(BaseModel, frozen=True, extra="forbid"):
    """Permissions for a user: what a producer or a consumer needs, or single operations."""

    user: Principal = Field(description="Who may.")
    may: Literal["produce", "consume"] | None = Field(None, description="What a producer or a consumer needs.")
    operations: list[Operation] = Field(default_factory=list, max_length=20, description="Or these operations.")
    topics: Names = Field(default_factory=list, description="On these topics; `orders*` for all with that prefix.")
    groups: Names = Field(default_factory=list, description="On these groups.")
    transactional_ids: Names = Field(default_factory=list, description="On these transactional ids.")
    cluster: bool = Field(default=False, description="On the cluster itself.")
    confirm: str | None = Field(None, description="The user's name once more; only planned without it.")

    def acls(self) -> list[Acl]:
        """Return the rules for that."""
        if (self.may is None) == (not self.operations):
            raise BadInput("give one of may and operations", safe="Nothing was changed")
        if self.may == "produce":
            found = acls.producer_acls(self.user, self.topics, self.transactional_ids)
        elif self.may == "consume":
            found = acls.consumer_acls(self.user, self.topics, self.groups)
        else:
            kinds: list[tuple[acls.Resource, str]] = [("topic", each) for each in self.topics]
            kinds += [("group", each) for each in self.groups]
            kinds += [("transactional_id", each) for each in self.transactional_ids]
            kinds += [("cluster", acls.CLUSTER_NAME)] if self.cluster else []
            found = [
                Acl(user=self.user, operation=operation, resource=resource, name=name)
                for resource, name in kinds
                for operation in self.operations
            ]
        if not found or (self.may == "consume" and not (self.topics and self.groups)):
            needed = {"produce": "topics", "consume": "topics and groups"}
            raise BadInput(
                f"say on what: {needed.get(self.may or '', 'topics, groups, transactional_ids or cluster')}",
                safe="Nothing was changed",
            )
        return list(dict.fromkeys(found))


class AclRemoval(BaseModel, frozen=True, extra="forbid"):
    """Access rules of one user to remove."""

    acls: Annotated[list[Acl], Field(min_length=1, max_length=_MOST_RULES)] = Field(description="As they are listed.")
    confirm: str | None = Field(None, description="The user's name once more; only planned without it.")


class AclStep(BaseModel, frozen=True):
    """What happens to one rule."""

    acl: Acl = Field(description="The rule.")
    effect: Literal["is added", "is there already", "is removed", "is not there"] = Field(description="What happens.")


class AclPlan(BaseModel, frozen=True):
    """What a change does to each rule."""

    steps: list[AclStep] = Field(description="The steps.")
    is_done: bool = Field(description="Whether it was done; without a confirmation it is only planned.")


@router.get("", summary="List access rules", dependencies=NEEDS["admin"])
def list_acls(
    console: FromConsole,
    search: Annotated[str, Query(max_length=249, description="Part of user, operation, kind or name.")] = "",
    page: Annotated[int, Query(ge=0, description="Page, from 0.")] = 0,
    size: Annotated[int, Query(ge=1, le=200, description="Rules on a page.")] = 50,
) -> AclPage:
    """Return Kafka's access rules; a search looks at user, operation, kind and name."""
    require_clients_known(console)
    wanted = search.lower()
    fitting = [
        each
        for each in acls.list_acls(console.admin())
        if wanted in f"{each.user} {each.permission} {each.operation} {each.resource} {each.name}".lower()
    ]
    return AclPage(total=len(fitting), acls=fitting[page * size : (page + 1) * size])


@router.post("", summary="Allow something", dependencies=NEEDS["admin"])
def add_acls(console: FromConsole, request: Request, grant: Grant) -> AclPlan:
    """Plan rules; with the user's name as confirmation, add them. What is there already stays."""
    wanted = grant.acls()
    _note_rules(request, "allow", wanted, is_done=grant.confirm is not None)
    require_clients_known(console)
    admin = console.admin()
    there = set(acls.list_acls(admin, grant.user))
    if grant.confirm is not None:
        require_typed("user", grant.user, grant.confirm)
        acls.allow(admin, wanted)
    steps = [AclStep(acl=each, effect="is there already" if each in there else "is added") for each in wanted]
    return AclPlan(steps=steps, is_done=grant.confirm is not None)


@router.post("/remove", summary="Remove access rules", dependencies=NEEDS["admin"])
def remove_acls(console: FromConsole, request: Request, withdrawal: AclRemoval) -> AclPlan:
    """Plan the removal; with the user's name as confirmation, do it."""
    unwanted = list(dict.fromkeys(withdrawal.acls))
    _note_rules(request, "remove", unwanted, is_done=withdrawal.confirm is not None)
    if len({each.user for each in unwanted}) > 1:
        raise BadInput("rules of one user at a time", safe="Nothing was changed")
    require_clients_known(console)
    require_not_relied_on(console, unwanted)
    admin = console.admin()
    there = set(acls.list_acls(admin, unwanted[0].user))
    if withdrawal.confirm is not None:
        require_typed("user", unwanted[0].user, withdrawal.confirm)
        acls.remove(admin, [each for each in unwanted if each in there])
    steps = [AclStep(acl=each, effect="is removed" if each in there else "is not there") for each in unwanted]
    return AclPlan(steps=steps, is_done=withdrawal.confirm is not None)


def _note_rules(request: Request, what: str, rules: list[Acl], *, is_done: bool) -> None:
    """Say for the audit which rules, the first of many."""
    listed = ", ".join(f"{each.operation} {each.resource} {each.name}" for each in rules)
    note_about(request, f"{'' if is_done else 'only planned: '}{what} {rules[0].user}: {listed}")
