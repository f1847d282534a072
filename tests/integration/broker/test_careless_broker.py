"""A broker that makes every topic that somebody asks for, and forgets what is not used."""

import threading
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from penstock.config.local_connection import local_connection, require_own
from penstock.delivery.dead_letters import make_topics
from penstock.delivery.ledger import TOPIC, Ledger
from penstock.driver import runner as runners
from penstock.driver.paths import Progress
from penstock.errors import Conflict, NotFound, SinkUnavailable
from penstock.kafka import groups, topics
from penstock.kafka.connection import Connection
from penstock.kafka.consumer import Consumer
from penstock.kafka.reader import Reader, read_all
from penstock.kafka.topic_spec import TopicSpec

from conftest import Cli, RunningKafka
from support.pipelines import Lab
from support.waiting import until

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NEVER_EXPIRES = {"cleanup.policy": "delete", "retention.ms": "-1", "retention.bytes": "-1"}


@pytest.fixture
def careless(careless_kafka: RunningKafka, spark: "SparkSession", tmp_path: Path) -> Lab:
    return Lab(careless_kafka, spark, tmp_path)


def settings(kafka: RunningKafka, topic: str, *names: str) -> dict[str, str]:
    found = topics.config(kafka.admin(), topic)
    return {name: found[name][0] for name in names}


def test_a_node_whose_port_another_kafka_has_taken_is_named_although_its_own_cluster_answers(
    kafka: RunningKafka, careless_kafka: RunningKafka, tmp_path: Path
) -> None:
    known, stranger = kafka.cluster.existing(), careless_kafka.cluster.existing()
    gone = known.nodes[0].model_copy(update={"id": 2, "client_port": stranger.nodes[0].client_port})
    known.model_copy(update={"nodes": (*known.nodes, gone)}).save(tmp_path)
    server = careless_kafka.connection.bootstrap_servers
    require_own(kafka.cluster.folder, kafka.connection, str)

    # A client asks its servers in an order of its own: each time another one may be the first.
    for _ in range(6):
        with pytest.raises(Conflict, match=f"the Kafka at {server} is not this project's: .* {stranger.cluster_id}"):
            require_own(tmp_path, local_connection(tmp_path), str)


def test_looking_for_a_topic_does_not_make_it(careless_kafka: RunningKafka, cli: Cli) -> None:
    connection, admin = careless_kafka.connection, careless_kafka.admin()

    with pytest.raises(NotFound):
        topics.partition_count(admin, "looked-for")
    with pytest.raises(NotFound):
        topics.describe(admin, "looked-for")
    with pytest.raises(NotFound):
        read_all(connection, "looked-for")
    with pytest.raises(NotFound):
        Consumer(connection, ["looked-for"], "a-group")
    assert {} == Ledger(connection).entries().settled
    assert 0 == cli("dead", "list", home=careless_kafka.home).code
    gone = careless_kafka.topic("gone")
    topics.delete(admin, gone)

    assert {"looked-for", TOPIC, gone}.isdisjoint(each.topic for each in topics.list_topics(careless_kafka.admin()))


def test_a_dead_letter_topic_that_kafka_made_by_itself_gets_the_right_settings(careless: Lab) -> None:
    topic = careless.kafka.topic("careless")
    topics.create(careless.kafka.admin(), f"{topic}.dead", TopicSpec(partitions=1))
    careless.send(topic, b"no json")

    careless.run(careless.spec(topic))

    assert NEVER_EXPIRES == settings(careless.kafka, f"{topic}.dead", *NEVER_EXPIRES)
    assert [0] == [letter.offset for letter in careless.letters(topic)]


def test_a_dead_letter_topic_to_which_somebody_gave_an_expiry_is_refused(careless_kafka: RunningKafka) -> None:
    name = careless_kafka.topic("expiring.dead", retention="7d")

    with pytest.raises(Conflict, match=rf"retention.ms 604800000 .* penstock topic alter {name} --unset retention.ms"):
        make_topics(careless_kafka.admin(), {name: 1})


def test_a_ledger_that_kafka_made_by_itself_is_compacted_before_anything_is_settled(
    careless: Lab,
) -> None:
    topic = careless.kafka.topic("settled")
    careless.send(topic, b"no json")
    careless.run(careless.spec(topic))
    topics.create(careless.kafka.admin(), TOPIC, TopicSpec(partitions=1))

    ledger = Ledger(careless.connection)
    ledger.discard(careless.letters(topic))

    assert {"cleanup.policy": "compact"} == settings(careless.kafka, TOPIC, "cleanup.policy")
    assert ["discarded"] == [each.state for each in ledger.entries().settled.values()]
    topics.delete(careless.kafka.admin(), TOPIC)


def positions(lab: Lab, topic: str, sink: str) -> dict[tuple[str, int], int]:
    """Read what Kafka has of a sink's positions, whatever they are said to be true of."""
    return groups.committed(lab.kafka.admin(), f"penstock.{topic}.{sink}")


