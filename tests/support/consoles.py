"""A console to ask: with users of each role, or open to this machine."""

import secrets
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fastapi.testclient import TestClient

from penstock.config import project
from penstock.config.settings import Settings
from penstock.console.api.app import make_app
from penstock.console.service import Console, SignIn
from penstock.console.users import ROLES, Role, Users
from penstock.kafka.connection import Connection
from penstock.lineage.sign_in.tokens import TokenKey

ADDRESS = "http://127.0.0.1"
PASSWORD = "a long password"


def settings_of(home: Path, bootstrap_servers: str) -> Settings:
    return Settings(
        home_folder=home,
        cache=home / "cache",
        project_file=None,
        project=project.Project(),
        external=Connection(bootstrap_servers=bootstrap_servers),
        user=None,
    )


@dataclass
class Asked:
    """Asks a console as somebody, with a new action id for each call unless one is given."""

    client: TestClient
    token: str = ""
    headers: dict[str, str] = field(default_factory=dict)

    def __call__(self, method: str, path: str, body: Any = None, *, action_id: str = "", **parameters: Any) -> Any:
        headers = {"X-Action-Id": action_id or secrets.token_hex(8), **self.headers}
        if self.token:
            headers["Authorization"] = f"Bearer {self.token}"
        return self.client.request(method, f"/api/v1{path}", json=body, params=parameters, headers=headers)


def open_console(home: Path, bootstrap_servers: str, role: Role = "admin") -> Asked:
    """Return a console that everybody on this machine may use."""
    console = Console(settings_of(home, bootstrap_servers), [], role=role, lets_all_in=True)
    return Asked(TestClient(make_app(console), base_url=ADDRESS, raise_server_exceptions=False))


def signed_in(home: Path, bootstrap_servers: str) -> tuple[TestClient, dict[Role, Asked]]:
    """Return a console with sign-in, and somebody of each role who has signed in; users are named as their roles."""
    folder = home / "console"
    users = Users(folder)
    for role in ROLES:
        users.put(role, PASSWORD, role)
    sign_in = SignIn(TokenKey.of(folder), users)
    app = make_app(Console(settings_of(home, bootstrap_servers), [], sign_in=sign_in))
    client = TestClient(app, base_url=ADDRESS, raise_server_exceptions=False)
    people = {}
    for role in ROLES:
        token = sign_in.key.access(role, users.account(role) or "").content
        people[role] = Asked(client, token)
    return client, people
