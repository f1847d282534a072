"""Users of Kafka: listed, added, given another password, removed. Passwords are never returned."""

from typing import Annotated

from fastapi import APIRouter, Path, Query, Request
from pydantic import BaseModel, Field, SecretStr, field_validator

from penstock.broker import local_users
from penstock.broker.local_users import SHORTEST_PASSWORD
from penstock.config.secrets_folder import USER_NAME
from penstock.console.actions import SecretActionRoute, note_about
from penstock.console.asking import NEEDS, FromConsole, require_typed
from penstock.console.kafka_access import require_not_own
from penstock.console.service import Console
from penstock.errors import Conflict, NotFound
from penstock.kafka import acls, users
from penstock.kafka.users import User

router = APIRouter(prefix="/access/users", tags=["access"], route_class=SecretActionRoute)
_NAME = rf"^{USER_NAME.pattern}$"


class UserRow(User, frozen=True):
    """One line of the list of users."""

    is_fixed: bool = Field(description="Whether Penstock itself works as this user, so that it is not changed here.")


class UserPage(BaseModel, frozen=True):
    """Some users of Kafka."""

    total: int = Field(description="How many match.")
    users: list[UserRow] = Field(description="Those on this page, by name.")


class NewPassword(BaseModel, frozen=True, extra="forbid", hide_input_in_errors=True):
    """A user to add, or to give another password."""

    user: str = Field(pattern=_NAME, description="Letters, digits, dot, dash and underscore, 63 at most.")
    password: SecretStr = Field(
        min_length=SHORTEST_PASSWORD, max_length=1_024, description="8 characters at least, those of a US keyboard."
    )

    @field_validator("password")
    @classmethod
    def _is_the_same_for_every_client(cls, value: SecretStr) -> SecretStr:
        """Clients do not agree on how other characters are written before they are hashed."""
        if not all(" " <= each <= "~" for each in value.get_secret_value()):
            raise ValueError("use the letters, digits and signs of a US keyboard")
        return value


class UserChanged(BaseModel, frozen=True):
    """A user that was added or changed."""

    user: str = Field(description="The user.")
    is_new: bool = Field(description="Whether it was not there before.")


class UserRemoved(BaseModel, frozen=True):
    """A user that was, or would be, removed."""

    user: str = Field(description="The user.")
    rules: int = Field(description="Access rules that go with it.")
    is_done: bool = Field(description="Whether it was done; without a confirmation it is only counted.")


@router.get("", summary="List users of Kafka", dependencies=NEEDS["admin"])
def list_users(
    console: FromConsole,
    search: Annotated[str, Query(max_length=249, description="Part of the name.")] = "",
    page: Annotated[int, Query(ge=0, description="Page, from 0.")] = 0,
    size: Annotated[int, Query(ge=1, le=200, description="Users on a page.")] = 50,
) -> UserPage:
    """Return everybody who has a SCRAM password. Passwords are never returned."""
    local_users.require_secure(console.settings)
    fitting = [each for each in users.list_users(console.admin()) if search.lower() in each.user.lower()]
    shown = fitting[page * size : (page + 1) * size]
    return UserPage(
        total=len(fitting),
        users=[UserRow(**vars(each), is_fixed=not _may_change(console, each.user)) for each in shown],
    )


@router.put("", summary="Add a user, or change a password", dependencies=NEEDS["admin"])
def put_user(console: FromConsole, request: Request, wanted: NewPassword) -> UserChanged:
    """Set the password of a user. A new user may do nothing until a rule allows it."""
    note_about(request, wanted.user)
    local_users.require_secure(console.settings)
    require_not_own(console, wanted.user)
    admin = console.admin()
    is_new = wanted.user not in {each.user for each in users.list_users(admin)}
    local_users.put(console.settings, admin, wanted.user, wanted.password.get_secret_value())
    return UserChanged(user=wanted.user, is_new=is_new)


@router.delete("/{user}", summary="Remove a user and its rules", dependencies=NEEDS["admin"])
def remove_user(
    console: FromConsole,
    request: Request,
    user: Annotated[str, Path(pattern=_NAME, description="The user's name.")],
    confirm: Annotated[str | None, Query(description="The user's name once more; only counted without it.")] = None,
) -> UserRemoved:
    """Count the rules that would go; with the user's name as confirmation, remove both."""
    local_users.require_secure(console.settings)
    require_not_own(console, user)
    admin = console.admin()
    if user not in {each.user for each in users.list_users(admin)}:
        raise NotFound(f"there is no user '{user}'")
    rules = len(acls.list_acls(admin, user))
    note_about(request, f"{'' if confirm is not None else 'only planned: '}the user and {rules} rules")
    if confirm is not None:
        require_typed("user", user, confirm)
        local_users.remove(console.settings, admin, user)
    return UserRemoved(user=user, rules=rules, is_done=confirm is not None)


def _may_change(console: Console, user: str) -> bool:
    try:
        require_not_own(console, user)
    except Conflict:
        return False
    return True
