"""Who gets through the front of a service; nothing runs behind it, so whoever does is told that it is being started."""

import os
import socket
import threading
from contextlib import ExitStack
from pathlib import Path

import httpx
import pytest
from starlette.testclient import TestClient

from penstock import listening, port_holder
from penstock.listening import Server, listen
from penstock.services.front import FrontOptions
from penstock.services.front_server import Front, config

from support.waiting import until

_LET_IN, _FORBIDDEN, _NO_LOGIN = 503, 403, 401


def options(folder: Path, *, asks_login: bool) -> FrontOptions:
    (folder / "login.password").write_text("secret\n")
    return FrontOptions(
        host="127.0.0.1",
        port=8081,
        behind="http://127.0.0.1:1",
        adapts="registry",
        username="registry",
        password_file=folder / "login.password",
        asks_login=asks_login,
    )


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, _LET_IN),
        ({"Host": "localhost:8081"}, _LET_IN),
        ({"Host": "[::1]:8081"}, _LET_IN),
        ({"Origin": "http://127.0.0.1:8081"}, _LET_IN),
        ({"Host": "evil.example:8081"}, _FORBIDDEN),
        ({"Host": "127.0.0.1.evil.example"}, _FORBIDDEN),
        ({"Host": "evil.example:8081", "Origin": "http://evil.example:8081"}, _FORBIDDEN),
        ({"Origin": "http://evil.example"}, _FORBIDDEN),
        ({"Origin": "null"}, _FORBIDDEN),
    ],
)
def test_no_page_of_another_site_gets_in_where_nobody_logs_in(
    headers: dict[str, str], status: int, tmp_path: Path
) -> None:
    client = TestClient(Front(options(tmp_path, asks_login=False)).app(), base_url="http://127.0.0.1:8081")

    assert status == client.get("/subjects", headers=headers).status_code


@pytest.mark.parametrize("query", ["offset=x", "limit=1e3", "limit=" + "9" * 5000])
def test_a_number_that_is_none_is_answered_and_is_no_defect(query: str, tmp_path: Path) -> None:
    client = TestClient(Front(options(tmp_path, asks_login=False)).app(), base_url="http://127.0.0.1:8081")

    assert (404, _LET_IN) == tuple(client.get(f"/schemas?{each}").status_code for each in (query, "offset=0&limit=-1"))


def test_with_a_login_any_name_will_do_but_for_pages_of_other_sites(tmp_path: Path) -> None:
    client = TestClient(Front(options(tmp_path, asks_login=True)).app(), base_url="https://registry.example:8081")
    login = ("registry", "secret")

    assert _NO_LOGIN == client.get("/subjects").status_code
    assert _LET_IN == client.get("/subjects", auth=login).status_code
    assert _FORBIDDEN == client.get("/subjects", auth=login, headers={"Origin": "https://evil.example"}).status_code


def test_a_stranger_who_took_the_port_of_the_program_behind_is_shown_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(port_holder, "_ROOT", -1)
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    with socket.create_server(("127.0.0.1", 0)) as stranger:
        stranger.settimeout(0)
        behind = f"http://127.0.0.1:{stranger.getsockname()[1]}"
        front = Front(options(tmp_path, asks_login=False).model_copy(update={"behind": behind}))
        answer = TestClient(front.app(), base_url="http://127.0.0.1:8081").get("/subjects")

        assert (_LET_IN, "the service is being started") == (answer.status_code, answer.json()["message"])
        with pytest.raises(BlockingIOError):
            stranger.accept()


def test_connections_that_say_nothing_do_not_keep_others_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listening, "HEAD_S", 0.3)
    listener = listen("127.0.0.1", 0, "a test")
    served = config(options(tmp_path, asks_login=False))
    ready = threading.Event()
    server = Server(served, ready.set)
    thread = threading.Thread(target=server.run, args=([listener],))
    thread.start()
    ready.wait()
    address = listener.getsockname()[1]
    try:
        with ExitStack() as silent:
            for _ in range(served.limit_concurrency or 0):
                silent.enter_context(socket.create_connection(("127.0.0.1", address)))
            until(lambda: _answer(address) == "the service is being started")
    finally:
        server.should_exit = True
        thread.join()


def _answer(port: int) -> str:
    try:
        return str(httpx.get(f"http://127.0.0.1:{port}/subjects").json()["message"])
    except (httpx.HTTPError, ValueError):  # closed at once, or uvicorn's own word that it is too busy
        return ""
