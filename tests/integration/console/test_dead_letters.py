"""The dead letters of a console, by its REST interface, on a real broker."""

from pathlib import Path
from typing import Any

import pytest

from penstock.console.commands import Commands
from penstock.console.open_counts import OpenCounts
from penstock.delivery import selection
from penstock.delivery.dead_envelope import ENVELOPE, enveloped
from penstock.delivery.selection import Filter
from penstock.kafka.producer import Producer
from penstock.operate.belonging import write_file
from penstock.record.formats import DEAD_LETTER

from conftest import RunningKafka
from support.consoles import Asked, open_console
from support.pipelines import Lab
from support.waiting import until


def concerns(ask: Asked, pipeline: str) -> list[str]:
    """Return what the overview says of a pipeline's letters, once it has looked."""
    console = ask.client.app.state.console  # type: ignore[attr-defined]
    console.open_counts = OpenCounts(console.letters)  # one that does not rest
    console.open_counts.look()
    found = ask("GET", "/overview").json()["concerns"]
    return [each["what"] for each in found if each["about"] == f"dead-letters:{pipeline}"]


def test_letters_are_counted_shown_planned_for_and_discarded_by_their_count(lab: Lab) -> None:
    topic = lab.kafka.topic("console-dead")
    lab.send(topic, "no json", {"id": 1, "name": "good"}, {"id": "no number"})
    lab.run(lab.spec(topic))
    write_file(lab.home(topic).folder, lab.written(topic))
    ask = open_console(lab.kafka.home, lab.connection.bootstrap_servers)
    counted = ask("GET", "/dead-letters", pipeline=topic).json()
    first = min(ask("GET", "/dead-letters/letters", pipeline=topic).json(), key=lambda each: int(each["offset"]))
    whole = ask("GET", f"/dead-letters/letters/{topic}.dead/{first['dead_partition']}/{first['dead_offset']}").json()
    letters, mine = ask.client.app.state.console.letters, Filter(pipeline=topic)  # type: ignore[attr-defined]
    is_read_once = letters.look(mine) is letters.look(mine)
    only = {"filter": {"pipeline": topic}}
    planned = ask("POST", "/dead-letters/replay", only).json()
    wrong = ask("POST", "/dead-letters/discard", {**only, "count": 5})
    before = concerns(ask, topic)
    done = ask("POST", "/dead-letters/discard", {**only, "count": 2}).json()

    assert is_read_once
    assert (2, 2) == (counted["total"], sum(each["letters"] for each in counted["reasons"]))
    assert ("no json", []) == (whole["record"]["value"]["text"], whole["record"]["headers"])
    assert {"found": 2, "gone": 0, "left_out": [], "replay": None} == planned
    assert (409, "2 dead letters are open by now, and not 5") == (wrong.status_code, wrong.json()["error"]["message"])
    assert {"found": 2, "gone": 0, "discarded": 2, "is_done": True} == done
    assert 0 == ask("GET", "/dead-letters", pipeline=topic).json()["total"]
    assert ([f"2 dead letters of pipeline '{topic}'"], []) == (before, concerns(ask, topic))


def test_single_letters_are_replayed_and_discarded_once_and_others_stay_open(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Commands, "start", lambda _commands, _name, _arguments: None)
    topic = lab.kafka.topic("console-chosen")
    lab.send(topic, "no json", "nor this", "nor that")
    lab.run(lab.spec(topic))
    write_file(lab.home(topic).folder, lab.written(topic))
    ask = open_console(lab.kafka.home, lab.connection.bootstrap_servers)

    def open_offsets() -> list[int]:
        return sorted(each["offset"] for each in ask("GET", "/dead-letters/letters", pipeline=topic).json())

    listed = ask("GET", "/dead-letters/letters", pipeline=topic).json()
    letters = sorted(listed, key=lambda each: int(each["offset"]))
    first, second, _ = [coordinates_of(each) for each in letters]
    counted = ask("POST", "/dead-letters/replay", {"letters": [first]}).json()
    replayed = ask("POST", "/dead-letters/replay", {"letters": [first], "count": 1}).json()
    after_replay = open_offsets()
    too_many = ask("POST", "/dead-letters/discard", {"letters": [first, second], "count": 2})
    both = ask("POST", "/dead-letters/discard", {"letters": [first, second]}).json()
    discarded = ask("POST", "/dead-letters/discard", {"letters": [first, second], "count": 1}).json()
    again = [ask("POST", f"/dead-letters/{what}", {"letters": [second], "count": 1}) for what in ("discard", "replay")]

    assert {"found": 1, "gone": 0, "left_out": [], "replay": None} == counted
    assert (1, 1) == (
        replayed["found"],
        ask("GET", f"/dead-letters/replays/{replayed['replay']}").json()["letters"],
    )
    assert [1, 2] == after_replay
    assert (409, "1 dead letter is open by now, and not 2") == (
        too_many.status_code,
        too_many.json()["error"]["message"],
    )
    assert {"found": 1, "gone": 1, "discarded": 0, "is_done": False} == both
    assert {"found": 1, "gone": 1, "discarded": 1, "is_done": True} == discarded
    assert [409, 409] == [each.status_code for each in again]
    assert [2] == open_offsets()


