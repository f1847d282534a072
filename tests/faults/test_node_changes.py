"""Nodes that come, go and lose their data while the world goes on; commands that are killed on the way."""

import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from confluent_kafka.admin import NewTopic

from penstock.broker import rebalance
from penstock.config.project import LocalCluster
from penstock.errors import Conflict
from penstock.kafka import cluster as kafka_cluster
from penstock.kafka import topics
from penstock.kafka.producer import Producer
from penstock.kafka.reader import read_all

from conftest import Cli, RunningKafka
from support.waiting import until


def place(kafka: RunningKafka, topic: str, *replicas: list[int]) -> None:
    """Make a topic on these nodes, as Kafka may by chance, with a record in it."""
    admin = kafka.admin()
    # As `topic create` has it: otherwise the node that stops last may be the only one that Kafka believes afterwards.
    in_sync = 2 if all(len(each) > 2 for each in replicas) else 1
    new = NewTopic(
        topic, len(replicas), replica_assignment=list(replicas), config={"min.insync.replicas": str(in_sync)}
    )
    admin.results(admin.client.create_topics([new]), "making a topic")
    until(lambda: topic in admin.metadata("looking").topics)
    with Producer(kafka.connection) as producer:
        producer.send(topic, "kept")


def values(kafka: RunningKafka, topic: str) -> list[bytes | None]:
    return [message.value() for message in read_all(kafka.connection, topic)]


def holders(kafka: RunningKafka) -> set[int]:
    """Return the nodes that Kafka counts on for any copy."""
    found = kafka.admin().metadata("looking").topics.values()
    return {node for topic in found for part in topic.partitions.values() for node in part.replicas}


@pytest.fixture
def four_nodes(three_nodes: RunningKafka) -> RunningKafka:
    """Three nodes and one that has been added, with the highest id."""
    three_nodes.cluster.up(LocalCluster())
    if len(three_nodes.cluster.existing().nodes) == 3:
        three_nodes.cluster.add_node()
    return three_nodes


def newest(kafka: RunningKafka) -> int:
    return kafka.cluster.existing().nodes[-1].id


