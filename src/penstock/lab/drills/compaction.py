"""Compaction: the last value of each key stays, a tombstone takes a key away."""

import itertools
import time
from collections.abc import Iterator, Sequence

from confluent_kafka import Message

from penstock.kafka.producer import Producer
from penstock.kafka.reader import read_all
from penstock.lab.drills.drill import Drill, Stage

_KEYS = tuple(f"user-{number}" for number in range(5))
_GONE = _KEYS[0]
_VERSIONS = 40
_SEGMENT_MS = 60_000
# Far enough back that the records never get ahead of the clock, which Kafka refuses.
_WEEK_MS = 7 * 24 * 3_600_000
_FILLER = "filler"
_TOMBSTONE_KEPT_MS = 3000


def run(stage: Stage) -> None:
    """Write many versions, compact; delete a key, compact again."""
    topic = stage.topic(
        "profiles",
        partitions=1,
        cleanup="compact",
        config={
            "segment.ms": _SEGMENT_MS,
            "min.cleanable.dirty.ratio": "0.001",
            "delete.retention.ms": _TOMBSTONE_KEPT_MS,
        },
    )
    # Compaction leaves the newest segment alone. A segment ends when a record is a minute younger, by its timestamp,
    # than its first: so the drill lets two minutes pass for the records, and none for the reader.
    minutes = itertools.count(int(time.time() * 1000) - _WEEK_MS, 2 * _SEGMENT_MS)
    with stage.step(
        f"Write {_VERSIONS} versions of {len(_KEYS)} keys, then a record that begins a new segment",
        expected=f"{len(_KEYS)} records are left, the last version of each key, at the offsets they always had",
    ) as step:
        versions = [(key, f"version {number}") for number in range(_VERSIONS) for key in _KEYS]
        _write(stage, topic, versions, next(minutes))
        _write(stage, topic, [(_FILLER, "")], next(minutes))
        left = stage.wait("the cleaner", lambda: _compacted(stage, topic, len(_KEYS)))
        offsets = [int(message.offset() or 0) for message in left]
        step.saw(
            f"{len(left)} of {len(versions)} are left: {_listed(left)}, at offsets {offsets[0]} to {offsets[-1]}",
            passed={_key(message): message.value() for message in left}
            == dict.fromkeys(_KEYS, f"version {_VERSIONS - 1}".encode())
            and offsets == list(range(len(versions) - len(_KEYS), len(versions))),
        )
    with stage.step(
        f"Write a tombstone, a record without a value, for {_GONE}",
        expected=f"the value of {_GONE} goes; the tombstone stays for a while, so that slow readers hear of it",
    ) as step:
        _write(stage, topic, [(_GONE, None)], next(minutes))
        _write(stage, topic, [(_FILLER, "")], next(minutes))
        left = stage.wait("the cleaner", lambda: _without_value(stage, topic))
        step.saw(_listed(left), passed=[_key(message) for message in left] == [*_KEYS[1:], _GONE])
    with stage.step(
        f"Go on writing until {_TOMBSTONE_KEPT_MS / 1000:.0f} s (delete.retention.ms, a day by default) have passed",
        expected="the tombstone goes, too; the other keys stay",
    ) as step:
        left = stage.wait("the tombstone to go", lambda: _without_tombstone(stage, topic, minutes))
        step.saw(_listed(left), passed={_key(message) for message in left} == set(_KEYS[1:]))


def _write(stage: Stage, topic: str, records: Sequence[tuple[str, str | None]], at_ms: int) -> None:
    with Producer(stage.connection) as producer:
        for key, value in records:
            producer.send(topic, value, key=key, timestamp_ms=at_ms)


def _read(stage: Stage, topic: str) -> list[Message]:
    return [message for message in read_all(stage.connection, topic) if _key(message) != _FILLER]


def _compacted(stage: Stage, topic: str, count: int) -> list[Message] | None:
    found = _read(stage, topic)
    return found if len(found) <= count else None


def _without_value(stage: Stage, topic: str) -> list[Message] | None:
    found = _read(stage, topic)
    return None if any(_key(message) == _GONE and message.value() for message in found) else found


def _without_tombstone(stage: Stage, topic: str, minutes: Iterator[int]) -> list[Message] | None:
    found = _read(stage, topic)
    if not any(_key(message) == _GONE for message in found):
        return found
    # The cleaner comes only where something is new.
    _write(stage, topic, [(_FILLER, "")], next(minutes))
    return None


def _key(message: Message) -> str:
    key = message.key()
    return key if isinstance(key, str) else (key or b"").decode()


def _listed(messages: list[Message]) -> str:
    return ", ".join(f"{_key(message)} = {(message.value() or b'').decode() or 'tombstone'}" for message in messages)


DRILL = Drill(
    name="compaction",
    about="the last value of each key stays; a tombstone takes a key away",
    background="""\
A compacted topic is a table: for each key the last value counts. The cleaner works in the background
on finished segments, never on the newest one, so readers may see older values for a while. (These
nodes look twice a second for what may be cleaned; Kafka's default is every 15 seconds.)""",
    run=run,
)
