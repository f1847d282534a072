import hashlib
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

from penstock.console.action_log import ActionLog
from penstock.console.service import Console
from penstock.console.users import ROLES, Role
from penstock.errors import BrokerUnavailable
from penstock.kafka.connection import Connection

from support.consoles import PASSWORD, Asked, signed_in

PAGE = Path(__file__).parents[3] / "docs" / "console.md"
UNREACHABLE = "127.0.0.1:1"
OPEN = {"POST /sign-in", "POST /sign-out"}
ROUTES: dict[str, Role] = {
    "GET /me": "viewer",
    "GET /clusters": "viewer",
    "GET /topics": "viewer",
    "GET /overview": "viewer",
    "GET /topics/{topic}": "viewer",
    "GET /topics/{topic}/rate": "viewer",
    "PUT /topics/{topic}/favourite": "viewer",
    "DELETE /topics/{topic}/favourite": "viewer",
    "GET /topics/{topic}/messages": "viewer",
    "POST /topics/{topic}/messages": "operator",
    "GET /topics/{topic}/messages/download": "viewer",
    "POST /topics/{topic}/messages/copy": "operator",
    "GET /topics/{topic}/use": "viewer",
    "GET /topics/{topic}/lag": "viewer",
    "GET /topics/{topic}/retention": "viewer",
    "POST /tails": "viewer",
    "GET /tails/{tail_id}": "viewer",
    "DELETE /tails/{tail_id}": "viewer",
    "POST /searches": "viewer",
    "GET /searches/{search_id}": "viewer",
    "DELETE /searches/{search_id}": "viewer",
    "GET /groups": "viewer",
    "GET /groups/{group}": "viewer",
    "GET /groups/{group}/history": "viewer",
    "POST /groups/{group}/reset": "operator",
    "DELETE /groups/{group}": "admin",
    "GET /pipelines": "viewer",
    "GET /pipelines/{name}": "viewer",
    "GET /pipelines/{name}/runs": "viewer",
    "GET /pipelines/{name}/batches": "viewer",
    "GET /pipelines/{name}/log": "viewer",
    "GET /pipelines/{name}/gaps": "viewer",
    "GET /pipelines/{name}/expectations": "viewer",
    "GET /pipelines/{name}/definition": "operator",
    "POST /pipelines/{name}/definition/check": "operator",
    "POST /pipelines/{name}/replays": "operator",
    "POST /pipelines/{name}/replays/{replay_id}": "operator",
    "GET /pipelines/{name}/replays/{replay_id}": "viewer",
    "POST /pipelines/{name}/check": "operator",
    "POST /pipelines/{name}/start": "operator",
    "POST /pipelines/{name}/stop": "operator",
    "GET /dead-letters": "viewer",
    "GET /dead-letters/letters": "viewer",
    "GET /dead-letters/letters/{topic}/{partition}/{offset}": "viewer",
    "POST /dead-letters/discard": "admin",
    "POST /dead-letters/replay": "operator",
    "GET /dead-letters/replays/{replay_id}": "viewer",
    "GET /tables": "viewer",
    "GET /tables/detail": "viewer",
    "GET /tables/rows": "viewer",
    "GET /access": "admin",
    "GET /audit": "admin",
    "GET /access/users": "admin",
    "PUT /access/users": "admin",
    "DELETE /access/users/{user}": "admin",
    "GET /access/acls": "admin",
    "POST /access/acls": "admin",
    "POST /access/acls/remove": "admin",
    "GET /access/quotas": "admin",
    "PUT /access/quotas": "admin",
    "POST /access/quotas/remove": "admin",
    "GET /nodes": "viewer",
    "GET /nodes/{node}/settings": "viewer",
    "GET /nodes/{node}/log": "viewer",
    "POST /nodes": "admin",
    "GET /nodes/rebalance": "viewer",
    "POST /nodes/rebalance": "admin",
    "POST /nodes/{node}/restart": "admin",
    "POST /nodes/{node}/stop": "admin",
    "GET /lab/catalog": "viewer",
    "GET /lab/runs": "viewer",
    "POST /lab/runs": "operator",
    "GET /lab/runs/{run_id}": "viewer",
    "GET /lab/runs/{run_id}/cluster": "viewer",
    "POST /lab/runs/{run_id}/scale": "operator",
    "POST /lab/runs/{run_id}/stop": "operator",
    "GET /lab/simulator": "viewer",
    "POST /lab/simulator": "operator",
    "POST /lab/simulator/stop": "operator",
    "GET /lab/podium": "viewer",
    "GET /lineage/search": "viewer",
    "GET /lineage/locations": "viewer",
    "GET /lineage/datasets": "viewer",
    "GET /lineage/datasets/{number}": "viewer",
    "GET /lineage/jobs": "viewer",
    "GET /lineage/jobs/{number}": "viewer",
    "GET /lineage/runs": "viewer",
    "GET /lineage/runs/{run_id}": "viewer",
    "GET /lineage/operations": "viewer",
    "GET /lineage/operations/{operation_id}": "viewer",
    "GET /lineage/graph": "viewer",
    "GET /lineage/tokens": "admin",
    "POST /lineage/tokens": "admin",
    "DELETE /lineage/tokens/{token_id}": "admin",
    "GET /schemas": "viewer",
    "GET /schemas/subject": "viewer",
    "GET /schemas/diff": "viewer",
    "PUT /schemas/compatibility": "admin",
    "GET /connectors": "viewer",
    "GET /connectors/{name}": "viewer",
    "GET /connectors/{name}/slot": "viewer",
    "POST /connectors/{name}/restart": "operator",
    "POST /connectors/{name}/tasks/{task}/restart": "operator",
    "POST /connectors/{name}/pause": "operator",
    "POST /connectors/{name}/resume": "operator",
    "POST /topics": "operator",
    "PATCH /topics/{topic}": "admin",
    "POST /topics/{topic}/partitions": "admin",
    "POST /topics/{topic}/purge": "admin",
    "DELETE /topics/{topic}": "admin",
}
"""Every route, and the least role that it takes."""
TRIED_OUT = "POST /pipelines/{name}/definition/check"
"""It is about a text that is in the request alone, and changes nothing."""