def test_topics_that_are_made_while_a_node_leaves_are_not_stranded(
    four_nodes: RunningKafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = newest(four_nodes)
    place(four_nodes, f"before-{node}", [node])
    moving, stopped = iter([f"while-moving-{node}"]), iter([f"after-the-stop-{node}"])
    strike = rebalance.unregister

    def progress(done: int, total: int) -> None:
        for name in moving if done == total else ():
            place(four_nodes, name, [node])

    def unregister(*arguments: object) -> None:
        for name in stopped:
            place(four_nodes, name, [1, node])
        strike(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(rebalance, "unregister", unregister)
    four_nodes.cluster.remove_node(node, four_nodes.cluster.plan_removal(node), progress)

    until(lambda: {1, 2, 3} == holders(four_nodes))
    for name in ("before", "while-moving", "after-the-stop"):
        assert [b"kept"] == values(four_nodes, f"{name}-{node}")
    assert 3 == len(four_nodes.cluster.existing().nodes)


def test_a_topic_that_is_deleted_while_partitions_move_is_done(three_nodes: RunningKafka) -> None:
    three_nodes.cluster.up(LocalCluster())
    admin = three_nodes.admin()
    for name in ("goes", "stays"):
        place(three_nodes, name, [1])
    names = ("goes", "gone-before", "stays")
    moves = [rebalance.Move(topic=name, partition=0, replicas=[1], target=[2]) for name in names]

    def progress(_done: int, _total: int) -> None:
        if "goes" in admin.metadata("looking").topics:
            topics.delete(admin, "goes")

    rebalance.execute(admin, moves, three_nodes.cluster.classpath(), progress)

    found = admin.metadata("looking").topics
    assert ("goes" in found, [2]) == (False, found["stays"].partitions[0].replicas)


@contextmanager
def command(kafka: RunningKafka, *arguments: str) -> Iterator["subprocess.Popen[bytes]"]:
    """Run a command that is killed when the block is left."""
    said = [sys.executable, "-m", "penstock", "--home", str(kafka.home), *arguments]
    with subprocess.Popen(said, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        yield process
        process.kill()


def kill_when(kafka: RunningKafka, reached: Callable[[], bool], *arguments: str) -> None:
    with command(kafka, *arguments) as process:
        until(lambda: reached() or process.poll() is not None)
        assert process.poll() is None, "it ended before it could be killed"


@pytest.mark.soak
def test_adding_and_removing_a_node_go_on_after_a_kill(three_nodes: RunningKafka, cli: Cli) -> None:
    cluster, home = three_nodes.cluster, three_nodes.home
    cluster.up(LocalCluster())
    before = len(cluster.existing().nodes)

    kill_when(three_nodes, lambda: len(cluster.existing().nodes) > before, "node", "add")
    added = cli("up", home=home)
    node = newest(three_nodes)
    joined = cluster.node(node)
    # As a kill between the start of a process and the note of its number leaves it.
    (joined.folder / "pid").unlink()
    noticed = cli("up", home=home)
    place(three_nodes, f"killed-{node}", [node])
    kill_when(three_nodes, lambda: joined.process() is None, "node", "remove", str(node), "--yes")
    status = cli("status", home=home)
    rebalanced = cli("topic", "rebalance", "--dry-run", home=home)
    brought_back = cli("up", home=home)
    rejoined = {each.id for each in kafka_cluster.describe(three_nodes.admin()).nodes}
    removed = cli("node", "remove", node, "--yes", home=home)

    assert (0, 0, 4) == (added.code, noticed.code, status.code), added.err + noticed.err
    assert rebalanced.code in {0, 6}, rebalanced.err
    assert (0, True) == (brought_back.code, node in rejoined), brought_back.err
    assert (0, {1, 2, 3}) == (removed.code, holders(three_nodes)), removed.err
    assert [b"kept"] == values(three_nodes, f"killed-{node}")


def test_a_rebalance_that_was_killed_is_taken_over_without_another_copy(three_nodes: RunningKafka, cli: Cli) -> None:
    three_nodes.cluster.up(LocalCluster())
    admin = three_nodes.admin()
    place(three_nodes, "uneven", *[[1] for _ in range(12)])

    def give_up(_done: int, _total: int) -> None:
        raise KeyboardInterrupt

    # As a kill leaves it: told to Kafka, and looked after by nobody.
    classpath = three_nodes.cluster.classpath()
    with pytest.raises(KeyboardInterrupt):
        rebalance.execute(admin, rebalance.plan(admin, classpath, topics=["uneven"]), classpath, give_up)
    again = cli("topic", "rebalance", "--topic", "uneven", "--yes", home=three_nodes.home)

    placed = [part.replicas for part in admin.metadata("looking").topics["uneven"].partitions.values()]
    assert (0, {1}) == (again.code, {len(replicas) for replicas in placed}), again.err
    assert {4} == {placed.count([node]) for node in (1, 2, 3)}
    assert [b"kept"] == values(three_nodes, "uneven")


def test_of_two_ups_at_once_one_works_and_the_other_is_told(three_nodes: RunningKafka, cli: Cli) -> None:
    three_nodes.cluster.up(LocalCluster())
    process = three_nodes.cluster.node(3).process()
    assert process is not None
    process.kill()
    process.wait(60)

    with command(three_nodes, "up") as first:
        until(lambda: three_nodes.cluster.node(3).process() is not None)
        second = cli("up", home=three_nodes.home)
        assert 0 == first.wait(480)

    assert second.code in {0, 6}, second.err
    assert 0 == cli("status", home=three_nodes.home).code


def test_a_node_whose_data_were_deleted_is_reported_and_filled_again_by_the_others(
    three_nodes: RunningKafka, cli: Cli
) -> None:
    cluster, home = three_nodes.cluster, three_nodes.home
    cluster.up(LocalCluster())
    place(three_nodes, "copied", [1, 2, 3])
    place(three_nodes, "single", [2])
    with pytest.raises(Conflict, match="has its data"):
        cluster.replace_node(2)
    cluster.down()
    shutil.rmtree(cluster.node(2).data)

    refused = cli("up", home=home)
    while_away = values(three_nodes, "copied")
    asked = cli("node", "replace", 2, home=home)
    replaced = cli("node", "replace", 2, "--yes", home=home)

    assert (6, 1, 0) == (refused.code, asked.code, replaced.code), replaced.err
    assert "penstock node replace 2" in refused.error_lines[0]
    assert "Nothing was changed" in asked.err
    assert ("they are lost" in replaced.err, "single/0" in replaced.err) == (True, True)
    assert [] == values(three_nodes, "single")
    assert [b"kept"] == while_away == values(three_nodes, "copied")
    until(lambda: [] == kafka_cluster.describe(three_nodes.admin()).under_replicated)
    assert 0 == cli("up", home=home).code
