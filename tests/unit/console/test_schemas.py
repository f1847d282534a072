"""Schemas in a console, by its REST interface, from a registry that keeps what it is given."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from support.consoles import Asked, open_console
from support.registry_stub import registry_stub

UNREACHABLE = "127.0.0.1:1"
FIRST = {"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}]}
SECOND = {**FIRST, "fields": [*FIRST["fields"], {"name": "note", "type": "string", "default": ""}]}


@pytest.fixture
def ask(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Asked]:
    with registry_stub() as stub:
        stub.add("orders/eu-value", FIRST)
        stub.add("orders/eu-value", SECOND)
        stub.add("payments-value", FIRST)
        monkeypatch.setenv("PENSTOCK_REGISTRY_URL", stub.url)
        yield open_console(tmp_path, UNREACHABLE)


def test_subjects_are_listed_a_page_at_a_time(ask: Asked) -> None:
    whole = ask("GET", "/schemas").json()
    second = ask("GET", "/schemas", page=1, size=1).json()
    searched = ask("GET", "/schemas", search="ORDERS").json()

    assert [("orders/eu-value", 2, "AVRO"), ("payments-value", 1, "AVRO")] == [
        (each["subject"], each["versions"], each["format"]) for each in whole["subjects"]
    ]
    assert (2, ["payments-value"]) == (second["total"], [each["subject"] for each in second["subjects"]])
    assert 1 == searched["total"]


def test_a_version_is_shown_and_what_it_changed(ask: Asked) -> None:
    latest = ask("GET", "/schemas/subject", subject="orders/eu-value").json()
    first = ask("GET", "/schemas/subject", subject="orders/eu-value", version=1).json()
    lines = ask("GET", "/schemas/diff", subject="orders/eu-value").json()["lines"]
    alone = ask("GET", "/schemas/diff", subject="payments-value")

    assert (2, [1, 2], 1) == (latest["version"], latest["versions"], first["version"])
    assert ('"note"' in latest["text"], '"note"' in first["text"]) == (True, False)
    assert '+      "name": "note",' in lines
    assert (404, "not_found") == (alone.status_code, alone.json()["error"]["code"])


def test_compatibility_is_set_for_a_subject(ask: Asked) -> None:
    done = ask("PUT", "/schemas/compatibility", {"subject": "payments-value", "level": "FULL"})
    wrong = ask("PUT", "/schemas/compatibility", {"subject": "payments-value", "level": "SOMETIMES"})

    assert {"subject": "payments-value", "level": "FULL"} == done.json()
    assert 422 == wrong.status_code
    assert "FULL" == ask("GET", "/schemas/subject", subject="payments-value").json()["compatibility"]


def test_without_a_registry_it_says_how_to_get_one(tmp_path: Path) -> None:
    said = open_console(tmp_path, UNREACHABLE)("GET", "/schemas").json()["error"]

    assert ("not_found", True) == (said["code"], "--registry" in said["fix"])
