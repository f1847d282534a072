"""The users of the console and their roles. A user without a recorded role is a viewer."""

from pathlib import Path
from typing import Literal, get_args

from pydantic import BaseModel, Field

from penstock.lineage.sign_in.passwords import UsersFile
from penstock.private import write_private

Role = Literal["viewer", "operator", "admin"]
ROLES: tuple[Role, ...] = get_args(Role)
"""From the least to the most: each may do what those before it may."""


class User(BaseModel, frozen=True):
    """Somebody who may sign in."""

    user: str = Field(description="Name.")
    role: Role = Field(description="viewer: read; operator: also change what can be undone; admin: also delete.")


class Users:
    """The users of one console. A change counts for the next request, also of those who are signed in."""

    def __init__(self, folder: Path) -> None:
        self._passwords = UsersFile.of(folder)
        self._roles = folder / "roles"

    def put(self, name: str, password: str, role: Role) -> None:
        """Add a user, or give one another password and role."""
        self._passwords.put(name, password)
        self._write({**self._read(), name: role})

    def remove(self, name: str) -> None:
        """Take away a user's sign-in."""
        self._passwords.remove(name)
        self._write({user: role for user, role in self._read().items() if user != name})

    def list(self) -> list[User]:
        """Return everybody, by name."""
        roles = self._read()
        return [User(user=name, role=roles.get(name, ROLES[0])) for name in self._passwords.names()]

    def role(self, name: str) -> Role:
        """Return what a user may do."""
        return self._read().get(name, ROLES[0])

    def account(self, name: str) -> str | None:
        """Return what distinguishes a user from earlier ones of the same name; None if there is no such user."""
        return self._passwords.account(name)

    def accepts(self, name: str, password: str, address: str) -> bool:
        """Return whether this is the password of a user who asks from there."""
        return self._passwords.accepts(name, password, address)

    def _read(self) -> dict[str, Role]:
        try:
            lines = self._roles.read_text(encoding="utf-8").splitlines()
        except FileNotFoundError:
            return {}
        pairs = (line.partition(" ") for line in lines)
        return {name: role for name, _, found in pairs for role in ROLES if role == found}

    def _write(self, roles: dict[str, Role]) -> None:
        write_private(self._roles, "".join(f"{name} {role}\n" for name, role in sorted(roles.items())).encode())
