import json
import threading
from collections import Counter
from contextlib import suppress
from itertools import islice

import pytest

from penstock.errors import BrokerUnavailable, Conflict, NotFound, OwnershipLost
from penstock.kafka import groups, topics
from penstock.kafka.admin import Admin
from penstock.kafka.consumer import Consumer, ConsumerOptions
from penstock.kafka.positions import LATEST, Position
from penstock.kafka.producer import Producer, ProducerOptions
from penstock.kafka.reader import read_all

from conftest import Cli, RunningKafka
from support.raw_records import RawRecord, send_raw
from support.waiting import until

pytestmark = pytest.mark.clients


def fill(kafka: RunningKafka, topic: str, count: int, *, first: int = 0, partition: int = -1) -> None:
    with Producer(kafka.connection) as producer:
        producer.send_many(topic, [{"value": str(n)} for n in range(first, first + count)], partition=partition)


def drain(consumer: Consumer, count: int, *, commit: bool = True) -> list[int]:
    seen: list[int] = []
    for batch in consumer.batches(max_events=100, max_wait_s=0.1, idle_s=120):
        seen += [int(message.value() or b"") for message in batch]
        if commit:
            batch.commit()
        if len(seen) >= count:
            break
    return seen


def test_what_is_committed_after_processing_is_not_read_again(kafka: RunningKafka) -> None:
    topic = kafka.topic()
    fill(kafka, topic, 250)

    with Consumer(kafka.connection, [topic], f"{topic}-group") as consumer:
        first = drain(consumer, 200)
    with Consumer(kafka.connection, [topic], f"{topic}-group") as consumer:
        rest = drain(consumer, 250 - len(first))

    assert list(range(250)) == first + rest
    assert groups.describe(kafka.admin(), f"{topic}-group").lag == 0


def test_what_is_not_committed_comes_again(kafka: RunningKafka) -> None:
    topic = kafka.topic()
    fill(kafka, topic, 50)

    with Consumer(kafka.connection, [topic], f"{topic}-group") as consumer:
        drain(consumer, 50, commit=False)
    with Consumer(kafka.connection, [topic], f"{topic}-group") as consumer:
        again = drain(consumer, 50)

    assert list(range(50)) == again


def test_automatic_commits_move_the_group_when_it_closes(kafka: RunningKafka) -> None:
    topic = kafka.topic()
    fill(kafka, topic, 50)

    with Consumer(kafka.connection, [topic], f"{topic}-group", ConsumerOptions(commit="automatic")) as consumer:
        drain(consumer, 50, commit=False)

    assert {(topic, 0): 50} == groups.committed(kafka.admin(), f"{topic}-group")


def test_batches_are_bounded_by_size_and_by_time(kafka: RunningKafka) -> None:
    topic = kafka.topic()
    fill(kafka, topic, 25)

    sizes = []
    with Consumer(kafka.connection, [topic], f"{topic}-group") as consumer:
        for batch in consumer.batches(max_events=10, max_wait_s=0.5, idle_s=120):
            sizes.append(len(batch))
            if sum(sizes) == 25:
                break

    assert max(sizes) <= 10
    assert sum(sizes) == 25


def test_a_new_group_starts_at_an_offset(kafka: RunningKafka) -> None:
    topic = kafka.topic()
    fill(kafka, topic, 20)

    with Consumer(kafka.connection, [topic], f"{topic}-group", start=Position("offset", 15)) as consumer:
        seen = drain(consumer, 5)

    assert [15, 16, 17, 18, 19] == seen


def test_a_new_group_starts_at_a_time(kafka: RunningKafka) -> None:
    topic = kafka.topic(retention="forever")
    with Producer(kafka.connection) as producer:
        for number in range(10):
            producer.send(topic, str(number), timestamp_ms=1_700_000_000_000 + number * 1000)

    start = Position("timestamp", 1_700_000_000_000 + 6500)
    with Consumer(kafka.connection, [topic], f"{topic}-group", start=start) as consumer:
        seen = drain(consumer, 3)

    assert [7, 8, 9] == seen


def test_a_group_that_starts_at_latest_skips_nothing_that_comes_after_its_first_start(kafka: RunningKafka) -> None:
    topic = kafka.topic()
    fill(kafka, topic, 10)

    with Consumer(kafka.connection, [topic], f"{topic}-group", start=LATEST) as consumer:
        for _ in consumer.batches(max_wait_s=0.1, idle_s=0.5):
            pytest.fail("there was nothing after the start yet")
    fill(kafka, topic, 5, first=10)
    with Consumer(kafka.connection, [topic], f"{topic}-group", start=LATEST) as consumer:
        seen = drain(consumer, 5)

    assert [10, 11, 12, 13, 14] == seen


