import datetime
import logging
import stat
import uuid
from pathlib import Path
from typing import Any

import jwt
import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient
from sqlalchemy import select

from penstock import clock
from penstock.errors import BadInput, NotFound
from penstock.lineage.api.service import Service, SignIn
from penstock.lineage.sign_in import passwords
from penstock.lineage.sign_in.passwords import UsersFile
from penstock.lineage.sign_in.tokens import TokenKey
from penstock.lineage.store import tables
from penstock.testing import FakeClock

from support.lineage_rows import Rows

_PASSWORD = "canary-Pa55word"


@pytest.fixture
def sign_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SignIn:
    monkeypatch.setattr(passwords, "_N", 16)  # a hash takes no time here
    users = UsersFile.of(tmp_path / "lineage")
    users.put("ann", _PASSWORD)
    return SignIn(TokenKey.of(tmp_path / "lineage"), users)


@pytest.fixture
def client(app_with_sign_in: FastAPI, rows: Rows, sign_in: SignIn) -> TestClient:
    app_with_sign_in.state.service = Service(rows.engine, sign_in)
    return TestClient(app_with_sign_in, base_url="http://lineage.example")


def _access(client: TestClient, user: str = "ann") -> dict[str, str]:
    answer = client.post("/v1/auth/token", data={"username": user, "password": _PASSWORD, "grant_type": "password"})
    assert 200 == answer.status_code
    return {"Authorization": f"Bearer {answer.json()['access_token']}"}


