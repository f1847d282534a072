"""Kill -9 and grow under load; judged by a fresh full read. Kill keeps the page cache: this is not a power cut."""

import pytest

from penstock.broker import rebalance
from penstock.config.project import LocalCluster
from penstock.errors import DeliveryFailed, NotFound
from penstock.kafka import cluster as kafka_cluster
from penstock.kafka import topics
from penstock.kafka.admin import Admin
from penstock.kafka.producer import Producer, ProducerOptions
from penstock.kafka.reader import read_all
from penstock.kafka.topic_spec import TopicSpec

from conftest import RunningKafka
from support.history import LoadGenerator, parse, verdict, wait_for_progress
from support.waiting import until

EVENTS = 200_000


def kill(kafka: RunningKafka, node_id: int) -> None:
    process = kafka.cluster.node(node_id).process()
    assert process is not None
    process.kill()
    process.wait(60)


def judge(kafka: RunningKafka, load: LoadGenerator, topic: str) -> None:
    assert [] == verdict(load.history, [parse(message) for message in read_all(kafka.connection, topic)])[:5]


def in_sync(kafka: RunningKafka) -> bool:
    return not kafka_cluster.describe(kafka.admin()).under_replicated


@pytest.fixture
def topic(three_nodes: RunningKafka) -> str:
    three_nodes.cluster.up(LocalCluster())
    return three_nodes.topic("load", partitions=6, replication=3)


def test_killing_the_leader_half_way_loses_nothing_and_doubles_nothing(three_nodes: RunningKafka, topic: str) -> None:
    with LoadGenerator(three_nodes.connection, topic, EVENTS) as load:
        wait_for_progress(load, 0.45, until)
        leader = topics.describe(three_nodes.admin(), topic).partitions[0].leader
        assert leader is not None
        kill(three_nodes, leader)
        at_the_kill = load.done
    three_nodes.cluster.up(LocalCluster())
    until(lambda: in_sync(three_nodes))

    judge(three_nodes, load, topic)
    assert 0 < at_the_kill < load.sent == load.done


def test_killing_every_node_at_once_loses_no_acknowledged_event(three_nodes: RunningKafka, topic: str) -> None:
    with LoadGenerator(three_nodes.connection, topic, EVENTS) as load:
        wait_for_progress(load, 0.45, until)
        for node in (1, 2, 3):
            kill(three_nodes, node)
        at_the_kill = load.done
        three_nodes.cluster.up(LocalCluster())
    until(lambda: in_sync(three_nodes))

    judge(three_nodes, load, topic)
    assert 0 < at_the_kill < load.sent == load.done


@pytest.mark.soak
def test_a_fourth_node_joins_takes_partitions_and_leaves_again_under_load(
    three_nodes: RunningKafka, topic: str
) -> None:
    classpath = three_nodes.cluster.classpath()
    with LoadGenerator(three_nodes.connection, topic, EVENTS) as load:
        wait_for_progress(load, 0.4, until)
        added = three_nodes.cluster.add_node()
        moves = rebalance.plan(three_nodes.admin(), classpath, topics=[topic])
        rebalance.execute(three_nodes.admin(), moves, classpath, lambda _done, _total: None)
        with_four = topics.describe(three_nodes.admin(), topic)
        sent_before_the_move_ended = load.done
    leaving = three_nodes.cluster.plan_removal(added.id)
    three_nodes.cluster.remove_node(added.id, leaving, lambda _done, _total: None)

    judge(three_nodes, load, topic)
    assert EVENTS <= load.sent == load.done
    assert sent_before_the_move_ended < load.done
    assert added.id in {node for part in with_four.partitions for node in part.replicas}
    assert {1, 2, 3} == {
        node for part in topics.describe(three_nodes.admin(), topic).partitions for node in part.replicas
    }
    assert [1, 2, 3] == [node.id for node in kafka_cluster.describe(three_nodes.admin()).nodes]


def test_a_topic_with_too_few_replicas_in_sync_refuses_writes_instead_of_risking_them(
    three_nodes: RunningKafka, topic: str
) -> None:
    # With two of three controllers gone nothing at all would be answered; with min.insync 3 one is enough.
    topics.alter_config(three_nodes.admin(), topic, {"min.insync.replicas": "3"})
    kill(three_nodes, 3)
    until(lambda: not in_sync(three_nodes))

    producer = Producer(three_nodes.connection, ProducerOptions(delivery_timeout_ms=2000))
    producer.send(topic, "too few replicas")
    with pytest.raises(DeliveryFailed):
        producer.flush()
    three_nodes.cluster.up(LocalCluster())
    until(lambda: in_sync(three_nodes))
    with Producer(three_nodes.connection) as producer:
        producer.send(topic, "enough replicas")

    # A leader that has not noticed yet takes a record, and then does not acknowledge it.
    assert b"enough replicas" in [each.value() for each in read_all(three_nodes.connection, topic)]


def test_the_default_of_three_nodes_is_three_replicas_of_which_two_must_be_in_sync(three_nodes: RunningKafka) -> None:
    three_nodes.cluster.up(LocalCluster())
    topic = three_nodes.topic("defaults")

    assert [3] == [len(part.replicas) for part in topics.describe(three_nodes.admin(), topic).partitions]
    assert "2" == topics.config(three_nodes.admin(), topic)["min.insync.replicas"][0]


@pytest.mark.soak
def test_a_restart_of_a_node_under_load_is_not_noticed(three_nodes: RunningKafka, topic: str) -> None:
    with LoadGenerator(three_nodes.connection, topic, 10_000) as load:
        wait_for_progress(load, 0.4, until)
        three_nodes.cluster.restart(2)
        sent_before_it_was_back = load.done

    judge(three_nodes, load, topic)
    assert sent_before_it_was_back < load.sent == load.done


def test_a_topic_that_one_node_has_made_is_found_through_every_other_at_once(three_nodes: RunningKafka) -> None:
    three_nodes.cluster.up(LocalCluster())
    connection = three_nodes.connection
    through = [
        connection.model_copy(update={"bootstrap_servers": one}) for one in connection.bootstrap_servers.split(",")
    ]
    makers, seekers = [Admin(each) for each in through], [Admin(each) for each in through]

    for number in range(20):
        name = f"new-{number}"
        topics.create(makers[number % 3], name, TopicSpec(partitions=3, replication=3))
        for seeker in seekers:
            assert "delete" == topics.config(seeker, name)["cleanup.policy"][0]
            assert 3 == topics.partition_count(seeker, name)
            assert [name] == list(topics.identify(seeker, [name]))


def test_a_topic_that_is_on_no_node_is_missed_before_long(three_nodes: RunningKafka) -> None:
    three_nodes.cluster.up(LocalCluster())

    with pytest.raises(NotFound):
        topics.partition_count(three_nodes.admin(), "nowhere")
