import pytest

from penstock.errors import Conflict, NotFound
from penstock.kafka import groups
from penstock.kafka.consumer import Consumer
from penstock.kafka.positions import EARLIEST, LATEST, Position
from penstock.kafka.producer import Producer

from conftest import RunningKafka
from support.waiting import until

pytestmark = pytest.mark.clients


@pytest.fixture
def topic(kafka: RunningKafka) -> str:
    name = kafka.topic(partitions=2, retention="forever")
    with Producer(kafka.connection) as producer:
        for partition in (0, 1):
            for number in range(100):
                producer.send(name, "x", partition=partition, timestamp_ms=1_700_000_000_000 + number)
    return name


def partitions(topic: str) -> list[tuple[str, int]]:
    return [(topic, 0), (topic, 1)]


def test_lag_is_counted_per_partition_and_in_all(kafka: RunningKafka, topic: str) -> None:
    groups.commit(kafka.admin(), f"{topic}-group", {(topic, 0): 90, (topic, 1): 25})

    detail = groups.describe(kafka.admin(), f"{topic}-group")

    assert [(0, 90, 10), (1, 25, 75)] == [(p.partition, p.committed, p.lag) for p in detail.partitions]
    assert (85, "empty") == (detail.lag, detail.state)


def test_members_are_shown_with_what_they_own(kafka: RunningKafka, topic: str) -> None:
    with Consumer(kafka.connection, [topic], f"{topic}-group") as consumer:
        next(consumer.batches(max_events=1, max_wait_s=1))
        until(lambda: len(consumer.assignment) == 2)
        detail = groups.describe(kafka.admin(), f"{topic}-group")

    (member,) = detail.members
    assert [f"{topic}/0", f"{topic}/1"] == member.partitions
    assert f"{topic}-group" in {each.group for each in groups.list_groups(kafka.admin())}


@pytest.mark.parametrize(
    ("to", "expected"),
    [
        (EARLIEST, [0, 0]),
        (LATEST, [100, 100]),
        (Position("offset", 42), [42, 42]),
        (Position("timestamp", 1_700_000_000_030), [30, 30]),
        (Position("timestamp", 1_900_000_000_000), [100, 100]),
    ],
    ids=["earliest", "latest", "offset", "timestamp", "a time after the last record"],
)
def test_a_group_is_moved_to_a_position(kafka: RunningKafka, topic: str, to: Position, expected: list[int]) -> None:
    admin, group = kafka.admin(), f"{topic}-group"
    groups.commit(admin, group, {(topic, 0): 50, (topic, 1): 60})

    steps = groups.plan_reset(admin, group, partitions(topic), to=to)
    untouched = groups.committed(admin, group)
    groups.reset(admin, group, steps)

    assert {(topic, 0): 50, (topic, 1): 60} == untouched
    assert dict(zip(partitions(topic), expected, strict=True)) == groups.committed(admin, group)


def test_a_group_is_moved_by_so_many_records_within_what_is_there(kafka: RunningKafka, topic: str) -> None:
    admin, group = kafka.admin(), f"{topic}-group"
    groups.commit(admin, group, {(topic, 0): 50, (topic, 1): 5})

    steps = groups.plan_reset(admin, group, partitions(topic), by=-10)

    assert [("reads again", 10, 40), ("reads again", 5, 0)] == [(s.effect, s.records, s.target) for s in steps]


def test_a_group_is_moved_to_where_another_stands(kafka: RunningKafka, topic: str) -> None:
    admin = kafka.admin()
    groups.commit(admin, f"{topic}-model", {(topic, 0): 7, (topic, 1): 8})

    groups.reset(
        admin, f"{topic}-group", groups.plan_reset(admin, f"{topic}-group", partitions(topic), like=f"{topic}-model")
    )

    assert {(topic, 0): 7, (topic, 1): 8} == groups.committed(admin, f"{topic}-group")


def test_a_group_with_members_is_neither_moved_nor_deleted(kafka: RunningKafka, topic: str) -> None:
    admin, group = kafka.admin(), f"{topic}-group"
    with Consumer(kafka.connection, [topic], group) as consumer:
        next(consumer.batches(max_events=1, max_wait_s=1))
        steps = groups.plan_reset(admin, group, partitions(topic), to=LATEST)
        with pytest.raises(Conflict, match="has members"):
            groups.reset(admin, group, steps)
        with pytest.raises(Conflict, match="has members"):
            groups.commit(admin, group, {(topic, 0): 100})
        with pytest.raises(Conflict):
            groups.delete(admin, group)

    assert {(topic, 0): 0, (topic, 1): 0} == groups.committed(admin, group)


def test_a_deleted_group_is_gone(kafka: RunningKafka, topic: str) -> None:
    admin, group = kafka.admin(), f"{topic}-group"
    groups.commit(admin, group, {(topic, 0): 1})

    groups.delete(admin, group)

    with pytest.raises(NotFound, match="there is no group"):
        groups.describe(admin, group)
    with pytest.raises(NotFound):
        groups.delete(admin, group)
