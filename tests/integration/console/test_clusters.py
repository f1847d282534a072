"""Several clusters in one console: the project's own, and a secure one that its file names."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

from penstock.config.project import ExternalCluster, Project
from penstock.console.api.app import make_app
from penstock.console.service import Console
from penstock.kafka import groups, topics
from penstock.kafka.reader import read_all

from conftest import RunningKafka
from support.consoles import ADDRESS, Asked, settings_of
from support.waiting import until

OTHER = "other"


@pytest.fixture
def ask(kafka: RunningKafka, secure_kafka: RunningKafka, tmp_path: Path) -> Iterator[Asked]:
    secure = secure_kafka.connection
    named = {
        OTHER: ExternalCluster(bootstrap_servers=secure.bootstrap_servers, security=secure.security),
        "away": ExternalCluster(bootstrap_servers="127.0.0.1:1"),
    }
    settings = replace(settings_of(tmp_path, kafka.connection.bootstrap_servers), project=Project(clusters=named))
    with TestClient(
        make_app(Console(settings, [], lets_all_in=True)), base_url=ADDRESS, raise_server_exceptions=False
    ) as client:
        yield Asked(client)


def names(rows: list[dict[str, Any]]) -> set[str]:
    return {each["topic"] for each in rows}


def test_a_topic_of_another_cluster_is_made_written_read_and_deleted_there_alone(
    ask: Asked, kafka: RunningKafka, secure_kafka: RunningKafka
) -> None:
    topic = f"{kafka.topic('clusters')}.elsewhere"
    made = ask("POST", "/topics", {"topic": topic, "partitions": 2}, cluster=OTHER)
    ask("POST", f"/topics/{topic}/messages", {"value": '{"card": "4"}', "key": "k"}, cluster=OTHER)
    groups.commit(secure_kafka.admin(), topic, {(topic, 0): 0})
    listed = [names(ask("GET", "/topics", cluster=each).json()) for each in ("", OTHER)]
    browsed = ask("GET", f"/topics/{topic}/messages", cluster=OTHER).json()["records"]
    use = ask("GET", f"/topics/{topic}/use", cluster=OTHER).json()
    found = ask("GET", f"/groups/{topic}", cluster=OTHER)
    begun = ask("POST", "/searches", {"topic": topic, "value": "card"}, cluster=OTHER).json()
    searched: dict[str, Any] = {}

    def is_searched() -> bool:
        searched.update(ask("GET", f"/searches/{begun['id']}", cluster=OTHER).json())
        return bool(searched["state"] != "running")

    until(is_searched)

    assert (201, 2) == (made.status_code, topics.partition_count(secure_kafka.admin(), topic))
    assert [False, True] == [topic in each for each in listed]
    assert ["k"] == [each["key"]["text"] for each in browsed]
    assert [b'{"card": "4"}'] == [each.value() for each in read_all(secure_kafka.connection, topic)]
    assert ("done", 1) == (searched["state"], len(searched["found"]))
    assert ([topic], [], None) == ([each["group"] for each in use["groups"]], use["read_by"], use["bytes"])
    assert 200 == found.status_code
    assert [404] * 3 == [
        ask("GET", path).status_code for path in (f"/topics/{topic}", f"/groups/{topic}", f"/searches/{begun['id']}")
    ]
    assert ask("DELETE", f"/topics/{topic}", confirm=topic, cluster=OTHER).json()["is_done"]


def test_clusters_are_listed_and_what_is_not_there_is_said_so(ask: Asked, kafka: RunningKafka) -> None:
    listed = {each["cluster"]: each["bootstrap_servers"] for each in ask("GET", "/clusters").json()}
    unknown, away = ask("GET", "/topics", cluster="<b>"), ask("GET", "/topics", cluster="away")

    assert ["", "away", OTHER] == list(listed)
    assert kafka.connection.bootstrap_servers == listed[""]
    assert (404, "there is no cluster '<b>'") == (unknown.status_code, unknown.json()["error"]["message"])
    assert (503, "unavailable") == (away.status_code, away.json()["error"]["code"])
    assert 200 == ask("GET", "/topics").status_code


def test_nodes_of_another_cluster_are_looked_at_and_never_stopped(ask: Asked) -> None:
    found = ask("GET", "/nodes", cluster=OTHER).json()
    node = found["nodes"][0]["node"]
    refused = [
        ask("POST", "/nodes", cluster=OTHER),
        ask("POST", f"/nodes/{node}/restart", cluster=OTHER),
        ask("POST", f"/nodes/{node}/stop", cluster=OTHER),
        ask("GET", f"/nodes/{node}/log", cluster=OTHER),
    ]

    assert (False, None) == (found["is_local"], found["nodes"][0]["local"])
    assert [409] * 4 == [each.status_code for each in refused]
    assert f"cluster '{OTHER}' is an external one" in refused[2].json()["error"]["message"]
    assert "log.dirs" in {each["name"] for each in ask("GET", f"/nodes/{node}/settings", cluster=OTHER).json()}


def test_favourites_and_reserved_names_are_those_of_each_cluster(
    ask: Asked, kafka: RunningKafka, secure_kafka: RunningKafka
) -> None:
    here, there = kafka.topic("favourite"), secure_kafka.topic("favourite")
    ask("PUT", f"/topics/{there}/favourite", cluster=OTHER)
    ask("PUT", f"/topics/{here}/favourite")

    def favourites(cluster: str) -> set[str]:
        rows = ask("GET", "/topics", cluster=cluster).json()
        return names([each for each in rows if each["is_favourite"]])

    assert ({here}, {there}) == (favourites(""), favourites(OTHER))
    assert 403 == ask("POST", "/topics", {"topic": "connect-configs"}, cluster=OTHER).status_code
