import pytest

from penstock.errors import BadInput, Conflict, NotFound
from penstock.kafka import apply, cluster, topics
from penstock.kafka.positions import Position
from penstock.kafka.producer import Producer, ProducerOptions
from penstock.kafka.reader import Reader, read_all, read_one
from penstock.kafka.topic_spec import TopicSpec

from conftest import RunningKafka
from support.waiting import until

pytestmark = pytest.mark.clients


def test_a_topic_is_described_with_its_id_leaders_and_offsets(kafka: RunningKafka) -> None:
    topic = kafka.topic(partitions=2, retention="7d", cleanup="both")
    with Producer(kafka.connection) as producer:
        producer.send(topic, "x", key="k", partition=1)

    detail = topics.describe(kafka.admin(), topic)

    assert [(0, 1, [1], [1], 0, 0), (1, 1, [1], [1], 0, 1)] == [
        (p.partition, p.leader, p.replicas, p.isr, p.start, p.end) for p in detail.partitions
    ]
    assert {"cleanup.policy": "compact,delete", "retention.ms": "604800000"} == detail.config


def test_a_topic_made_again_under_its_name_has_another_id(kafka: RunningKafka) -> None:
    topic = kafka.topic()
    admin = kafka.admin()
    first = topics.describe(admin, topic).topic_id

    topics.delete(admin, topic)
    topics.create(admin, topic, TopicSpec())

    assert first != topics.describe(admin, topic).topic_id


def test_settings_change_and_go_back_to_the_default(kafka: RunningKafka) -> None:
    topic = kafka.topic(retention_size="1GB")
    admin = kafka.admin()

    topics.alter_config(admin, topic, {"retention.ms": "60000", "retention.bytes": None})
    until(lambda: topics.describe(admin, topic).config == {"retention.ms": "60000"})


def test_a_topic_grows_but_does_not_shrink(kafka: RunningKafka) -> None:
    topic = kafka.topic(partitions=2)
    admin = kafka.admin()

    topics.add_partitions(admin, topic, 5)

    assert topics.partition_count(admin, topic) == 5
    with pytest.raises(BadInput, match="cannot take partitions away"):
        topics.add_partitions(admin, topic, 3)


def test_purging_deletes_records_and_keeps_the_topic(kafka: RunningKafka) -> None:
    topic = kafka.topic()
    with Producer(kafka.connection) as producer:
        producer.send_many(topic, [{"value": str(n)} for n in range(10)])

    topics.purge(kafka.admin(), topic, {0: 7})
    some_left = [m.value() for m in read_all(kafka.connection, topic)]
    topics.purge(kafka.admin(), topic)

    assert [b"7", b"8", b"9"] == some_left
    assert [] == read_all(kafka.connection, topic)


def test_a_compacted_topic_is_not_purged(kafka: RunningKafka) -> None:
    topic = kafka.topic(cleanup="compact")

    with pytest.raises(Conflict, match="compacted only"):
        topics.purge(kafka.admin(), topic)


@pytest.mark.parametrize("name", ["", "with space", "slash/slash", "x" * 250, ".."], ids=repr)
def test_an_illegal_name_is_bad_input(kafka: RunningKafka, name: str) -> None:
    with pytest.raises(BadInput):
        topics.create(kafka.admin(), name, TopicSpec())


def test_an_illegal_name_is_answered_with_a_legal_one(kafka: RunningKafka) -> None:
    with pytest.raises(BadInput, match=r"Write it as: penstock topic create my-topic$"):
        topics.create(kafka.admin(), "my topic!", TopicSpec())


def test_a_topic_that_is_there_already_is_a_conflict(kafka: RunningKafka) -> None:
    topic = kafka.topic()

    with pytest.raises(Conflict, match="already"):
        topics.create(kafka.admin(), topic, TopicSpec())


def test_more_copies_than_nodes_is_bad_input(kafka: RunningKafka) -> None:
    with pytest.raises(BadInput, match=r"cannot have 3 replicas: the cluster has 1 node\..* Leave the replicas out"):
        topics.create(kafka.admin(), "too-many-copies", TopicSpec(replication=3))