@pytest.fixture(scope="module")
def walked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[TestClient, dict[Role, Asked]]]:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Console, "connection", _away)
        yield signed_in(tmp_path_factory.mktemp("home"), UNREACHABLE)


def _away(_: Console) -> Connection:
    raise BrokerUnavailable("Kafka is away")


def routes_of(app: Any) -> set[str]:
    paths = app.openapi()["paths"]
    found = {
        f"{method.upper()} {path.removeprefix('/api/v1')}" for path, methods in paths.items() for method in methods
    }
    return found - OPEN


def called(ask: Asked, route: str) -> int:
    """Call a route with a body that it does not understand: whoever is let in is told so, and nothing is done."""
    method, _, path = route.partition(" ")
    path = re.sub(r"{[a-z_]+}", "1", path)
    body = None if method == "GET" else {"not understood": True}
    return int(ask(method, path, body).status_code)


def test_no_route_is_without_a_role(walked: tuple[TestClient, dict[Role, Asked]]) -> None:
    assert set(ROUTES) == routes_of(walked[0].app)


@pytest.mark.parametrize("route", ROUTES)
def test_a_route_takes_its_role_and_refuses_all_below(route: str, walked: tuple[TestClient, dict[Role, Asked]]) -> None:
    client, people = walked
    least = ROLES.index(ROUTES[route])

    assert called(Asked(client), route) == 401
    assert called(Asked(client, "access_token_forged"), route) == 401
    assert [403] * least == [called(people[role], route) for role in ROLES[:least]]
    assert {401, 403, 500}.isdisjoint({called(people[role], route) for role in ROLES[least:]})


def documented() -> dict[str, str]:
    """Return the requests of the table in docs/console.md with their roles; further ones of a row are abbreviated."""
    rows = re.findall(r"^\| (`[A-Z].*?) \| .* \| ([a-z, ]+) \|$", PAGE.read_text(), re.MULTILINE)
    assert rows
    found: dict[str, str] = {}
    for requests, roles in rows:
        in_row = requests_of(re.findall(r"`([^`]+)`", requests))
        least = roles.split(", ") if ", " in roles else [roles] * len(in_row)
        found |= dict(zip(in_row, least, strict=True))
    return found


def requests_of(named: list[str]) -> list[str]:
    """Write each request of a row in full: methods before a path are of that path, `/log` is of what came before."""
    found: list[str] = []
    methods: list[str] = []
    for each in named:
        method, _, rest = each.partition(" ")
        path = (rest or method).partition("?")[0]
        if not path.startswith("/"):
            methods.append(path)
            continue
        methods = [*methods, method] if rest else methods or [found[-1].partition(" ")[0]]
        for one in methods:
            top = found[-1].split("/")[1] if found and not rest else path.split("/")[1]
            (whole,) = {
                route
                for route in ROUTES
                if route == f"{one} {path}"
                or (not rest and route.startswith(f"{one} /{top}/") and route.endswith(path))
            }
            found.append(whole)
        methods = []
    return found


def test_every_request_is_documented_with_its_role() -> None:
    assert ROUTES == documented()


@pytest.mark.parametrize("route", [each for each in ROUTES if not each.startswith("GET ") and each != TRIED_OUT])
def test_a_request_that_changes_something_is_nothing_without_an_action_id(
    route: str, walked: tuple[TestClient, dict[Role, Asked]]
) -> None:
    client, people = walked
    method, _, path = route.partition(" ")
    headers = {"Authorization": f"Bearer {people['admin'].token}"}
    answer = client.request(method, f"/api/v1{re.sub(r'{[a-z_]+}', '1', path)}", headers=headers)

    assert (422, True) == (answer.status_code, "needs the header X-Action-Id" in answer.text)


def test_a_role_counts_for_the_next_request_and_a_removed_user_is_out_at_once(tmp_path: Path) -> None:
    _, people = signed_in(tmp_path, UNREACHABLE)
    users = people["admin"].client.app.state.console.sign_in.users  # type: ignore[attr-defined]
    users.put("admin", "another password", "viewer")
    users.remove("operator")

    assert people["admin"]("GET", "/me").json() == {"user": "admin", "role": "viewer", "signs_in": True}
    assert people["operator"]("GET", "/me").status_code == 401

    users.put("operator", "a password of another", "admin")

    assert people["operator"]("GET", "/me").status_code == 401


def test_what_somebody_did_is_not_answered_again_once_they_may_do_it_no_longer(tmp_path: Path) -> None:
    client, people = signed_in(tmp_path, UNREACHABLE)
    log = ActionLog(tmp_path / "console" / "actions.db")
    nothing = hashlib.sha256(b"").hexdigest()
    log.begin("operator", "done-before", f"POST /api/v1/connectors/shop/pause? {nothing}")
    log.end("operator", "done-before", 200, b'{"answer":"kept"}')

    def repeated() -> int:
        return int(people["operator"]("POST", "/connectors/shop/pause", action_id="done-before").status_code)

    while_operator = repeated()
    client.app.state.console.sign_in.users.put("operator", PASSWORD, "viewer")  # type: ignore[attr-defined]

    assert [200, 403] == [while_operator, repeated()]
