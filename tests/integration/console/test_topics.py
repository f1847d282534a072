"""The topics of a console, by its REST interface, on a real broker."""

from pathlib import Path

import pytest

from penstock.kafka import groups, topics
from penstock.kafka.producer import Producer

from conftest import RunningKafka
from support.consoles import Asked, open_console, signed_in
from support.waiting import until


@pytest.fixture
def ask(kafka: RunningKafka, tmp_path: Path) -> Asked:
    return open_console(tmp_path, kafka.connection.bootstrap_servers)


def test_a_topic_is_made_changed_grown_and_deleted(ask: Asked, kafka: RunningKafka) -> None:
    name = f"{kafka.topic('console')}.made"
    made = ask("POST", "/topics", {"topic": name, "partitions": 2, "retention": "7d"})
    own = {each["name"]: each["value"] for each in made.json()["settings"] if each["is_own"]}
    changed = ask("PATCH", f"/topics/{name}", {"retention": "1d", "unset": [], "confirm": name})
    grown = ask("POST", f"/topics/{name}/partitions", {"total": 3})

    assert (201, 2, {"retention.ms": "604800000"}) == (made.status_code, len(made.json()["partitions"]), own)
    assert (200, 200, 3) == (changed.status_code, grown.status_code, topics.partition_count(kafka.admin(), name))
    assert topics.config(kafka.admin(), name)["retention.ms"] == ("86400000", True)
    assert ask("POST", "/topics", {"topic": name}).json()["error"]["code"] == "conflict"
    assert ask("DELETE", f"/topics/{name}", confirm="another").status_code == 422
    assert ask("DELETE", f"/topics/{name}").json() == {"topic": name, "records": 0, "is_done": False}
    assert ask("DELETE", f"/topics/{name}", confirm=name).json() == {"topic": name, "records": 0, "is_done": True}
    assert ask("GET", f"/topics/{name}").status_code == 404


def test_a_name_that_goes_on_behind_a_nul_is_not_the_one_before_it(ask: Asked, kafka: RunningKafka) -> None:
    name = kafka.topic("console")
    groups.commit(kafka.admin(), name, {(name, 0): 0})
    longer, escaped = f"{name}\0", f"{name}%00"
    answers = [
        ask("GET", f"/topics/{escaped}"),
        ask("GET", f"/topics/{escaped}/messages"),
        ask("POST", "/searches", {"topic": longer, "value": "a"}),
        ask("PATCH", f"/topics/{name}", {"config": {"retention.ms\0": "1"}, "confirm": name}),
        ask("DELETE", f"/topics/{escaped}", confirm=longer),
        ask("GET", f"/groups/{escaped}"),
        ask("POST", f"/groups/{escaped}/reset", {"to": "latest", "topics": [name], "confirm": longer}),
        ask("DELETE", f"/groups/{escaped}", confirm=longer),
    ]

    assert [(422, "bad_input")] * 8 == [(each.status_code, each.json()["error"]["code"]) for each in answers]
    assert {(name, 0): 0} == groups.committed(kafka.admin(), name)
    assert 1 == topics.partition_count(kafka.admin(), name)


def test_a_purge_counts_first_and_deletes_when_the_name_is_typed(ask: Asked, kafka: RunningKafka) -> None:
    name = kafka.topic("console")
    with Producer(kafka.connection) as producer:
        for _ in range(5):
            producer.send(name, b"{}")
    counted = ask("POST", f"/topics/{name}/purge", {"partition": 0, "before": 3})
    start = ask("GET", f"/topics/{name}").json()["partitions"][0]["start"]
    done = ask("POST", f"/topics/{name}/purge", {"partition": 0, "before": 3, "confirm": name})

    assert {"topic": name, "records": 3, "is_done": False} == counted.json()
    assert {"topic": name, "records": 3, "is_done": True} == done.json()
    assert (0, 3) == (start, ask("GET", f"/topics/{name}").json()["partitions"][0]["start"])


def test_the_list_says_what_topics_hold_and_how_fast_they_grow(ask: Asked, kafka: RunningKafka) -> None:
    name = kafka.topic("console")
    with ask.client, Producer(kafka.connection) as producer:

        def row() -> dict[str, float | None]:
            producer.send(name, b"{}")
            producer.flush()
            return next(each for each in ask("GET", "/topics").json() if each["topic"] == name)

        until(lambda: (row()["records_per_s"] or 0) > 0)

        assert (row()["records"] or 0) > 1


def test_favourites_are_kept_for_the_next_console_and_are_their_owners_alone(
    kafka: RunningKafka, tmp_path: Path
) -> None:
    first, second = kafka.topic("favourite"), kafka.topic("favourite")
    _, people = signed_in(tmp_path, kafka.connection.bootstrap_servers)
    for name in (first, second, first):
        people["viewer"]("PUT", f"/topics/{name}/favourite")
    removed = people["viewer"]("DELETE", f"/topics/{second}/favourite")
    _, later = signed_in(tmp_path, kafka.connection.bootstrap_servers)

    def favourites(who: Asked) -> list[str]:
        return [each["topic"] for each in who("GET", "/topics").json() if each["is_favourite"]]

    assert {"topic": second, "is_favourite": False} == removed.json()
    assert ([first], []) == (favourites(later["viewer"]), favourites(later["admin"]))
    assert 404 == people["viewer"]("PUT", "/topics/not-there/favourite").status_code
    assert 0o600 == (tmp_path / "console" / "favourites.json").stat().st_mode & 0o777
