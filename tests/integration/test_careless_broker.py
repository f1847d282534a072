"""A broker that makes every topic that somebody asks for, and forgets what is not used."""

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from penstock.delivery.dead_letters import make_topics
from penstock.delivery.ledger import TOPIC, Ledger
from penstock.errors import Conflict, NotFound
from penstock.kafka import topics
from penstock.kafka.consumer import Consumer
from penstock.kafka.reader import read_all
from penstock.kafka.topic_spec import TopicSpec

from conftest import Cli, RunningKafka
from support.pipelines import Lab

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NEVER_EXPIRES = {"cleanup.policy": "delete", "retention.ms": "-1", "retention.bytes": "-1"}


@pytest.fixture
def careless(careless_kafka: RunningKafka, spark: "SparkSession", tmp_path: Path) -> Lab:
    return Lab(careless_kafka, spark, tmp_path)


def settings(kafka: RunningKafka, topic: str, *names: str) -> dict[str, str]:
    found = topics.config(kafka.admin(), topic)
    return {name: found[name][0] for name in names}


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
