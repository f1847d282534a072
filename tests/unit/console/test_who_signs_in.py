"""Where nobody says otherwise, a console that acts by the logins of one person asks everybody else for theirs."""

from pathlib import Path

import pytest
from fastapi.testclient import TestClient
from starlette.websockets import WebSocketDisconnect

from penstock.config import settings
from penstock.config.cluster_state import ClusterState, NodeState
from penstock.console.api.app import make_app
from penstock.console.serve import ConsoleOptions, serve
from penstock.console.service import Console
from penstock.errors import BadInput, Conflict
from penstock.listening import listen
from penstock.services.context import ServiceContext

from support.consoles import ADDRESS

LOGIN = "{type: plain, username: u, password: env:SECRET}"
AWAY = "cluster: {type: external, bootstrap_servers: '127.0.0.1:1'}\n"
WITH_A_LOGIN = {
    "kafka": f"cluster: {{type: external, bootstrap_servers: 'a:1', security: {LOGIN}}}\n",
    "cluster": f"{AWAY}clusters: {{staging: {{bootstrap_servers: 'b:1', security: {LOGIN}}}}}\n",
    "registry": f"{AWAY}registry: {{url: 'https://r.example', username: u, password: env:SECRET}}\n",
    "token": f"{AWAY}registry: {{url: 'https://r.example', token: env:SECRET}}\n",
    "certificate": f"{AWAY}registry: {{url: 'https://r.example', certificate_file: a.pem, key_file: a.key}}\n",
}
WITHOUT = {
    "kafka": AWAY,
    "cluster": f"{AWAY}clusters: {{staging: {{bootstrap_servers: 'b:1'}}}}\n",
    "registry": f"{AWAY}registry: http://r.example\n",
}


def start(folder: Path, port: int, *, sign_in: bool | None = None, host: str = "127.0.0.1") -> None:
    options = ConsoleOptions(
        host=host, port=port, sign_in=sign_in, role="admin", downloads=True, certificate=None, key=None
    )
    found = settings.load(project_file=folder / "penstock.yaml", home=folder / ".penstock")
    serve(found, [], options, ready=pytest.fail, warn=lambda _text: None)


def local(folder: Path, *, secure: bool) -> None:
    (folder / "penstock.yaml").write_text("{}")
    node = NodeState(id=1, controller=True, client_port=1, controller_port=2, internal_port=3 if secure else None)
    ClusterState(
        cluster_id="4L6g3nShT-eMCtK--X86sw",
        kafka_version="4.3.1",
        host="127.0.0.1",
        secure=secure,
        heap_bytes=512_000_000,
        replication=1,
        first_nodes=1,
        next_node_id=2,
        nodes=(node,),
    ).save(folder / ".penstock" / "broker")


@pytest.mark.parametrize("server", [*WITH_A_LOGIN, "secure"])
def test_a_console_that_has_a_login_asks_for_one_on_this_machine_too(tmp_path: Path, server: str) -> None:
    if server == "secure":
        local(tmp_path, secure=True)
    else:
        (tmp_path / "penstock.yaml").write_text(WITH_A_LOGIN[server])

    with pytest.raises(BadInput, match="nobody could sign in"):
        start(tmp_path, 0)
    with listen("127.0.0.1", 0, "a test") as taken, pytest.raises(Conflict, match="cannot listen"):
        taken.listen()
        start(tmp_path, taken.getsockname()[1], sign_in=False)  # it is meant, and so nobody has to


@pytest.mark.parametrize("server", [*WITHOUT, "open", "none"])
def test_a_console_without_any_login_asks_nobody_on_this_machine(tmp_path: Path, server: str) -> None:
    (tmp_path / "penstock.yaml").write_text(WITHOUT.get(server, "{}"))
    if server == "open":
        local(tmp_path, secure=False)

    with listen("127.0.0.1", 0, "a test") as taken, pytest.raises(Conflict, match="cannot listen"):
        taken.listen()
        start(tmp_path, taken.getsockname()[1])
    with pytest.raises(BadInput, match="nobody could sign in"):
        start(tmp_path, 0, sign_in=True)


def test_people_elsewhere_always_have_to_sign_in(tmp_path: Path) -> None:
    (tmp_path / "penstock.yaml").write_text(AWAY)

    with pytest.raises(BadInput, match="nobody could sign in"):
        start(tmp_path, 0, host="192.0.2.1")
    with pytest.raises(BadInput, match="people have to sign in"):
        start(tmp_path, 0, host="192.0.2.1", sign_in=False)


@pytest.mark.parametrize("has_login", [True, False])
def test_up_is_told_of_logins_elsewhere(tmp_path: Path, *, has_login: bool) -> None:
    local(tmp_path, secure=False)
    security = f", security: {LOGIN}" if has_login else ""
    (tmp_path / "penstock.yaml").write_text(f"clusters: {{staging: {{bootstrap_servers: 'b:1'{security}}}}}\n")
    found = settings.load(project_file=tmp_path / "penstock.yaml", home=tmp_path / ".penstock")

    assert has_login is ServiceContext.of(found, []).has_logins_elsewhere


@pytest.mark.parametrize("is_meant", [True, False])
def test_a_console_that_has_got_a_login_since_it_was_started_answers_nobody_unless_it_is_meant_to(
    tmp_path: Path, *, is_meant: bool
) -> None:
    (tmp_path / "penstock.yaml").write_text("{}")
    found = settings.load(project_file=tmp_path / "penstock.yaml", home=tmp_path / ".penstock")
    client = TestClient(make_app(Console(found, [], lets_all_in=is_meant)), base_url=ADDRESS)
    before = client.get("/api/v1/me").status_code
    local(tmp_path, secure=True)
    after = client.get("/api/v1/me")

    assert (200, 200 if is_meant else 403) == (before, after.status_code)
    if not is_meant:
        assert "start it again" in after.json()["error"]["message"]
        with pytest.raises(WebSocketDisconnect), client.websocket_connect("/_nicegui_ws/"):
            pass
