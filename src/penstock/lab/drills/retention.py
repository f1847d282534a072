"""Retention by time and by size: whole segments go, and the earliest offset moves."""

import time
from contextlib import suppress
from pathlib import Path

from penstock.kafka.positions import bounds
from penstock.kafka.producer import Producer, ProducerOptions
from penstock.lab.drills.drill import Drill, Stage

_HOUR_MS = 3_600_000
# The least that Kafka 4 allows.
_SEGMENT_BYTES = 2**20
_KEPT_BYTES = 3 * 2**20
_VALUE_BYTES = 16 * 1024
_SENT = 640
_OLD, _YOUNG = 100, 50
# Files that are out of use are kept for a minute by default.
_AT_ONCE = {"file.delete.delay.ms": 100}


def run(stage: Stage) -> None:
    """Let old records go, then too many."""
    topic = stage.topic("visits", partitions=1, retention=_HOUR_MS, config={"segment.ms": _HOUR_MS // 2, **_AT_ONCE})
    with stage.step(
        f"Retention by time, 1 hour: send {_OLD} records that are two hours old by their timestamps, and {_YOUNG} of"
        " now",
        expected="the segment with the old ones is deleted; the earliest offset moves to the first young record",
    ) as step:
        now_ms = int(time.time() * 1000)
        with Producer(stage.connection) as producer:
            # A batch is as young as its youngest record: old and young ones go apart.
            for count, at_ms in ((_OLD, now_ms - 2 * _HOUR_MS), (_YOUNG, now_ms)):
                for number in range(count):
                    producer.send(topic, str(number), timestamp_ms=at_ms)
                producer.flush()
        stage.wait("the old segment to go", lambda: _bounds(stage, topic)[0] >= _OLD)
        start, end = _bounds(stage, topic)
        step.saw(
            f"offsets {start} to {end - 1} are left of 0 to {_OLD + _YOUNG - 1}; what is left keeps its offsets",
            passed=(start, end) == (_OLD, _OLD + _YOUNG),
        )
    topic = stage.topic(
        "photos",
        partitions=1,
        retention_size=_KEPT_BYTES,
        config={"segment.bytes": _SEGMENT_BYTES, **_AT_ONCE},
    )
    folder = _folder(stage, topic)
    with stage.step(
        f"Retention by size, 3 MiB in segments of 1 MiB: send {_SENT * _VALUE_BYTES // 2**20} MiB",
        expected="the oldest segments go, until one more would leave less than 3 MiB: 3 to 4 MiB stay",
    ) as step:
        value = b"x" * _VALUE_BYTES
        with Producer(stage.connection, ProducerOptions(compression="none")) as producer:
            for _ in range(_SENT):
                producer.send(topic, value)
        limit = _KEPT_BYTES + _SEGMENT_BYTES
        stage.wait("old segments to go", lambda: _bounds(stage, topic)[0] and _size(folder) <= limit)
        (start, end), size = _bounds(stage, topic), _size(folder)
        step.saw(
            f"{size / 2**20:.1f} MiB in {len(_segments(folder))} segments are left; the earliest offset moved from 0"
            f" to {start}, the end is {end}",
            passed=0 < start < end == _SENT and _KEPT_BYTES <= size <= limit,
        )


def _bounds(stage: Stage, topic: str) -> tuple[int, int]:
    return bounds(stage.admin, [(topic, 0)])[topic, 0]


def _folder(stage: Stage, topic: str) -> Path:
    """Return the folder of the leader's replica."""
    return stage.cluster.node(stage.partition(topic).leader).data / f"{topic}-0"


def _segments(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.log"))


def _size(folder: Path) -> int:
    total = 0
    for path in _segments(folder):
        with suppress(FileNotFoundError):  # deleted this moment
            total += path.stat().st_size
    return total


DRILL = Drill(
    name="retention",
    about="records go by age and by size, a whole segment at a time",
    background="""\
A partition is a row of files, the segments. Retention deletes whole segments, oldest first: those
whose youngest record is too old, or as many as the partition is too large by. Reading deletes
nothing. (These nodes look twice a second for what may go; Kafka's default is every five minutes.)""",
    run=run,
)
