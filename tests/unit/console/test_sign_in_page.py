"""Pages for those who have not signed in: the sign-in, and nothing else."""

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fastapi import FastAPI
from fastapi.routing import APIRoute
from fastapi.testclient import TestClient
from nicegui import Client
from nicegui import app as nicegui_app
from starlette.websockets import WebSocketDisconnect

from penstock.console.pages.site import add_pages

from support.consoles import ADDRESS, PASSWORD, signed_in

UNREACHABLE = "127.0.0.1:1"
PAGES = ["/", "/topics", "/topics/orders", "/topics/orders/messages", "/groups", "/groups/a/b"]
PAGES += ["/pipelines", "/pipelines/orders", "/dead-letters", "/tables", "/tables/a/b", "/nodes", "/nodes/1"]
PAGES += ["/lineage", "/schemas", "/schemas/orders-value", "/connectors", "/connectors/orders", "/access"]
PAGES += ["/lab", "/lab/runs/20260131-120000-abc"]
NOT_PAGES = ["/nothing", "/_nicegui/", "/_nicegui_ws/socket.io/?EIO=4&transport=polling", "/sign-in/more", "//sign-in"]


@pytest.fixture(scope="module")
def app(tmp_path_factory: pytest.TempPathFactory) -> FastAPI:
    """A console with pages, of which there is one in a process."""
    client, _ = signed_in(Path(tmp_path_factory.mktemp("home")), UNREACHABLE)
    app: FastAPI = client.app  # type: ignore[assignment]
    add_pages(app)
    return app


@pytest.fixture
def stranger(app: FastAPI) -> Iterator[TestClient]:
    """Somebody who has not signed in; nothing that they do is kept in memory."""
    before = len(Client.instances)
    yield TestClient(app, base_url=ADDRESS, follow_redirects=False)
    assert before == len(Client.instances)


@pytest.mark.usefixtures("app")
def test_every_page_is_tried() -> None:
    routes = [each for each in nicegui_app.routes if isinstance(each, APIRoute)]
    own = [each for each in routes if not each.path.startswith("/_nicegui")]

    assert [] != own
    assert [] == [each.path for each in own if not any(each.path_regex.fullmatch(page) for page in PAGES)]


@pytest.mark.parametrize("path", [*PAGES, *NOT_PAGES])
def test_whoever_has_not_signed_in_is_sent_to_the_sign_in(stranger: TestClient, path: str) -> None:
    for cookies in ({}, {"penstock_console": "access_token_forged"}):
        answer = stranger.get(path, headers={"Cookie": "; ".join(f"{k}={v}" for k, v in cookies.items())})

        assert (303, "/sign-in") == (answer.status_code, answer.headers["location"])
        assert "DENY" == answer.headers["x-frame-options"]


def test_whoever_has_not_signed_in_gets_no_socket(stranger: TestClient) -> None:
    with pytest.raises(WebSocketDisconnect) as refused, stranger.websocket_connect("/_nicegui_ws/socket.io/"):
        pass
    assert 1008 == refused.value.code


def test_the_sign_in_has_what_it_needs_and_gives_a_session(stranger: TestClient) -> None:
    shown = [stranger.get(path).status_code for path in ("/sign-in", "/static/console.css")]
    wrong = stranger.post("/sign-in", data={"user": "viewer", "password": "guessed it"})
    right = stranger.post("/sign-in", data={"user": "viewer", "password": PASSWORD})

    assert [200, 200] == shown
    assert (401, 303) == (wrong.status_code, right.status_code)
    assert {"HttpOnly", "SameSite=strict"} <= set(right.headers["set-cookie"].split("; "))


def test_a_request_that_is_not_there_is_answered_as_every_other_error_of_the_rest_interface(
    stranger: TestClient,
) -> None:
    stranger.post("/sign-in", data={"user": "viewer", "password": PASSWORD})
    answer = stranger.get("/api/v1/nosuch")

    assert (404, "not_found") == (answer.status_code, answer.json()["error"]["code"])


def test_a_page_that_is_not_there_is_neither_logged_nor_kept(
    stranger: TestClient, caplog: pytest.LogCaptureFixture
) -> None:
    stranger.post("/sign-in", data={"user": "viewer", "password": PASSWORD})
    with caplog.at_level(logging.WARNING):
        answer = stranger.get("/%1b]0;pwned%07")

    assert (404, "There is no such page" in answer.text) == (answer.status_code, True)
    assert "pwned" not in caplog.text
    assert "pwned" not in answer.text


@pytest.mark.usefixtures("app")
def test_a_page_with_a_defect_says_so_without_what_was_raised() -> None:
    handler: Any = nicegui_app.exception_handlers[Exception]
    answer = handler(None, RuntimeError("no /home/ann/secret"))

    assert (500, True) == (answer.status_code, b"a defect in Penstock" in answer.body)
    assert b"secret" not in answer.body