def test_partitions_added_later_are_read_from_their_beginning_even_by_a_group_that_started_at_latest(
    kafka: RunningKafka,
) -> None:
    topic = kafka.topic()
    fill(kafka, topic, 10)
    with Consumer(kafka.connection, [topic], f"{topic}-group", start=LATEST) as consumer:
        for _ in consumer.batches(max_wait_s=0.1, idle_s=0.2):
            pytest.fail("there was nothing after the start yet")

    topics.add_partitions(kafka.admin(), topic, 2)
    fill(kafka, topic, 5, first=100, partition=1)
    with Consumer(kafka.connection, [topic], f"{topic}-group", start=LATEST) as consumer:
        seen = drain(consumer, 5)

    assert [100, 101, 102, 103, 104] == seen


def test_records_deleted_before_they_were_read_stop_the_consumer_instead_of_being_skipped(kafka: RunningKafka) -> None:
    topic = kafka.topic()
    fill(kafka, topic, 10)
    with Consumer(kafka.connection, [topic], f"{topic}-group") as consumer:
        drain(consumer, 10)
    fill(kafka, topic, 10, first=10)
    topics.purge(kafka.admin(), topic, {0: 15})

    with (
        Consumer(kafka.connection, [topic], f"{topic}-group") as consumer,
        pytest.raises(Conflict, match="deleted records that it had not read"),
    ):
        drain(consumer, 1)

    assert {(topic, 0): 10} == groups.committed(kafka.admin(), f"{topic}-group")


def test_a_partition_added_and_purged_before_it_was_read_stops_the_group_until_somebody_accepts_the_gap(
    kafka: RunningKafka, cli: Cli
) -> None:
    topic = kafka.topic()
    group = f"{topic}-group"
    fill(kafka, topic, 3)
    with Consumer(kafka.connection, [topic], group) as consumer:
        drain(consumer, 3)
    topics.add_partitions(kafka.admin(), topic, 2)
    fill(kafka, topic, 5, first=100, partition=1)
    topics.purge(kafka.admin(), topic, {1: 4})

    with (
        Consumer(kafka.connection, [topic], group) as consumer,
        pytest.raises(Conflict, match=f"position of group '{group}' in {topic}/1 is gone") as stopped,
    ):
        drain(consumer, 1)
    advised = str(stopped.value.fix).partition("penstock ")[2].split()
    moved = cli(*advised, home=kafka.home)
    with Consumer(kafka.connection, [topic], group) as consumer:
        rest = drain(consumer, 1)

    assert 0 == moved.code, moved.err
    assert [104] == rest


def test_a_header_whose_name_is_no_utf_8_costs_its_record_the_headers_and_nobody_the_process(
    kafka: RunningKafka, cli: Cli
) -> None:
    topic = kafka.topic()
    hostile = RawRecord(b"2", headers=[(b"good", b"x"), (b"\xff", b"y")])
    send_raw(kafka.connection, topic, RawRecord(b"1", headers=[(b"a", b"\xff")]), hostile, RawRecord(b"3"))

    with Consumer(kafka.connection, [topic], f"{topic}-group") as consumer:
        as_group = [(each.value(), each.headers() or [], each.headers() or []) for each in islice(consumer, 3)]
    alone = [(each.value(), each.headers() or []) for each in read_all(kafka.connection, topic)]
    said = [
        cli("consume", topic, "--json", *options, home=kafka.home)
        for options in ([], ["--group", f"{topic}-other"], ["--header", "none=x"])
    ]

    kept = [("a", b"\xff")]
    assert [(b"1", kept, kept), (b"2", [], []), (b"3", [], [])] == as_group
    assert [(b"1", kept), (b"2", []), (b"3", [])] == alone
    assert [0, 0, 0] == [each.code for each in said]
    assert [["1", "2", "3"], ["1", "2", "3"], []] == [
        [json.loads(line)["value"] for line in each.out.splitlines()] for each in said
    ]


def test_two_members_share_the_partitions_and_see_them_come_and_go(kafka: RunningKafka) -> None:
    topic = kafka.topic(partitions=4)
    owned: dict[str, list[str]] = {"first": [], "second": []}

    def member(name: str, seen: Counter[int]) -> None:
        with Consumer(
            kafka.connection,
            [topic],
            f"{topic}-group",
            on_assigned=lambda partitions: owned[name].extend(f"+{number}" for _, number in partitions),
            on_revoked=lambda partitions: owned[name].extend(f"-{number}" for _, number in partitions),
        ) as consumer:
            members[name] = consumer
            for batch in consumer.batches(max_wait_s=0.1, idle_s=120):
                seen.update(int(message.value() or b"") for message in batch)
                batch.commit()

    members: dict[str, Consumer] = {}
    seen: dict[str, Counter[int]] = {"first": Counter(), "second": Counter()}
    threads = {name: threading.Thread(target=member, args=(name, seen[name])) for name in seen}
    threads["first"].start()
    until(lambda: len(owned["first"]) == 4)
    threads["second"].start()
    until(lambda: len(owned["second"]) == 2)
    for number in range(4):
        fill(kafka, topic, 250, first=number * 250, partition=number)
    until(lambda: seen["first"].total() + seen["second"].total() >= 1000)
    for name, thread in threads.items():
        members[name].stop()
        thread.join(60)

    assert 2 == sum(each.startswith("-") for each in owned["first"][:6])
    assert Counter(range(1000)) == seen["first"] + seen["second"]
    assert all(seen.values())


