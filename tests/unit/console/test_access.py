"""Users, rules and quotas of Kafka where there are none, and what is kept of a request that has a password."""

import asyncio
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from fastapi import Request

from penstock.console.actions import SecretActionRoute
from penstock.console.asking import Asker
from penstock.console.audit import Entry
from penstock.console.pages.client import Failed
from penstock.console.pages.frame import Frame

from support.consoles import Asked, open_console, signed_in

UNREACHABLE = "127.0.0.1:1"
WORD = "canary-Secret-7"
RULE = {"user": "ann", "operation": "read", "resource": "topic", "name": "orders"}
CHANGES: list[tuple[str, str, Any]] = [
    ("GET", "/access/acls", None),
    ("POST", "/access/acls", {"user": "ann", "may": "produce", "topics": ["orders"], "confirm": "ann"}),
    ("POST", "/access/acls/remove", {"acls": [RULE], "confirm": "ann"}),
    ("GET", "/access/quotas", None),
    ("PUT", "/access/quotas", {"user": "ann", "producer_bytes_per_s": 1000}),
    ("POST", "/access/quotas/remove", {"user": "ann"}),
]


@pytest.fixture(scope="module")
def ask(tmp_path_factory: pytest.TempPathFactory) -> Asked:
    """Return a console for all who change nothing: making one takes longer than asking it."""
    return open_console(tmp_path_factory.mktemp("home"), UNREACHABLE)


def audited(ask: Asked) -> list[Entry]:
    """Keep what is noted, instead of sending it to Kafka."""
    noted: list[Entry] = []
    app: Any = ask.client.app
    app.state.console.audit.note = noted.append
    return noted


@pytest.mark.parametrize(("method", "path", "body"), CHANGES)
def test_a_cluster_that_is_not_secure_says_why_there_is_nothing_to_change(
    method: str, path: str, body: Any, ask: Asked
) -> None:
    said = ask(method, path, body)

    assert (409, "conflict") == (said.status_code, said.json()["error"]["code"])
    assert "this cluster has no users: it is not secure" in said.json()["error"]["message"]
    assert "penstock up --secure" in said.json()["error"]["fix"]


def test_users_of_an_external_cluster_are_not_made_here(ask: Asked) -> None:
    said = ask("PUT", "/access/users", {"user": "ann", "password": WORD})

    assert (409, "users of an external cluster are made where it is run") == (
        said.status_code,
        said.json()["error"]["message"],
    )
    assert "external cluster" in ask("GET", "/access").json()["users_problem"]


@pytest.mark.parametrize(
    "user",
    ["", "a b", "../ann", "ann\n", "<b>", "'", '"', "\x1b[2J", "ann\u2028", "a" * 64, "-ann", "ann/bob"],
)
def test_a_name_that_is_none_is_refused_and_not_repeated(user: str, ask: Asked) -> None:
    noted = audited(ask)
    said = ask("PUT", "/access/users", {"user": user, "password": WORD})

    assert 422 == said.status_code
    assert "user: string should" in said.json()["error"]["message"]
    assert ["refused: not understood"] == [each.outcome for each in noted]


@pytest.mark.parametrize("user", ["\x1b[2J", "a\nb", "a\u2028b", "", "x" * 256])
@pytest.mark.parametrize("place", ["acls", "quotas"])
def test_rules_and_quotas_have_no_control_characters_in_names(user: str, place: str, ask: Asked) -> None:
    body: dict[str, Any] = {"user": user, "may": "produce", "topics": ["orders"]}
    said = (
        ask("POST", "/access/acls", body)
        if place == "acls"
        else ask("PUT", "/access/quotas", {"user": user, "request_percent": 50})
    )

    assert 422 == said.status_code


@pytest.mark.parametrize("word", ["short", "long enough\n", "long enough \u00fc", "x" * 1025])
def test_a_password_that_clients_would_not_agree_on_is_refused_and_not_repeated(word: str, ask: Asked) -> None:
    said = ask("PUT", "/access/users", {"user": "ann", "password": word})

    assert 422 == said.status_code
    assert word.strip() not in said.text


