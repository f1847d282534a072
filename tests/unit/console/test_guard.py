"""Requests from pages of other sites, sign-ins, and actions that are sent twice."""

import sqlite3
import threading
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from fastapi import APIRouter
from fastapi.testclient import TestClient
from starlette.websockets import WebSocketDisconnect

from penstock.console.actions import ActionRoute
from penstock.console.guard import MOST_BODY_BYTES, MOST_OF_STRANGERS_BYTES

from support.consoles import ADDRESS, PASSWORD, Asked, open_console, signed_in

UNREACHABLE = "127.0.0.1:1"


@pytest.mark.parametrize(
    "headers",
    [
        {"Host": "console.example.com"},
        {"Host": "127.0.0.1.example.com"},
        {"Origin": "http://example.com"},
        {"Origin": "null"},
        {"Origin": "http://127.0.0.1:9999"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
    ],
)
def test_pages_of_other_sites_reach_neither_actions_nor_the_socket(headers: dict[str, str], tmp_path: Path) -> None:
    ask = open_console(tmp_path, UNREACHABLE)
    ask.headers = headers

    assert ask("POST", "/topics", {"topic": "orders"}).json()["error"]["code"] == "forbidden"
    with pytest.raises(WebSocketDisconnect) as refused, ask.client.websocket_connect("/_nicegui_ws/", headers=headers):
        pass
    assert refused.value.code == 1008


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
@pytest.mark.parametrize(("what", "is_answered"), [("document", True), ("image", False), ("iframe", False)])
def test_a_page_of_another_site_can_lead_here_and_show_nothing_of_it(
    tmp_path: Path, site: str, what: str, *, is_answered: bool
) -> None:
    client = open_console(tmp_path, UNREACHABLE).client
    headers = {"Sec-Fetch-Site": site, "Sec-Fetch-Dest": what}
    answers = [client.get(path, headers=headers).status_code for path in ("/api/v1/me", "/nothing")]

    assert ([200, 404] if is_answered else [403, 403]) == answers


def test_an_action_without_an_id_is_refused(tmp_path: Path) -> None:
    client = open_console(tmp_path, UNREACHABLE).client
    said = client.post("/api/v1/topics", json={"topic": "orders"})

    assert (422, "bad_input") == (said.status_code, said.json()["error"]["code"])
    assert "X-Action-Id" in said.json()["error"]["message"]


def test_answers_are_never_kept_by_browsers_nor_drawn_as_pages(tmp_path: Path) -> None:
    headers = open_console(tmp_path, UNREACHABLE)("GET", "/me").headers

    assert "no-store" == headers["cache-control"]
    assert "nosniff" == headers["x-content-type-options"]
    assert "default-src 'none'; frame-ancestors 'none'" == headers["content-security-policy"]


def test_a_body_beyond_the_limit_is_not_read_to_its_end(tmp_path: Path) -> None:
    said = open_console(tmp_path, UNREACHABLE)("POST", "/topics", {"topic": "x" * MOST_BODY_BYTES})

    assert (413, "too_large") == (said.status_code, said.json()["error"]["code"])


@pytest.mark.parametrize("path", ["/api/v1/sign-in", "/api/v1/topics", "/sign-in"])
def test_whoever_has_not_signed_in_sends_no_more_than_a_name_and_a_password(tmp_path: Path, path: str) -> None:
    client, people = signed_in(tmp_path, UNREACHABLE)
    large = "x" * MOST_OF_STRANGERS_BYTES
    stranger = client.post(path, json={"user": large}, headers={"X-Action-Id": "too-large"})
    known = people["admin"]("POST", "/topics", {"topic": large})

    assert (413, "too_large") == (stranger.status_code, stranger.json()["error"]["code"])
    assert (422, "bad_input") == (known.status_code, known.json()["error"]["code"])


def test_a_password_gives_a_session_and_wrong_ones_have_to_wait(tmp_path: Path) -> None:
    client, _ = signed_in(tmp_path, UNREACHABLE)
    given = client.post("/api/v1/sign-in", json={"user": "operator", "password": PASSWORD})
    cookie = given.headers["set-cookie"]

    assert {"HttpOnly", "SameSite=strict"} <= set(cookie.split("; "))
    assert client.get("/api/v1/me").json() == {"user": "operator", "role": "operator", "signs_in": True}
    client.cookies.clear()
    wrong = [client.post("/api/v1/sign-in", json={"user": "admin", "password": "wrong"}) for _ in range(4)]
    assert [401, 401, 401, 429] == [each.status_code for each in wrong]
    assert "wrong user name or password" == wrong[0].json()["error"]["message"]


def test_what_was_sent_is_not_repeated_in_an_error(tmp_path: Path) -> None:
    client, _ = signed_in(tmp_path, UNREACHABLE)
    said = client.post("/api/v1/sign-in", json={"user": "admin", "password": "canary-secret", "other": "canary-secret"})

    assert said.status_code == 422
    assert "canary-secret" not in said.text


class Counted:
    """A route that counts how often it was done; it can fail, and it can take its time."""

    def __init__(self, ask: Asked) -> None:
        self.done = 0
        self.goes_on = threading.Event()
        self.goes_on.set()
        router = APIRouter(route_class=ActionRoute)

        @router.post("/api/v1/count")
        def count(*, fails: bool = False) -> dict[str, int]:
            self.goes_on.wait(10)
            self.done += 1
            if fails:
                raise RuntimeError
            return {"done": self.done}

        app: Any = ask.client.app
        app.include_router(router)


def test_an_action_that_is_sent_twice_is_done_once(tmp_path: Path) -> None:
    ask = open_console(tmp_path, UNREACHABLE)
    counted = Counted(ask)
    answers = [ask("POST", "/count", action_id="the-same-one").json() for _ in range(2)]

    assert ([{"done": 1}] * 2, 1) == (answers, counted.done)
    assert {"done": 2} == ask("POST", "/count", action_id="another-one").json()
    assert ask("POST", "/count", {"other": "body"}, action_id="the-same-one").status_code == 409


def test_a_double_click_while_the_first_is_under_way_is_done_once(tmp_path: Path) -> None:
    ask = open_console(tmp_path, UNREACHABLE)
    counted = Counted(ask)
    counted.goes_on.clear()
    answers: list[Any] = []
    with TestClient(ask.client.app, base_url=ADDRESS) as client:  # one loop for both, as a server has
        both = [
            threading.Thread(
                target=lambda: answers.append(Asked(client)("POST", "/count", action_id="double-click").json())
            )
            for _ in range(2)
        ]
        for each in both:
            each.start()
        counted.goes_on.set()
        for each in both:
            each.join(10)

    assert [{"done": 1}] * 2 == answers


def test_an_action_that_failed_can_be_tried_again_under_its_id(tmp_path: Path) -> None:
    ask = open_console(tmp_path, UNREACHABLE)
    counted = Counted(ask)
    said = [ask("POST", "/count", action_id="fails-each", fails=True).status_code for _ in range(2)]

    assert ([500, 500], 2) == (said, counted.done)


def test_an_action_that_is_sent_again_to_a_console_that_was_restarted_is_done_once(tmp_path: Path) -> None:
    before, after = open_console(tmp_path, UNREACHABLE), open_console(tmp_path, UNREACHABLE)
    counted = [Counted(before), Counted(after)]
    first = before("POST", "/count", action_id="the-same-one")
    again = after("POST", "/count", action_id="the-same-one")

    assert ({"done": 1}, {"done": 1}) == (first.json(), again.json())
    assert [1, 0] == [each.done for each in counted]
    assert (first.status_code, first.headers["content-type"]) == (again.status_code, again.headers["content-type"])


def test_an_action_that_the_end_of_the_console_cut_off_is_not_done_again_by_itself(tmp_path: Path) -> None:
    ask = open_console(tmp_path, UNREACHABLE)
    counted = Counted(ask)
    done = ask("POST", "/count", action_id="is-finished").status_code
    with closing(sqlite3.connect(tmp_path / "console" / "actions.db", isolation_level=None)) as log:
        log.execute("UPDATE actions SET status = NULL")  # as it stands while it is being done
    said = ask("POST", "/count", action_id="is-finished")

    assert (200, 409, 1) == (done, said.status_code, counted.done)
    assert "check what it did" in said.json()["error"]["message"]


def test_what_was_done_is_for_its_owner_alone(tmp_path: Path) -> None:
    ask = open_console(tmp_path, UNREACHABLE)
    Counted(ask)
    ask("POST", "/count")

    assert 0o600 == (tmp_path / "console" / "actions.db").stat().st_mode & 0o777
