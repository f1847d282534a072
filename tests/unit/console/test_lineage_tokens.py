"""Personal tokens of the lineage service in a console: what they open there, and where their texts are not."""

import datetime
import sqlite3
import uuid
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

from penstock.lineage.api.app import make_app
from penstock.lineage.api.service import Service, SignIn
from penstock.lineage.sign_in import passwords
from penstock.lineage.sign_in.passwords import UsersFile
from penstock.lineage.sign_in.tokens import TokenKey
from penstock.lineage.store.address import StoreAddress, default_path
from penstock.lineage.store.database import migrate, open_engine, writing

from support.consoles import Asked, open_console

UNREACHABLE = "127.0.0.1:1"
TOKENS = "/lineage/tokens"


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(passwords, "_N", 16)  # a hash takes no time here
    path = default_path(tmp_path)
    path.parent.mkdir(parents=True)
    migrate(StoreAddress(store=str(path)))
    UsersFile.of(tmp_path / "lineage").put("etl", "a long password")
    return tmp_path


@pytest.fixture
def ask(home: Path) -> Asked:
    return open_console(home, UNREACHABLE)


@pytest.fixture
def service(home: Path) -> Iterator[TestClient]:
    """Return the lineage service of the same home folder."""
    engine = open_engine(StoreAddress(store=str(default_path(home))))
    folder = home / "lineage"
    app = make_app(Service(engine, SignIn(TokenKey.of(folder), UsersFile.of(folder))))
    yield TestClient(app, base_url="http://lineage.example")
    engine.dispose()


def made(ask: Asked, **wanted: Any) -> Any:
    answer = ask("POST", TOKENS, {"user": "etl", "name": "nightly", **wanted})
    assert 200 == answer.status_code, answer.text
    return answer.json()


def let_in(service: TestClient, content: str) -> int:
    return service.get("/v1/datasets", headers={"Authorization": f"Bearer {content}"}).status_code


def test_a_token_opens_the_service_until_it_is_revoked(ask: Asked, service: TestClient) -> None:
    token = made(ask)
    before = let_in(service, token["content"])
    only_shown = ask("DELETE", f"{TOKENS}/{token['id']}").json()["is_done"]
    misspelt = ask("DELETE", f"{TOKENS}/{token['id']}", confirm="nightl").status_code
    still = let_in(service, token["content"])
    revoked = ask("DELETE", f"{TOKENS}/{token['id']}", confirm="nightly").json()["is_done"]

    assert (200, False, 422, 200, True) == (before, only_shown, misspelt, still, revoked)
    assert 401 == let_in(service, token["content"])
    assert [] == ask("GET", TOKENS).json()["items"]
    assert 404 == ask("DELETE", f"{TOKENS}/{token['id']}", confirm="nightly").status_code


def test_tokens_are_listed_with_their_scopes_and_last_day_and_without_their_texts(ask: Asked) -> None:
    until = (datetime.datetime.now(datetime.UTC) + datetime.timedelta(days=7)).date().isoformat()
    content = made(ask, until=until)["content"]
    made(ask, name="writer", scopes=["all:read", "all:write"])
    answer = ask("GET", TOKENS)
    listed = answer.json()

    assert (["etl"], "", 2) == (listed["users"], listed["problem"], listed["total"])
    assert [("nightly", ["all:read"], until), ("writer", ["all:read", "all:write"])] == [
        (listed["items"][0]["name"], listed["items"][0]["scopes"], listed["items"][0]["until"]),
        (listed["items"][1]["name"], listed["items"][1]["scopes"]),
    ]
    assert content not in answer.text
    assert ["writer"] == [each["name"] for each in ask("GET", TOKENS, search="RIT").json()["items"]]


def test_the_text_of_a_token_is_on_no_disk_and_a_double_click_makes_one(ask: Asked, home: Path) -> None:
    wanted = {"user": "etl", "name": "nightly"}
    content = ask("POST", TOKENS, wanted, action_id="made-once").json()["content"]
    again = ask("POST", TOKENS, wanted, action_id="made-once")

    assert (409, True) == (again.status_code, "begun before" in again.json()["error"]["message"])
    assert 1 == ask("GET", TOKENS).json()["total"]
    signature = content.rpartition(".")[2].encode()
    assert [] == [path for path in home.rglob("*") if path.is_file() and signature in path.read_bytes()]


@pytest.mark.parametrize(
    ("wanted", "status"),
    [
        ({"user": "nobody"}, 404),
        ({"name": "taken"}, 409),
        ({"until": "2020-01-01"}, 422),
        ({"scopes": []}, 422),
        ({"scopes": ["all:everything"]}, 422),
        ({"name": ""}, 422),
    ],
)
def test_what_is_no_token_is_refused(wanted: dict[str, Any], status: int, ask: Asked) -> None:
    made(ask, name="taken")

    assert status == ask("POST", TOKENS, {"user": "etl", "name": "nightly", **wanted}).status_code
    assert 1 == ask("GET", TOKENS).json()["total"]


def test_without_accounts_it_says_what_makes_one(home: Path, ask: Asked) -> None:
    UsersFile.of(home / "lineage").remove("etl")

    assert "penstock lineage user add" in ask("GET", TOKENS).json()["problem"]


def test_who_reads_and_then_writes_is_not_overtaken_by_the_pipeline_that_fills_the_store(home: Path) -> None:
    path = default_path(home)
    engine = open_engine(StoreAddress(store=str(path)))
    try:
        with writing(engine) as connection, closing(sqlite3.connect(path, timeout=0)) as other:
            connection.exec_driver_sql('SELECT count(*) FROM "user"').scalar_one()
            with pytest.raises(sqlite3.OperationalError, match="locked"), other:
                other.execute('INSERT INTO "user" (name) VALUES (?)', (uuid.uuid4().hex,))
            connection.exec_driver_sql("INSERT INTO \"user\" (name) VALUES ('ann')")
        with engine.connect() as connection:
            names = connection.exec_driver_sql('SELECT name FROM "user"').scalars().all()
    finally:
        engine.dispose()

    assert ["ann"] == names
