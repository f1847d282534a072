"""Lineage in a console, by its REST interface, from a store in the home folder."""

import json
from pathlib import Path
from typing import Any

import pytest

from penstock.lineage.store.address import StoreAddress, default_path
from penstock.lineage.store.database import migrate

from support.consoles import Asked, open_console
from support.lineage_samples import event, facet
from support.lineage_stories import write_in_batches

UNREACHABLE = "127.0.0.1:1"
MARKUP = "<script>alert('orders')</script>"
SINCE = "2026-03-01T00:00Z"


def _table(name: str, **facets: Any) -> dict[str, Any]:
    return {"namespace": "postgres://db:5432", "name": name, "facets": facets}


@pytest.fixture
def ask(tmp_path: Path) -> Asked:
    home = tmp_path / "home"
    path = default_path(home)
    path.parent.mkdir(parents=True)
    address = StoreAddress(store=str(path))
    migrate(address)
    how = {"type": "DIRECT", "subtype": "IDENTITY", "description": "", "masking": False}
    made_of = {"namespace": "postgres://db:5432", "name": "raw", "field": "id", "transformations": [how]}
    columns = facet(fields={"key": {"inputFields": [made_of]}})
    ran = event("COMPLETE", "2026-03-01T12:00:00Z", "019ca900-0000-7000-8000-000000000001", ("etl", "load"),
                inputs=[_table("raw")], outputs=[_table(MARKUP, columnLineage=columns)])  # fmt: skip
    write_in_batches(address, [json.dumps(ran).encode()], 1)
    return open_console(home, UNREACHABLE)


def test_what_is_found_by_name_has_a_graph_around_it(ask: Asked) -> None:
    (found,) = ask("GET", "/lineage/search", words="raw").json()["items"]
    graph = ask("GET", "/lineage/graph", of=found["key"], since=SINCE).json()
    before = ask("GET", "/lineage/graph", of=found["key"], since=SINCE, direction="upstream").json()

    assert ("dataset", "raw", "raw") == (found["kind"], found["name"], graph["name"])
    assert {("dataset", "raw"), ("job", "load"), ("dataset", MARKUP)} == {
        (each["kind"], each["name"]) for each in graph["nodes"]
    }
    assert (2, 0) == (len(graph["edges"]), len(before["edges"]))
    assert {each["key"] for each in graph["nodes"]} >= {graph["edges"][0]["source"], graph["edges"][0]["target"]}


def test_a_graph_is_of_a_time_that_may_have_an_end(ask: Asked) -> None:
    (found,) = ask("GET", "/lineage/search", words="raw").json()["items"]
    of, end = found["key"], "2026-03-01T11:00Z"
    before = ask("GET", "/lineage/graph", of=of, since=SINCE, until=end).json()
    after = ask("GET", "/lineage/graph", of=of, since=end, until="2026-03-01T13:00Z").json()
    wrong = ask("GET", "/lineage/graph", of=of, since=SINCE, until=SINCE)

    assert (0, 2) == (len(before["edges"]), len(after["edges"]))
    assert "until=2026-03-01T13%3A00Z" in after["svg"]
    assert (422, "bad_input") == (wrong.status_code, wrong.json()["error"]["code"])


def test_names_are_only_text_in_the_picture_and_columns_are_told(ask: Asked) -> None:
    target = next(each for each in ask("GET", "/lineage/datasets").json()["items"] if each["data"]["name"] == MARKUP)
    graph = ask("GET", "/lineage/graph", of=f"dataset:{target['id']}", since=SINCE).json()

    assert "<script" not in graph["svg"]
    assert "&lt;script&gt;" in graph["svg"]
    assert 'href="/lineage?of=job%3A' in graph["svg"]
    assert [("key", "id", "raw")] == [(each["column"], each["source"], each["dataset"]) for each in graph["columns"]]


@pytest.mark.parametrize("of", ["dataset:x", "orders", "run:7", "dataset:²", f"dataset:{2**63}", ""])
def test_what_is_no_key_is_refused(of: str, ask: Asked) -> None:
    assert 422 == ask("GET", "/lineage/graph", of=of).status_code


def test_a_time_beyond_the_calendar_is_as_far_as_it_goes_or_is_refused(ask: Asked) -> None:
    (found,) = ask("GET", "/lineage/search", words="raw").json()["items"]
    of = found["key"]

    graph = ask("GET", "/lineage/graph", of=of, since="99999999999d").json()
    later = ask("GET", "/lineage/graph", of=of, since="9999-12-31T23:59:59-14:00")

    assert 2 == len(graph["edges"])
    assert (422, "bad_input") == (later.status_code, later.json()["error"]["code"])


def test_a_home_without_a_store_says_what_makes_one(tmp_path: Path) -> None:
    said = open_console(tmp_path, UNREACHABLE)("GET", "/lineage/jobs")

    assert (404, True) == (said.status_code, "lineage" in said.json()["error"]["fix"])


@pytest.mark.parametrize("words", ["ab", "  a  ", "a\x00bc"])
@pytest.mark.parametrize(("path", "name"), [("search", "words"), ("datasets", "search"), ("runs", "search")])
def test_words_that_cannot_be_searched_for_are_refused(path: str, name: str, words: str, ask: Asked) -> None:
    assert 422 == ask("GET", f"/lineage/{path}", **{name: words}).status_code
