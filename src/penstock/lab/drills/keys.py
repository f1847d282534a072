"""Keys and partitions: one key, one partition; no key, one partition a batch."""

import zlib
from itertools import pairwise

from confluent_kafka import Message
from confluent_kafka import Producer as Client

from penstock.errors import DeliveryFailed
from penstock.kafka import topics
from penstock.kafka.producer import Producer
from penstock.kafka.reader import read_all
from penstock.lab.drills.drill import Drill, Stage

_PARTITIONS = 6
_MORE_PARTITIONS = 8
_KEYS = tuple(f"customer-{number:03}" for number in range(60))
_ROUNDS = 20
_BURSTS = 40
_BURST = 50
_FLUSH_S = 30.0

PartitionsOfKeys = dict[str, set[int]]


def run(stage: Stage) -> None:
    """Send with and without keys, and look where the records went."""
    topic = stage.topic("orders", partitions=_PARTITIONS)
    with stage.step(
        f"Send {_ROUNDS} records for each of {len(_KEYS)} keys to {_PARTITIONS} partitions",
        expected="all records of a key are in one partition, in the order they were sent",
    ) as step:
        _send_keyed(stage, topic)
        messages = read_all(stage.connection, topic)
        partitions = _partitions_of_keys(messages)
        scattered = sum(len(found) > 1 for found in partitions.values())
        disordered = sum(later < earlier for key in _KEYS for earlier, later in pairwise(_values(messages, key)))
        used = len(set().union(*partitions.values()))
        step.saw(
            f"{len(messages):,} records, {used} partitions used, {scattered} keys in more than one,"
            f" {disordered} records out of order",
            passed=len(messages) == len(_KEYS) * _ROUNDS and not scattered and not disordered,
        )
    with stage.step(
        "Work out the partition of each key by hand",
        expected="CRC32 of the key modulo the partitions, the default of librdkafka, which Penstock keeps",
    ) as step:
        right = sum(partitions[key] == {zlib.crc32(key.encode()) % _PARTITIONS} for key in _KEYS)
        step.saw(f"right for {right} of {len(_KEYS)} keys", passed=right == len(_KEYS))
    _as_java_does(stage, partitions)
    _without_key(stage)
    with stage.step(
        f"Grow the topic to {_MORE_PARTITIONS} partitions and send the same keys again",
        expected="some keys move to another partition: the order of a key holds only since then",
    ) as step:
        topics.add_partitions(stage.admin, topic, _MORE_PARTITIONS)
        stage.settle(topic)
        _send_keyed(stage, topic)
        moved = sum(len(found) > 1 for found in _partitions_of_keys(read_all(stage.connection, topic)).values())
        step.saw(f"{moved} of {len(_KEYS)} keys are in two partitions now", passed=moved > 0)


def _as_java_does(stage: Stage, ours: PartitionsOfKeys) -> None:
    with stage.step(
        "Send the same keys with the partitioner of the Java clients, murmur2",
        expected="one partition a key again, but for most keys another one: do not mix the two on one topic",
    ) as step:
        topic = stage.topic("orders-java", partitions=_PARTITIONS)
        client = Client({**stage.connection.librdkafka(), "partitioner": "murmur2_random"})
        for key in _KEYS:
            client.produce(topic, "0", key)
        if client.flush(_FLUSH_S):
            raise DeliveryFailed("records are not acknowledged")
        theirs = _partitions_of_keys(read_all(stage.connection, topic))
        elsewhere = sum(theirs[key] != ours[key] for key in _KEYS)
        single = all(len(found) == 1 for found in theirs.values())
        step.saw(f"{elsewhere} of {len(_KEYS)} keys are elsewhere", passed=single and elsewhere > 0)


def _without_key(stage: Stage) -> None:
    with stage.step(
        f"Send {_BURSTS} bursts of {_BURST} records without a key, waiting for the answer after each",
        expected="nearly every burst sticks to one partition, so that batches are large; together they use several",
    ) as step:
        topic = stage.topic("clicks", partitions=_PARTITIONS)
        with Producer(stage.connection) as producer:
            # What is sent before the client knows the partitions may be dealt out one by one, once it does.
            producer.send(topic, "first", partition=0)
            producer.flush()
            for burst in range(_BURSTS):
                for _ in range(_BURST):
                    producer.send(topic, str(burst))
                producer.flush()
        partitions: PartitionsOfKeys = {}
        for message in read_all(stage.connection, topic):
            partitions.setdefault(_text(message.value()), set()).add(int(message.partition() or 0))
        partitions.pop("first")
        stuck = sum(len(found) == 1 for found in partitions.values())
        used = len(set().union(*partitions.values()))
        step.saw(
            f"{stuck} of {_BURSTS} bursts lie in one partition, {used} partitions were used"
            f" (dealt out one by one, a burst of {_BURST} would touch all {_PARTITIONS})",
            passed=len(partitions) == _BURSTS and stuck > 0.8 * _BURSTS and used > 1,
        )


def _send_keyed(stage: Stage, topic: str) -> None:
    with Producer(stage.connection) as producer:
        for number in range(_ROUNDS):
            for key in _KEYS:
                producer.send(topic, str(number), key=key)


def _partitions_of_keys(messages: list[Message]) -> PartitionsOfKeys:
    partitions: PartitionsOfKeys = {}
    for message in messages:
        partitions.setdefault(_text(message.key()), set()).add(int(message.partition() or 0))
    return partitions


def _values(messages: list[Message], key: str) -> list[int]:
    """Return the numbers of one key, in the order of its partition."""
    return [int(_text(message.value())) for message in messages if _text(message.key()) == key]


def _text(content: bytes | str | None) -> str:
    return content if isinstance(content, str) else (content or b"").decode()


DRILL = Drill(
    name="keys",
    about="which partition a record goes to: with a key, without one, and after the topic has grown",
    background="""\
Kafka keeps order within a partition only. The client chooses the partition: by a hash of the key,
so that all records of a key stay in order; or, without a key, one partition for a whole batch, then
another ("sticky"), because few large batches are cheaper than many small ones.""",
    run=run,
)