def test_a_commit_after_losing_the_partitions_is_refused_and_the_consumer_can_go_on(kafka: RunningKafka) -> None:
    topic = kafka.topic()
    fill(kafka, topic, 10)
    options = ConsumerOptions(max_poll_interval_ms=6000, session_timeout_ms=6000)

    with Consumer(kafka.connection, [topic], f"{topic}-group", options) as slow:
        batch = next(slow.batches(max_wait_s=0.1))
        with Consumer(kafka.connection, [topic], f"{topic}-group") as other:
            taken_over = drain(other, 10)
        with pytest.raises(OwnershipLost, match="moved to another member"):
            batch.commit()
        fill(kafka, topic, 5, first=10)
        back_again: list[int] = []
        for batch in slow.batches(max_wait_s=0.1, idle_s=120):
            # What it had fetched before it noticed is handed out, refused at the commit, and comes again.
            with suppress(OwnershipLost):
                batch.commit()
                back_again += [int(message.value() or b"") for message in batch]
            if len(back_again) >= 5:
                break

    assert list(range(10)) == taken_over
    assert [10, 11, 12, 13, 14] == back_again
    assert {(topic, 0): 15} == groups.committed(kafka.admin(), f"{topic}-group")


def test_a_second_consumer_with_the_same_instance_id_takes_the_place_of_the_first(kafka: RunningKafka) -> None:
    topic = kafka.topic()
    options = ConsumerOptions(instance_id="the-only-one")
    with Producer(kafka.connection) as producer:
        producer.send(topic, "seen by both")

    with Consumer(kafka.connection, [topic], f"{topic}-group", options) as first:
        assert 1 == len(next(first.batches(max_wait_s=0.2)))
        with Consumer(kafka.connection, [topic], f"{topic}-group", options) as second:
            assert 1 == len(next(second.batches(max_wait_s=0.2)))
            with pytest.raises(Conflict, match="another consumer with the same instance_id has taken"):
                next(first.batches(max_wait_s=0.2))


def test_output_and_position_move_together_in_a_transaction(kafka: RunningKafka) -> None:
    source, target = kafka.topic("source"), kafka.topic("target")
    fill(kafka, source, 100)

    with (
        Consumer(kafka.connection, [source], f"{source}-group") as consumer,
        Producer(kafka.connection, ProducerOptions(transactional_id=f"{source}-copy")) as producer,
    ):
        batch = next(consumer.batches(max_events=100, max_wait_s=0.5))
        with pytest.raises(ZeroDivisionError), producer.transaction() as transaction:
            transaction.send(target, "doomed")
            transaction.send_offsets(*consumer.for_transaction(batch))
            _ = 1 / 0
        after_abort = groups.committed(kafka.admin(), f"{source}-group")
        with producer.transaction() as transaction:
            for message in batch:
                transaction.send(target, message.value())
            transaction.send_offsets(*consumer.for_transaction(batch))

    assert {(source, 0): 0} == after_abort
    # Kafka shows a position that a transaction moved a moment after the commit.
    until(lambda: {(source, 0): len(batch)} == groups.committed(kafka.admin(), f"{source}-group"))
    assert [m.value() for m in batch] == [m.value() for m in read_all(kafka.connection, target)]


def test_a_misspelt_topic_is_an_error_at_once(kafka: RunningKafka) -> None:
    with pytest.raises(NotFound, match="no-such-topic"):
        Consumer(kafka.connection, ["no-such-topic"], "anybody")


def test_an_idle_consumer_outlives_a_restart_of_the_broker(kafka: RunningKafka) -> None:
    topic = kafka.topic()
    fill(kafka, topic, 1)
    with Consumer(kafka.connection, [topic], f"{topic}-group") as consumer:
        before = drain(consumer, 1)
        kafka.restart()
        batches = consumer.batches(max_wait_s=0.1, idle_s=3)
        while_idle = [len(batch) for batch in batches]
        fill(kafka, topic, 5, first=1)
        after = drain(consumer, 5)

    assert ([0], [], [1, 2, 3, 4, 5]) == (before, while_idle, after)


def test_an_outage_in_the_middle_of_a_rebalance_is_waited_out(
    kafka: RunningKafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = kafka.topic()
    fill(kafka, topic, 20)
    node = kafka.cluster.node(1).process()
    assert node is not None
    ask = groups.committed
    refused: list[Exception] = []

    def ask_while_the_node_hangs(
        admin: Admin, group: str, partitions: list[tuple[str, int]]
    ) -> dict[tuple[str, int], int]:
        if refused:
            return ask(admin, group, partitions)
        admin.timeout_s = 1.0
        node.suspend()
        try:
            return ask(admin, group, partitions)
        except BrokerUnavailable as outage:
            refused.append(outage)
            raise
        finally:
            node.resume()

    with Consumer(kafka.connection, [topic], f"{topic}-group") as consumer:
        monkeypatch.setattr(groups, "committed", ask_while_the_node_hangs)
        seen = drain(consumer, 20)

    assert list(range(20)) == seen
    assert 1 == len(refused)
