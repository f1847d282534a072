"""Records and groups of a console, by its REST interface, on a real broker."""

from pathlib import Path
from typing import Any

import pytest

from penstock.kafka import groups
from penstock.kafka.producer import Producer

from conftest import RunningKafka
from support.consoles import Asked, open_console
from support.waiting import eventually


@pytest.fixture
def ask(kafka: RunningKafka, tmp_path: Path) -> Asked:
    return open_console(tmp_path, kafka.connection.bootstrap_servers)


def offsets(answer: Any) -> list[int]:
    return [each["offset"] for each in answer.json()["records"]]


def test_a_topic_is_browsed_from_both_ends_and_from_an_offset(ask: Asked, kafka: RunningKafka) -> None:
    name = kafka.topic("browsed")
    with Producer(kafka.connection) as producer:
        for number in range(10):
            producer.send(name, f'{{"number": {number}}}', timestamp_ms=1_700_000_000_000 + number)
    path = f"/topics/{name}/messages"

    assert [7, 8, 9] == offsets(ask("GET", path, count=3))
    assert [0, 1, 2] == offsets(ask("GET", path, start="earliest", count=3))
    assert [4, 5] == offsets(ask("GET", path, start="4", count=2))
    assert [8, 9] == offsets(ask("GET", path, start="2023-11-14T22:13:20.008+00:00", count=5))
    assert [True, False] == [ask("GET", path, start="earliest", count=count).json()["is_whole"] for count in (50, 3)]


def test_a_record_is_sent_and_shown_as_it_is_whatever_is_in_it(ask: Asked, kafka: RunningKafka) -> None:
    name = kafka.topic("sent")
    markup = "<img src=x onerror=alert(1)>"
    sent = ask("POST", f"/topics/{name}/messages", {"key": markup, "value": markup, "headers": [[markup, markup]]})
    gone = ask("POST", f"/topics/{name}/messages", {"key": "k", "value": None})
    with Producer(kafka.connection) as producer:
        producer.send(name, b"\xff\x00\x10")
    first, second, third = ask("GET", f"/topics/{name}/messages", start="earliest").json()["records"]

    assert ({"topic": name, "acknowledged": 1}, 201) == (sent.json(), gone.status_code)
    text = {"text": markup, "encoding": "text", "bytes": len(markup), "is_cut": False, "schema_id": None}
    assert (text, text, [[markup, text]]) == (first["key"], first["value"], first["headers"])
    assert second["value"] is None
    assert {"text": "ff 00 10", "encoding": "hex", "bytes": 3, "is_cut": False, "schema_id": None} == third["value"]


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        ({"value": "number-7"}, [7]),
        ({"key": "key-1", "value": "number"}, [1]),
        ({"header": "odd"}, [1, 3, 5, 7, 9]),
        ({"json_path": "inner.list.1", "equals": "4"}, [4]),
        ({"json_path": "inner.missing"}, []),
    ],
)
def test_a_whole_topic_is_searched_and_no_group_is_joined(
    wanted: dict[str, str], found: list[int], ask: Asked, kafka: RunningKafka
) -> None:
    name = kafka.topic("searched")
    with Producer(kafka.connection) as producer:
        for number in range(10):
            value = f'{{"name": "number-{number}", "inner": {{"list": [0, {number}]}}}}'
            producer.send(name, value, key=f"key-{number}", headers=[("odd", "")] if number % 2 else None)
    begun = ask("POST", "/searches", {"topic": name, **wanted})
    path = f"/searches/{begun.json()['id']}"
    ended = eventually(lambda: ask("GET", path).json(), lambda seen: seen["state"] != "running")

    assert (202, "done", 10, 10) == (begun.status_code, ended["state"], ended["looked_at"], ended["total"])
    assert found == [each["offset"] for each in ended["found"]]
    assert "penstock.reader" not in {each.group for each in groups.list_groups(kafka.admin())}


def test_a_group_is_listed_planned_for_moved_and_deleted(ask: Asked, kafka: RunningKafka) -> None:
    name = kafka.topic("read")
    group = f"{name}/readers of the console"
    with Producer(kafka.connection) as producer:
        for number in range(5):
            producer.send(name, str(number))
    groups.commit(kafka.admin(), group, {(name, 0): 2})
    listed = ask("GET", "/groups", search=group.upper()).json()
    planned = ask("POST", f"/groups/{group}/reset", {"to": "earliest"}).json()
    wrong = ask("POST", f"/groups/{group}/reset", {"to": "earliest", "by": 3})
    moved = ask("POST", f"/groups/{group}/reset", {"by": 1, "confirm": group}).json()

    assert (1, [(group, 3)]) == (listed["total"], [(each["group"], each["lag"]) for each in listed["groups"]])
    assert ([("reads again", 2)], False) == (
        [(each["effect"], each["records"]) for each in planned["steps"]],
        planned["is_done"],
    )
    assert (422, True, {(name, 0): 3}) == (
        wrong.status_code,
        moved["is_done"],
        groups.committed(kafka.admin(), group),
    )
    assert 2 == ask("GET", f"/groups/{group}").json()["lag"]
    assert ask("DELETE", f"/groups/{group}", confirm=group).json() == {"group": group, "partitions": 1, "is_done": True}
    assert {} == groups.committed(kafka.admin(), group)


def test_the_overview_names_what_needs_attention_and_survives_a_kafka_that_is_away(ask: Asked, tmp_path: Path) -> None:
    well = ask("GET", "/overview").json()
    away = open_console(tmp_path, "127.0.0.1:1")("GET", "/overview")

    assert ([], 1) == (well["concerns"], len(well["cluster"]["nodes"]))
    assert (200, None, ["error"]) == (
        away.status_code,
        away.json()["cluster"],
        [each["level"] for each in away.json()["concerns"]],
    )