def test_unknown_topics_are_not_found(kafka: RunningKafka) -> None:
    admin = kafka.admin()

    for call in (topics.describe, topics.delete, topics.purge, topics.partition_count):
        with pytest.raises(NotFound):
            call(admin, "no-such-topic")
    with pytest.raises(NotFound):
        topics.alter_config(admin, "no-such-topic", {"retention.ms": "1"})


def test_apply_makes_grows_and_changes_and_then_has_nothing_to_do(kafka: RunningKafka) -> None:
    admin = kafka.admin()
    there = kafka.topic("there", retention="1d")
    wanted = {
        there: TopicSpec(partitions=3, retention="2d"),
        f"{there}-new": TopicSpec(partitions=2, cleanup="compact"),
    }

    plan = apply.plan(admin, wanted)
    apply.carry_out(admin, plan, wanted)
    until(lambda: {"keep"} == {change.action for change in apply.plan(admin, wanted)})

    assert [(there, "add partitions"), (there, "change"), (f"{there}-new", "create")] == [
        (change.topic, change.action) for change in plan
    ]
    assert [False, False, False] == [change.deletes_records for change in plan]


def test_apply_says_when_shorter_retention_may_delete_records(kafka: RunningKafka) -> None:
    topic = kafka.topic(retention="2d")

    (change,) = apply.plan(kafka.admin(), {topic: TopicSpec(retention="1d")})

    assert change.deletes_records


def test_apply_refuses_to_take_partitions_away_before_it_changes_anything(kafka: RunningKafka) -> None:
    topic = kafka.topic(partitions=3)
    wanted = {f"{topic}-new": TopicSpec(), topic: TopicSpec(partitions=2)}

    with pytest.raises(BadInput, match="cannot take any away"):
        apply.plan(kafka.admin(), wanted)


def test_the_cluster_shows_its_nodes_and_that_every_replica_is_in_sync(kafka: RunningKafka) -> None:
    detail = cluster.describe(kafka.admin())

    assert [1] == [node.id for node in detail.nodes]
    assert ([], []) == (detail.under_replicated, detail.offline)


def test_a_reader_takes_any_offset_range_of_a_topic(kafka: RunningKafka) -> None:
    topic = kafka.topic(retention="forever")
    with Producer(kafka.connection) as producer:
        for number in range(100):
            producer.send(topic, str(number), timestamp_ms=1_700_000_000_000 + number)

    def read(start: Position, end: Position) -> list[int]:
        with Reader(kafka.connection, topic, start=start, end=end) as reader:
            return [int(message.value() or b"") for message in reader]

    assert list(range(10, 20)) == read(Position("offset", 10), Position("offset", 20))
    assert list(range(97, 100)) == read(Position("before_end", 3), Position("latest"))
    assert list(range(50, 60)) == read(
        Position("timestamp", 1_700_000_000_050), Position("timestamp", 1_700_000_000_060)
    )
    assert [] == read(Position("latest"), Position("latest"))


def test_a_reader_ends_behind_an_aborted_transaction_and_does_not_show_it(kafka: RunningKafka) -> None:
    topic = kafka.topic()
    with Producer(kafka.connection, ProducerOptions(transactional_id=f"{topic}-tx")) as producer:
        with producer.transaction() as transaction:
            transaction.send(topic, "seen")
        with pytest.raises(KeyError), producer.transaction() as transaction:
            transaction.send(topic, "never seen")
            producer.flush()
            raise KeyError

    assert [b"seen"] == [m.value() for m in read_all(kafka.connection, topic)]


def test_one_record_is_read_by_its_offset_and_a_hole_is_none_whatever_comes_behind_it(kafka: RunningKafka) -> None:
    topic = kafka.topic()
    with Producer(kafka.connection, ProducerOptions(transactional_id=f"{topic}-tx")) as producer:
        for value in ("first", "second"):
            with producer.transaction() as transaction:
                transaction.send(topic, value)
    found = [read_one(kafka.connection, topic, 0, offset) for offset in range(5)]

    assert [b"first", None, b"second", None, None] == [each.value() if each else None for each in found]