@pytest.mark.parametrize(
    ("body", "told"),
    [
        ({"user": "ann"}, "one of may and operations"),
        ({"user": "ann", "may": "produce", "operations": ["read"], "topics": ["a"]}, "one of may and operations"),
        ({"user": "ann", "may": "produce"}, "topics"),
        ({"user": "ann", "may": "consume", "topics": ["a"]}, "topics and groups"),
        ({"user": "ann", "operations": ["read"]}, "topics, groups, transactional_ids or cluster"),
        ({"user": "ann", "operations": ["any"], "topics": ["a"]}, "operations.0"),
        ({"user": "ann", "may": "produce", "topics": ["a"] * 201}, "topics"),
    ],
)
def test_a_grant_says_what_it_lacks(body: dict[str, Any], told: str, ask: Asked) -> None:
    said = ask("POST", "/access/acls", body)

    assert 422 == said.status_code
    assert told in said.json()["error"]["message"]


@pytest.mark.parametrize(
    "limits",
    [
        {},
        {"producer_bytes_per_s": 999},
        {"consumer_bytes_per_s": 1_000.5},
        {"request_percent": 0},
        {"request_percent": float("1e300")},
    ],
)
def test_a_quota_limits_something_and_stops_nobody(limits: dict[str, Any], ask: Asked) -> None:
    assert 422 == ask("PUT", "/access/quotas", {"user": "ann", **limits}).status_code


def test_of_a_password_nothing_is_kept_that_could_be_guessed_fast(tmp_path: Path) -> None:
    ask = open_console(tmp_path, UNREACHABLE)
    app: Any = ask.client.app
    log = app.state.actions._log
    app.state.actions._log.forget = lambda *_: None  # as if it had been done: what failed is not kept
    noted = audited(ask)
    ask("PUT", "/access/users", {"user": "ann", "password": WORD}, action_id="a-password")
    ask("PUT", "/access/quotas", {"user": "ann", "request_percent": 50}, action_id="something")
    with closing(sqlite3.connect(log._path)) as kept:
        asked = dict(kept.execute("SELECT action_id, asked FROM actions"))

    assert 128 == len(asked["a-password"].rpartition(" ")[2])
    assert 64 == len(asked["something"].rpartition(" ")[2])
    assert ["ann", "ann: request_percentage=50.0"] == [each.about for each in noted]
    assert WORD not in "".join(each.model_dump_json() for each in noted)
    assert WORD.encode() not in (tmp_path / "console" / "actions.db").read_bytes()


def test_the_audit_tells_names_with_line_breaks_from_those_without(tmp_path: Path) -> None:
    ask = open_console(tmp_path, UNREACHABLE)
    noted = audited(ask)
    ask("DELETE", "/topics/or%0Aders")

    assert ["DELETE /topics/or\nders"] == [each.action for each in noted]


def test_the_audit_has_the_address_of_whoever_does_something_on_a_page(tmp_path: Path) -> None:
    ask = open_console(tmp_path, UNREACHABLE)
    noted = audited(ask)
    seen: dict[str, Any] = {"type": "http", "client": ("192.0.2.7", 40_000), "headers": [], "query_string": b""}
    page = Frame(ask.client.app, Request(seen), Asker("anonymous", "admin"))  # type: ignore[arg-type]
    method, path, body = CHANGES[1]

    with pytest.raises(Failed, match="not secure"):
        asyncio.run(page.client.act(method, path, body))

    assert ["192.0.2.7"] == [each.address for each in noted]


def test_a_password_of_somebody_who_may_not_set_it_costs_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, people = signed_in(tmp_path, UNREACHABLE)
    hashed: list[bytes] = []

    def digest(_route: SecretActionRoute, body: bytes, _action_id: str) -> str:
        hashed.append(body)
        return "hashed"

    monkeypatch.setattr(SecretActionRoute, "digest", digest)
    said = [people[each]("PUT", "/access/users", {"user": "ann", "password": WORD}) for each in ("viewer", "admin")]

    assert [403, 409] == [each.status_code for each in said]
    assert 1 == len(hashed)
