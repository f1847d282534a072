"""Users, access rules and quotas of a secure Kafka, changed by the console's REST interface."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

from penstock.broker import local_users
from penstock.config.settings import Settings
from penstock.console.api.app import make_app
from penstock.console.service import Console
from penstock.errors import PenstockError
from penstock.kafka import acls, topics, users
from penstock.kafka.acls import Acl
from penstock.kafka.admin import Admin

from conftest import RunningKafka
from support.consoles import ADDRESS, Asked, settings_of
from support.waiting import until

WORDS = ("the first Password", "the second Password")


def settings_in(kafka: RunningKafka, jar_folder: Path, user: str | None = None) -> Settings:
    return replace(settings_of(kafka.home, "unused:1"), external=None, cache=jar_folder.parent, user=user)


def console_in(settings: Settings) -> Asked:
    return Asked(
        TestClient(make_app(Console(settings, [], lets_all_in=True)), base_url=ADDRESS, raise_server_exceptions=False)
    )


@pytest.fixture
def settings(secure_kafka: RunningKafka, jar_folder: Path) -> Settings:
    return settings_in(secure_kafka, jar_folder)


@pytest.fixture
def ask(settings: Settings) -> Asked:
    return console_in(settings)


def can_log_in(settings: Settings, user: str) -> bool:
    """Say whether the password that is kept for a user lets it in: Kafka hears of a change a moment later."""
    try:
        topics.list_topics(Admin(replace(settings, user=user).connection(), timeout_s=5))
    except PenstockError:
        return False
    return True


def test_a_user_is_added_given_another_password_and_removed_with_its_rules(
    ask: Asked, settings: Settings, secure_kafka: RunningKafka
) -> None:
    added = ask("PUT", "/access/users", {"user": "ann-1", "password": WORDS[0]}, action_id="added-once")
    repeated = ask("PUT", "/access/users", {"user": "ann-1", "password": WORDS[0]}, action_id="added-once")
    other = ask("PUT", "/access/users", {"user": "ann-1", "password": WORDS[1]}, action_id="added-once")
    until(lambda: can_log_in(settings, "ann-1"))
    changed = ask("PUT", "/access/users", {"user": "ann-1", "password": WORDS[1]})
    until(lambda: can_log_in(settings, "ann-1"))
    granted = {"user": "ann-1", "may": "produce", "topics": ["orders*"], "confirm": "ann-1"}
    ask("POST", "/access/acls", granted)
    listed = ask("GET", "/access/users", search="ANN-1").json()
    counted = ask("DELETE", "/access/users/ann-1")
    misspelt = ask("DELETE", "/access/users/ann-1", confirm="ann")
    kept = acls.list_acls(secure_kafka.admin(), "ann-1")
    removed = ask("DELETE", "/access/users/ann-1", confirm="ann-1")

    assert [{"user": "ann-1", "is_new": True}] * 2 == [added.json(), repeated.json()]
    assert (409, {"user": "ann-1", "is_new": False}) == (other.status_code, changed.json())
    row = {"user": "ann-1", "mechanisms": ["SCRAM-SHA-512"], "is_fixed": False}
    assert {"total": 1, "users": [row]} == listed
    assert ({"user": "ann-1", "rules": 2, "is_done": False}, 422, 2) == (
        counted.json(),
        misspelt.status_code,
        len(kept),
    )
    assert {"user": "ann-1", "rules": 2, "is_done": True} == removed.json()
    assert 404 == ask("DELETE", "/access/users/ann-1").status_code
    assert [] == acls.list_acls(secure_kafka.admin(), "ann-1")
    assert not (secure_kafka.home / "broker" / "secrets" / "users" / "ann-1.password").exists()
    everything = "".join(each.text for each in (added, repeated, other, changed, counted, removed))
    assert not any(word in everything for word in WORDS)
    assert not any(word.encode() in _kept(secure_kafka.home) for word in WORDS)


def _kept(home: Path) -> bytes:
    return (home / "console" / "actions.db").read_bytes()


def test_rules_are_planned_first_and_what_is_there_already_stays(ask: Asked, secure_kafka: RunningKafka) -> None:
    request = {"user": "<b>'bob'", "may": "consume", "topics": ["orders"], "groups": ["shop*"]}
    planned = ask("POST", "/access/acls", request).json()
    before = acls.list_acls(secure_kafka.admin(), "<b>'bob'")
    done = ask("POST", "/access/acls", {**request, "confirm": "<b>'bob'"}).json()
    again = ask("POST", "/access/acls", request).json()
    listed = ask("GET", "/access/acls", search="<b>", size=2).json()
    removal = {"acls": [step["acl"] for step in planned["steps"]]}
    counted = ask("POST", "/access/acls/remove", removal).json()
    unconfirmed = ask("POST", "/access/acls/remove", {**removal, "confirm": "bob"})
    removed = ask("POST", "/access/acls/remove", {**removal, "confirm": "<b>'bob'"}).json()
    nothing = ask("POST", "/access/acls/remove", {**removal, "confirm": "<b>'bob'"}).json()

    def effects(plan: dict[str, Any]) -> tuple[bool, set[str]]:
        return plan["is_done"], {step["effect"] for step in plan["steps"]}

    assert ([], 3) == (before, len(planned["steps"]))
    assert [(False, {"is added"}), (True, {"is added"}), (False, {"is there already"})] == [
        effects(each) for each in (planned, done, again)
    ]
    assert (3, 2) == (listed["total"], len(listed["acls"]))
    assert 422 == unconfirmed.status_code
    assert [(False, {"is removed"}), (True, {"is removed"}), (True, {"is not there"})] == [
        effects(each) for each in (counted, removed, nothing)
    ]
    assert [] == acls.list_acls(secure_kafka.admin(), "<b>'bob'")


def test_a_rule_that_is_not_listed_removes_nothing_else(ask: Asked, secure_kafka: RunningKafka) -> None:
    there = Acl(user="cy-1", operation="read", resource="topic", name="orders")
    acls.allow(secure_kafka.admin(), [there])
    body = {**there.model_dump(), "operation": "any"}
    said = ask("POST", "/access/acls/remove", {"acls": [body], "confirm": "cy-1"}).json()

    assert ["is not there"] == [each["effect"] for each in said["steps"]]
    assert [there] == acls.list_acls(secure_kafka.admin(), "cy-1")


def test_the_console_does_not_lock_itself_out(
    ask: Asked, settings: Settings, secure_kafka: RunningKafka, jar_folder: Path
) -> None:
    admin = secure_kafka.admin()
    local_users.put(settings, admin, "ops-1", WORDS[0])
    own = [
        Acl(user="ops-1", operation="all", resource="cluster", name=acls.CLUSTER_NAME),
        Acl(user="*", operation="describe", resource="topic", name="open-1"),
    ]
    acls.allow(admin, own)
    until(lambda: can_log_in(settings, "ops-1"))
    as_ops = console_in(settings_in(secure_kafka, jar_folder, "ops-1"))
    refused = [
        ask("PUT", "/access/users", {"user": "admin", "password": WORDS[0]}),
        ask("DELETE", "/access/users/admin", confirm="admin"),
        ask("DELETE", "/access/users/connect", confirm="connect"),
        ask("PUT", "/access/quotas", {"user": "admin", "request_percent": 1}),
        as_ops("PUT", "/access/users", {"user": "ops-1", "password": WORDS[1]}),
        as_ops("DELETE", "/access/users/ops-1", confirm="ops-1"),
        as_ops("PUT", "/access/quotas", {"user": "ops-1", "request_percent": 1}),
        *(as_ops("POST", "/access/acls/remove", {"acls": [each.model_dump()], "confirm": each.user}) for each in own),
    ]
    fixed = {each["user"]: each["is_fixed"] for each in as_ops("GET", "/access/users").json()["users"]}

    assert [409] * len(refused) == [each.status_code for each in refused]
    assert "the console itself works as 'ops-1'" in refused[4].json()["error"]["message"]
    assert {"admin": True, "ops-1": True} == {name: fixed[name] for name in ("admin", "ops-1")}
    assert ("ops-1", "admin") == tuple(each("GET", "/access").json()["kafka_user"] for each in (as_ops, ask))
    assert can_log_in(settings, "ops-1")
    removed = ask("POST", "/access/acls/remove", {"acls": [own[1].model_dump()], "confirm": "*"})  # no rule binds admin
    assert removed.json()["is_done"]


def test_somebody_without_rights_is_told_so_and_nothing_is_changed(
    settings: Settings, secure_kafka: RunningKafka, jar_folder: Path
) -> None:
    local_users.put(settings, secure_kafka.admin(), "eve-1", WORDS[0])
    until(lambda: can_log_in(settings, "eve-1"))
    as_eve = console_in(settings_in(secure_kafka, jar_folder, "eve-1"))
    said = [
        as_eve("PUT", "/access/users", {"user": "mallory", "password": WORDS[0]}),
        as_eve("POST", "/access/acls", {"user": "eve-1", "may": "produce", "topics": ["*"], "confirm": "eve-1"}),
        as_eve("GET", "/access/quotas"),
    ]

    assert [403] * 3 == [each.status_code for each in said]
    assert {"refused"} == {each.json()["error"]["code"] for each in said}
    assert "mallory" not in {each.user for each in users.list_users(secure_kafka.admin())}


def quotas_of(ask: Asked) -> dict[str | None, dict[str, Any]]:
    return {each.pop("user"): each for each in ask("GET", "/access/quotas").json()}


UNLIMITED = {"producer_bytes_per_s": None, "consumer_bytes_per_s": None, "request_percent": None}


@pytest.mark.soak
def test_a_quota_is_set(ask: Asked) -> None:
    name = "d'an are x=1"
    put = ask("PUT", "/access/quotas", {"user": name, "producer_bytes_per_s": 50_000, "request_percent": 200})

    assert 200 == put.status_code
    wanted = {**UNLIMITED, "producer_bytes_per_s": 50_000, "request_percent": 200}
    until(lambda: quotas_of(ask).get(name) == wanted)  # Kafka shows it a moment later


@pytest.mark.soak
def test_quotas_are_changed_and_taken_away(ask: Asked) -> None:
    name = "<b>-ann"
    ask("PUT", "/access/quotas", {"user": name, "producer_bytes_per_s": 50_000, "request_percent": 200.5})
    ask("PUT", "/access/quotas", {"user": name, "consumer_bytes_per_s": 1_500_000})
    ask("PUT", "/access/quotas", {"user": None, "producer_bytes_per_s": 10**9})
    found = quotas_of(ask)
    removed = [ask("POST", "/access/quotas/remove", {"user": each}) for each in (name, None)]

    assert {**UNLIMITED, "consumer_bytes_per_s": 1_500_000} == found[name]
    assert {**UNLIMITED, "producer_bytes_per_s": 10**9} == found[None]
    assert [200, 200] == [each.status_code for each in removed]
    assert {name, None}.isdisjoint(quotas_of(ask))
    assert 404 == ask("POST", "/access/quotas/remove", {"user": name}).status_code


def test_long_lists_of_rules_come_a_page_at_a_time(ask: Asked, secure_kafka: RunningKafka) -> None:
    many = [Acl(user="many-1", operation="read", resource="topic", name=f"topic-{each:04}") for each in range(1_000)]
    acls.allow(secure_kafka.admin(), many)
    pages = [ask("GET", "/access/acls", search="many-1", page=page, size=200).json() for page in (0, 4, 5)]
    acls.remove(secure_kafka.admin(), many)

    assert [1_000] * 3 == [each["total"] for each in pages]
    assert [200, 200, 0] == [len(each["acls"]) for each in pages]


def test_every_change_is_in_the_audit_with_what_it_was_about(settings: Settings) -> None:
    ask = console_in(settings)
    with ask.client:
        ask("PUT", "/access/users", {"user": "fay-1", "password": WORDS[0]}, action_id="audited-user")
        ask("POST", "/access/acls", {"user": "fay-1", "may": "produce", "topics": ["a"]}, action_id="audited-rule")
        wanted = {"audited-user", "audited-rule"}
        found: dict[str, dict[str, Any]] = {}

        def are_kept() -> bool:
            found.update({each["action_id"]: each for each in ask("GET", "/audit").json()})
            return wanted <= found.keys()

        until(are_kept)

    told = {name: (found[name]["action"], found[name]["about"], found[name]["outcome"]) for name in wanted}
    assert {
        "audited-user": ("PUT /access/users", "fay-1", "done"),
        "audited-rule": ("POST /access/acls", "only planned: allow fay-1: write topic a, describe topic a", "done"),
    } == told