def coordinates_of(letter: dict[str, Any]) -> dict[str, Any]:
    return {name: letter[f"dead_{name}"] for name in ("topic", "partition", "offset")}


def forged(pipeline: str, **more: Any) -> list[tuple[str, bytes | None]]:
    """Return the headers of a dead letter that nobody's pipeline has written."""
    said: dict[str, Any] = dict.fromkeys(ENVELOPE, 0)
    said |= {"pipeline": pipeline, "stage": "decode", "error": "ValueError", "sinks": "[]", "message": "no number"}
    said |= {"topic": "orders", "line": "", "sink": "", "stub": "", "value_bytes": "", "format": DEAD_LETTER, **more}
    return enveloped(said)


def test_letters_of_somebody_else_s_making_take_no_more_room_than_ours(
    kafka: RunningKafka, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(selection, "_MOST_REASONS", 10)
    name = kafka.topic("forged")
    with Producer(kafka.connection) as producer:
        for number in range(20):
            producer.send(name, b"{}", headers=forged(f"p{number}", error=f"E{number}", message="x" * 500_000))
        producer.send(name, b"{}", headers=forged("p", error="E" * 5_000))
        producer.send(name, b"{}", headers=forged("p", failed_ms=10**400))
    ask = open_console(tmp_path, kafka.connection.bootstrap_servers)
    counted = ask("GET", "/dead-letters", topic=name)
    listed = ask("GET", "/dead-letters/letters", topic=name)

    reasons = counted.json()["reasons"]
    assert (20, 20) == (counted.json()["total"], len(listed.json()))  # the last two are none that Penstock writes
    assert ([1] * 10 + [10], "") == ([each["letters"] for each in reasons], reasons[-1]["error"])
    assert max(len(counted.content), len(listed.content)) < 100_000


def test_what_rules_hide_is_not_told_by_the_reasons_of_letters(kafka: RunningKafka, tmp_path: Path) -> None:
    name = kafka.topic("failed")
    with Producer(kafka.connection) as producer:
        producer.send(name, '{"id": "4111"}', headers=forged(name, message="no number: 4111"))
    ask = open_console(tmp_path, kafka.connection.bootstrap_servers)
    before = ask("GET", "/dead-letters", topic=name).json()["reasons"]
    (tmp_path / "console").mkdir(exist_ok=True)
    (tmp_path / "console" / "masks.yaml").write_text("rules: [{topics: orders, fields: [id]}]")
    (reason,) = ask("GET", "/dead-letters", topic=name).json()["reasons"]
    (letter,) = ask("GET", "/dead-letters/letters", topic=name).json()
    whole = ask("GET", f"/dead-letters/letters/{name}/0/0").json()
    counted = [
        ask("POST", "/dead-letters/discard", {"filter": {"topic": name, "error": error}}).json()["found"]
        for error in ("4111", "ValueError")
    ]
    begun = ask("POST", "/searches", {"topic": name, "value": "4111"}).json()
    until(lambda: ask("GET", f"/searches/{begun['id']}").json()["state"] != "running")

    assert ["no number: 4111"] == [each["example"] for each in before]
    assert ("***", "***", "***") == (reason["example"], letter["message"], whole["letter"]["message"])
    assert '{"id":"***"}' == whole["record"]["value"]["text"]
    assert [0, 1] == counted
    assert [] == ask("GET", f"/searches/{begun['id']}").json()["found"]