def has_positions(lab: Lab, topic: str, sink: str) -> bool:
    return bool(positions(lab, topic, sink))


def has_no_positions(lab: Lab, topic: str, sink: str) -> bool:
    return not positions(lab, topic, sink)


def forget(lab: Lab, topic: str, sink: str) -> None:
    """Let Kafka forget a sink's positions, as it does by itself after `offsets.retention.minutes`."""
    admin = lab.kafka.admin()
    admin.results(admin.client.delete_consumer_groups([f"penstock.{topic}.{sink}"]), "forgetting")


def is_forgotten(connection: Connection, transactional_id: str) -> bool:
    """Return whether Kafka has struck the id off its own record."""
    with Reader(connection, "__transaction_state", committed_only=False) as reader:
        last = {message.key(): message.value() for message in reader}
    return [None] == [value for key, value in last.items() if transactional_id.encode() in (key or b"")]


def into_kafka(lab: Lab, topic: str) -> list[dict[str, str]]:
    return [{"type": "delta", "path": str(lab.table)}, {"type": "kafka", "topic": lab.kafka.topic(f"{topic}-out")}]


@pytest.mark.soak
def test_a_driver_whose_transactional_ids_and_positions_kafka_has_forgotten_goes_on(careless: Lab) -> None:
    topic = careless.kafka.topic("quiet")
    spec = careless.spec(topic, speed="stream", sinks=into_kafka(careless, topic))
    careless.send_ids(topic, range(3))
    waited_for: list[str] = []

    def quiet_week(progress: Progress) -> None:
        if progress.waiting_for:
            waited_for.append(progress.waiting_for)
        elif progress.report is not None and progress.report.batch == 1:
            for sink in ("dead", "kafka"):
                until(partial(is_forgotten, careless.connection, f"penstock.{topic}.{sink}"))
                forget(careless, topic, sink)
            careless.send_ids(topic, range(3, 6))
        elif progress.report is not None:
            runner.stopping.set()

    with careless.runner(spec) as runner:
        runner.run(quiet_week)

    assert list(range(6)) == careless.ids()
    assert 6 == len(read_all(careless.connection, spec.sinks[1].topic))  # type: ignore[union-attr]
    assert waited_for
    assert all("Kafka has forgotten the transactional id" in each for each in waited_for)


def test_an_idle_partition_that_kafka_forgot_is_no_loss_when_a_batch_elsewhere_is_tried_again(
    careless: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = careless.kafka.topic("idle", partitions=2)
    spec = careless.spec(topic)
    careless.send_ids(topic, range(3), partition=0)
    careless.send_ids(topic, range(3, 6), partition=1)
    careless.run(spec)
    forget(careless, topic, "dead")
    careless.send_ids(topic, range(6, 9), partition=0)

    with careless.runner(spec) as runner:
        commit = runner.sinks[0].commit

        def blip() -> None:
            monkeypatch.undo()
            assert commit == runner.sinks[0].commit
            raise SinkUnavailable("away for a moment")

        monkeypatch.setattr(runner.sinks[0], "commit", blip)
        runner.run(lambda _progress: None)

    assert list(range(9)) == careless.ids()
    assert [3, 6] == sorted(positions(careless, topic, "dead").values())


def test_a_driver_with_nothing_to_do_keeps_kafka_from_forgetting_its_positions(
    careless: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runners, "_REFRESH_S", 0.2)
    topic = careless.kafka.topic("resting")
    spec = careless.spec(topic, speed="stream", sinks=into_kafka(careless, topic))
    careless.send_ids(topic, range(3))
    is_done = threading.Event()

    def tell(progress: Progress) -> None:
        if progress.report is not None:
            is_done.set()

    with careless.runner(spec) as runner:
        driver = threading.Thread(target=runner.run, args=[tell])
        driver.start()
        try:
            until(is_done.is_set)
            for sink in ("dead", "kafka"):
                forget(careless, topic, sink)
                until(partial(has_positions, careless, topic, sink))
        finally:
            runner.stopping.set()
            driver.join()


@pytest.mark.soak
def test_a_driver_that_rests_for_longer_than_kafka_remembers_goes_on(careless: Lab) -> None:
    topic = careless.kafka.topic("week", partitions=2)
    spec = careless.spec(topic, speed="stream", sinks=into_kafka(careless, topic))
    careless.send_ids(topic, range(3), partition=0)
    careless.send_ids(topic, range(3, 6), partition=1)

    def quiet_week(progress: Progress) -> None:
        if progress.report is None:
            return
        if 3 in careless.ids() and 6 not in careless.ids():
            for sink in ("dead", "kafka"):
                until(partial(has_no_positions, careless, topic, sink), timeout_s=120)
            careless.send_ids(topic, range(6, 9), partition=1)
        elif 6 in careless.ids():
            runner.stopping.set()

    with careless.runner(spec) as runner:
        runner.run(quiet_week)

    assert list(range(9)) == careless.ids()
    assert 9 == len(read_all(careless.connection, spec.sinks[1].topic))  # type: ignore[union-attr]