def _bearer(content: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {content}"}


def _made(client: TestClient, **wanted: Any) -> Any:
    answer = client.post("/v1/personal-tokens", json={"name": "ci", **wanted}, headers=_access(client))
    assert 200 == answer.status_code, answer.text
    return answer.json()


def _refused(answer: Any, status: int = 401) -> tuple[str, str]:
    assert status == answer.status_code
    error = answer.json()["error"]
    return error["code"], error["message"]


def test_a_password_gives_a_token_and_the_token_a_name(client: TestClient) -> None:
    assert {"name": "ann"} == client.get("/v1/users/me", headers=_access(client)).json()


@pytest.mark.parametrize("path", ["datasets", "jobs", "runs", "operations", "locations", "tags", "search", "facets"])
def test_without_a_token_nothing_is_told(client: TestClient, path: str) -> None:
    expected = ("unauthorized", "Missing Authorization header")
    assert expected == _refused(client.get(f"/v1/{path}", params={"search_query": "abc", "since": "2026-01-01"}))


def test_failed_tries_make_the_next_one_wait_longer_each_time(client: TestClient) -> None:
    standing = FakeClock()
    clock.put(standing)
    try:
        wrong = {"username": "ann", "password": "wrong"}
        tries = [client.post("/v1/auth/token", data=wrong).status_code for _ in range(3)]
        waiting = client.post("/v1/auth/token", data={"username": "ann", "password": _PASSWORD})
        other = client.post("/v1/auth/token", data={"username": "bob", "password": "wrong"})
        standing.sleep(1)
        again = client.post("/v1/auth/token", data=wrong)
        longer = client.post("/v1/auth/token", data=wrong)
        standing.sleep(2)
        right = client.post("/v1/auth/token", data={"username": "ann", "password": _PASSWORD})
    finally:
        clock.take_back()

    assert [401, 401, 401] == tries
    assert ("too_many_requests", "1") == (_refused(waiting, 429)[0], waiting.headers["retry-after"])
    assert ("unauthorized", "Wrong user name or password") == _refused(other)
    assert (401, 429, "2") == (again.status_code, longer.status_code, longer.headers["retry-after"])
    assert 200 == right.status_code


def test_a_personal_token_lets_a_program_in_until_it_is_revoked(client: TestClient) -> None:
    made = _made(client)
    program = _bearer(made["content"])

    before = client.get("/v1/users/me", headers=program).json()
    listed = client.get("/v1/personal-tokens", headers=_access(client)).json()["items"]
    gone = client.delete(f"/v1/personal-tokens/{made['id']}", headers=_access(client)).status_code

    assert ({"name": "ann"}, [{"id": made["id"], "data": made["data"]}], 204) == (before, listed, gone)
    assert ("unauthorized", "Token was revoked") == _refused(client.get("/v1/users/me", headers=program))
    again = client.delete(f"/v1/personal-tokens/{made['id']}", headers=_access(client))
    assert "not_found" == _refused(again, 404)[0]


def test_a_token_is_replaced_by_one_of_the_same_name_and_the_old_one_ends(client: TestClient) -> None:
    old = _made(client, scopes=["all:read"])

    new = client.patch(f"/v1/personal-tokens/{old['id']}", json={}, headers=_access(client)).json()

    assert (old["data"]["name"], ["all:read"]) == (new["data"]["name"], new["data"]["scopes"])
    assert 200 == client.get("/v1/users/me", headers=_bearer(new["content"])).status_code
    assert 401 == client.get("/v1/users/me", headers=_bearer(old["content"])).status_code


def test_two_tokens_that_are_good_never_have_the_same_name(client: TestClient) -> None:
    made = _made(client)

    again = client.post("/v1/personal-tokens", json={"name": "ci"}, headers=_access(client))
    assert "conflict" == _refused(again, 409)[0]
    assert {"entity_type": "PersonalToken", "field": "name", "value": "ci"} == again.json()["error"]["details"]
    client.delete(f"/v1/personal-tokens/{made['id']}", headers=_access(client))
    assert made["id"] != _made(client)["id"]


def test_a_token_lasts_a_year_at_most(client: TestClient) -> None:
    today = datetime.datetime.now(datetime.UTC).date()

    assert str(today + datetime.timedelta(days=366)) == _made(client, until="2999-01-01")["data"]["until"]
    past = client.post("/v1/personal-tokens", json={"name": "x", "until": "2020-01-01"}, headers=_access(client))
    assert "invalid_request" == _refused(past, 422)[0]


def test_scopes_are_kept_to(client: TestClient, rows: Rows) -> None:
    rows.dataset("table")
    reads = _bearer(_made(client, name="reads", scopes=["all:read"])["content"])
    writes = _bearer(_made(client, name="writes", scopes=["all:write"])["content"])

    change = {"external_id": "42"}
    assert 200 == client.get("/v1/datasets", headers=reads).status_code
    assert "forbidden" == _refused(client.patch("/v1/locations/1", json=change, headers=reads), 403)[0]
    assert "forbidden" == _refused(client.get("/v1/datasets", headers=writes), 403)[0]


def test_a_program_makes_no_tokens_and_takes_none_away(client: TestClient) -> None:
    made = _made(client)
    program = _bearer(made["content"])
    place = f"/v1/personal-tokens/{made['id']}"

    expected = ("unauthorized", "Personal token was passed but access token was expected")
    assert expected == _refused(client.post("/v1/personal-tokens", json={"name": "more"}, headers=program))
    assert expected == _refused(client.patch(place, json={}, headers=program))
    assert expected == _refused(client.delete(place, headers=program))


def test_a_removed_users_tokens_end_also_if_the_name_is_given_to_another(client: TestClient, sign_in: SignIn) -> None:
    person, program = _access(client), _bearer(_made(client)["content"])

    sign_in.users.put("ann", _PASSWORD + "2")
    changed = [client.get("/v1/users/me", headers=each).status_code for each in (person, program)]
    sign_in.users.remove("ann")
    gone = [_refused(client.get("/v1/users/me", headers=each)) for each in (person, program)]
    sign_in.users.put("ann", _PASSWORD)
    another = [_refused(client.get("/v1/users/me", headers=each)) for each in (person, program)]

    expected = ("unauthorized", "The user has no account any more")
    assert ([200, 200], [expected] * 2, [expected] * 2) == (changed, gone, another)


def test_nobody_sees_or_revokes_the_tokens_of_others(client: TestClient, sign_in: SignIn) -> None:
    sign_in.users.put("bob", _PASSWORD)
    made = _made(client)

    bob = _access(client, "bob")
    assert [] == client.get("/v1/personal-tokens", headers=bob).json()["items"]
    assert "not_found" == _refused(client.delete(f"/v1/personal-tokens/{made['id']}", headers=bob), 404)[0]


def test_forged_and_ended_tokens_are_refused(client: TestClient, sign_in: SignIn) -> None:
    past = datetime.datetime.now(datetime.UTC) - datetime.timedelta(seconds=1)
    future = past + datetime.timedelta(days=1)
    ended = sign_in.key.sign("access", {"sub": "ann"}, past)
    unsigned = jwt.encode({"sub": "ann", "aud": "access", "exp": future}, "", "none")
    foreign = TokenKey(b"x" * 32).sign("access", {"sub": "ann"}, future)
    other_purpose = sign_in.key.sign("sign-in", {"sub": "ann"}, future)
    unknown = sign_in.key.personal("ann", "", uuid.uuid4(), future.date())

    def said(content: str) -> str:
        return _refused(client.get("/v1/users/me", headers=_bearer(content)))[1]

    assert "Token has expired" == said(ended)
    assert {"Invalid token"} == {said(each) for each in (unsigned, foreign, other_purpose, "rubbish", "access_token_x")}
    assert "Token was revoked" == said(unknown)


def test_what_is_kept_is_of_no_use_to_whoever_reads_it(
    client: TestClient, rows: Rows, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.DEBUG):
        made = _made(client)
        client.post("/v1/auth/token", data={"username": "ann", "password": _PASSWORD, "more": "x"})
        client.get("/v1/users/me", headers=_bearer(made["content"]))
    with rows.engine.connect() as connection:
        kept = str(connection.execute(select(tables.personal_token)).all())
    files = [each for each in (tmp_path / "lineage").iterdir() if each.name != "users.lock"]

    for text in (kept, caplog.text, *(each.read_bytes().decode("latin-1") for each in files)):
        assert made["content"].removeprefix("personal_token_") not in text
        assert _PASSWORD not in text
    assert {0o600} == {stat.S_IMODE(each.stat().st_mode) for each in files}


def test_a_refused_form_does_not_repeat_the_password(client: TestClient) -> None:
    forms = [
        {"password": _PASSWORD},
        {"username": "ann", "password": _PASSWORD, "more": "x"},
        {"username": "ann", "password": _PASSWORD * 1000},
        {"username": "ann", "passwd": _PASSWORD},
        {"username": _PASSWORD * 100, "password": _PASSWORD},
    ]
    for form in forms:
        answer = client.post("/v1/auth/token", data=form)

        assert 422 == answer.status_code
        assert _PASSWORD not in answer.text

    assert _PASSWORD not in client.post("/v1/auth/token", params={"password": _PASSWORD}, data=forms[0]).text


def test_users_are_added_changed_and_removed(tmp_path: Path) -> None:
    users = UsersFile.of(tmp_path)
    users.put("ann", _PASSWORD)
    users.put("bob", _PASSWORD)
    users.put("ann", "another one")
    users.remove("bob")

    assert ["ann"] == users.names()
    assert (True, False, False) == (
        users.accepts("ann", "another one", "here"),
        users.accepts("ann", _PASSWORD, "here"),
        users.accepts("bob", _PASSWORD, "here"),
    )
    with pytest.raises(NotFound, match="there is no user 'bob'"):
        users.remove("bob")
    with pytest.raises(BadInput, match="8 to 1024 characters"):
        users.put("ann", "short")
    with pytest.raises(BadInput, match="not a user name"):
        users.put("a b\nc", _PASSWORD)


def test_the_key_is_made_once_and_one_of_another_size_is_refused(tmp_path: Path) -> None:
    token = TokenKey.of(tmp_path).access("ann", "").content

    assert "ann" == TokenKey.of(tmp_path).read("access", token)["sub"]
    (tmp_path / "token.key").write_bytes(b"short")
    with pytest.raises(BadInput, match="is not a key of 32 bytes"):
        TokenKey.of(tmp_path)
