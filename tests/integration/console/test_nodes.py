"""The nodes of a local cluster, by the console's REST interface: looked at, stopped and started again."""

from dataclasses import replace
from pathlib import Path
from typing import Any

from confluent_kafka.admin import NewTopic
from fastapi.testclient import TestClient

from penstock.console.api.app import make_app
from penstock.console.service import Console

from conftest import RunningKafka
from support.consoles import ADDRESS, Asked, settings_of
from support.waiting import eventually, until


def of_cluster(kafka: RunningKafka, jar_folder: Path) -> Asked:
    """Return the console of a local cluster."""
    settings = settings_of(kafka.home, kafka.connection.bootstrap_servers)
    console = Console(replace(settings, external=None, cache=jar_folder.parent), [])
    return Asked(TestClient(make_app(console), base_url=ADDRESS, raise_server_exceptions=False))


def test_a_node_is_stopped_seen_to_be_missed_and_started_again(three_nodes: RunningKafka, jar_folder: Path) -> None:
    topic = three_nodes.topic("spread", partitions=3)
    ask = of_cluster(three_nodes, jar_folder)

    def node(number: int) -> dict[str, Any]:
        return next(each for each in ask("GET", "/nodes").json()["nodes"] if each["node"] == number)

    before = ask("GET", "/nodes").json()
    stopped = ask("POST", "/nodes/3/stop")
    down = eventually(lambda: node(3), lambda seen: seen["broker"] is None)
    until(lambda: f"{topic}/0" in ask("GET", "/nodes").json()["under_replicated"])
    started = ask("POST", "/nodes/3/restart")
    until(lambda: ask("GET", "/nodes").json()["under_replicated"] == [])
    back = eventually(lambda: node(3), lambda seen: seen["broker"] is not None and seen["broker"]["lacking"] == 0)

    assert (True, [1, 2, 3]) == (before["is_local"], [each["node"] for each in before["nodes"]])
    assert all(each["disk"]["data_bytes"] > 0 for each in before["nodes"])
    assert [{"node": 3, "state": "stopped"}, {"node": 3, "state": "running"}] == [stopped.json(), started.json()]
    assert ("stopped", None) == (down["local"]["state"], down["broker"])
    assert "running" == back["local"]["state"]
    assert "log.dirs" in {each["name"] for each in ask("GET", "/nodes/3/settings").json()}
    assert ask("GET", "/nodes/3/log", lines=5).json()["lines"]
    assert 404 == ask("GET", "/nodes/9/log").status_code


def test_partitions_are_spread_as_the_plan_says_once_its_count_is_repeated(
    three_nodes: RunningKafka, jar_folder: Path
) -> None:
    ask, admin, topic = of_cluster(three_nodes, jar_folder), three_nodes.admin(), "all-on-one-node"
    crowded = NewTopic(topic, 6, replica_assignment=[[1]] * 6)
    admin.client.create_topics([crowded])[topic].result()
    planned = eventually(
        lambda: ask("POST", "/nodes/rebalance", {}).json(),
        lambda plan: topic in {each["topic"] for each in plan.get("moves", [])},
    )
    count = len(planned["moves"])
    refused = ask("POST", "/nodes/rebalance", {"moves": count + 1})
    before = ask("GET", "/nodes/rebalance").json()
    started = ask("POST", "/nodes/rebalance", {"moves": count})
    ended = eventually(lambda: ask("GET", "/nodes/rebalance").json(), lambda seen: seen["state"] != "running")
    replicas = {
        tuple(part.replicas) for part in admin.metadata("looking at the topic").topics[topic].partitions.values()
    }

    assert (409, {"state": "none", "said": []}) == (refused.status_code, before)
    assert (True, "done") == (started.json()["is_started"], ended["state"]), ended
    assert {(1,), (2,), (3,)} == replicas
    assert [] == ask("POST", "/nodes/rebalance", {}).json()["moves"]
