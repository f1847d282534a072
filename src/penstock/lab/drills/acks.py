"""acks 0, 1 and all: three streams to one leader, which is killed in the middle."""

import threading
from collections import Counter
from typing import Literal

from confluent_kafka import KafkaError, Message

from penstock.errors import DeliveryFailed
from penstock.kafka.connection import Connection
from penstock.kafka.producer import Producer, ProducerOptions
from penstock.kafka.reader import Reader
from penstock.lab.drills.drill import Drill, Stage

Acks = Literal["0", "1", "all"]
_ACKS: tuple[Acks, ...] = ("0", "1", "all")
# Nine partitions on three nodes: some node leads three of them.
_PARTITIONS = 9
_MORE = 1000
_BURST = 10
_PAUSE_S = 0.005
# Twice that is well below the session timeout, after which frozen nodes would count as dead.
_FROZEN_S = 2.0
_EXPECTED = {
    "0": "some may be missing: the client never waits, it counts a record as sent once it is on the wire",
    "1": "some may be missing: the leader alone had them, and died before the others copied them",
    "all": "none is missing: every replica in sync had a record before it was acknowledged",
}


class _Stream(threading.Thread):
    """Sends numbers to one partition, about 2,000 a second, until told to end; keeps those acknowledged."""

    def __init__(self, connection: Connection, topic: str, partition: int, acks: Acks) -> None:
        super().__init__(daemon=True)
        self.acks = acks
        self.partition = partition
        self.sent = 0
        self.acknowledged: set[int] = set()
        self._topic = topic
        self._ending = threading.Event()
        self._producer = Producer(connection, ProducerOptions(acks=acks), on_delivery=self._delivered)

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        if error is None:
            self.acknowledged.add(int(message.value() or b""))

    def run(self) -> None:
        try:
            with self._producer:
                while not self._ending.wait(_PAUSE_S):
                    for _ in range(_BURST):
                        self._producer.send(self._topic, str(self.sent), partition=self.partition)
                        self.sent += 1
        except DeliveryFailed:
            # What is not acknowledged is not promised: it is counted below.
            return

    def end(self) -> None:
        """Stop sending and wait for the answers."""
        self._ending.set()


def run(stage: Stage) -> None:
    """Stream, kill, compare."""
    topic = stage.topic("stream", partitions=_PARTITIONS, replication=3)
    by_leader: dict[int, list[int]] = {}
    for number, part in sorted(stage.partitions(topic).items()):
        by_leader.setdefault(part.leader, []).append(number)
    leader, led = max(by_leader.items(), key=lambda each: len(each[1]))
    streams = [_Stream(stage.connection, topic, part, acks) for acks, part in zip(_ACKS, led, strict=False)]
    try:
        _stream_and_kill(stage, topic, leader, streams)
    finally:
        for stream in streams:
            stream.end()
    for stream in streams:
        _compare(stage, topic, stream)


def _stream_and_kill(stage: Stage, topic: str, leader: int, streams: list[_Stream]) -> None:
    followers = sorted({1, 2, 3} - {leader})
    with stage.step(
        f"Start three streams, acks 0, 1 and all, to three partitions that node {leader} leads",
        expected="all three are acknowledged as they go",
    ) as step:
        for stream in streams:
            stream.start()
        stage.wait("every stream to be acknowledged", lambda: all(len(each.acknowledged) > _MORE for each in streams))
        step.saw(_acknowledged(streams), passed=True)
    with stage.step(
        f"Freeze the followers, nodes {followers[0]} and {followers[1]}, for a moment, as a long garbage collection"
        f" does; kill the leader with kill -9 meanwhile; then let the followers go on",
        expected="frozen followers copy nothing, so acks=all has to wait; acks 0 and 1 do not notice",
    ) as step:
        with stage.frozen(followers):
            # Answers that were on their way come first; what counts is what comes after those.
            _go_on(stage, streams)
            during = _go_on(stage, streams)
            stage.kill_node(leader)
        counts = ", ".join(f"{count:,} with {each.acks}" for each, count in zip(streams, during, strict=True))
        step.saw(f"acknowledged while the followers were frozen: {counts}", passed=4 * during[2] < min(during[:2]))
    with stage.step(
        "Go on until a new leader has taken more, then end the streams",
        expected="a new leader for each partition; the streams carry on by themselves",
    ) as step:
        new = stage.wait("new leaders", lambda: _others(stage, topic, streams, leader))
        before = [len(each.acknowledged) for each in streams]
        stage.wait(
            "every stream to be acknowledged by the new leader",
            lambda: all(count > _MORE for count in _since(streams, before)),
        )
        for stream in streams:
            stream.end()
        stage.wait("the last answers", lambda: not any(each.is_alive() for each in streams))
        step.saw(f"led by node {', '.join(map(str, sorted(set(new))))} now; {_acknowledged(streams)}", passed=True)
    with stage.step(
        f"Start node {leader} again",
        expected="it throws away what the new leader does not have, and follows",
    ) as step:
        stage.fix()
        step.saw("every replica is in sync", passed=True)


def _compare(stage: Stage, topic: str, stream: _Stream) -> None:
    with stage.step(f"acks={stream.acks}: compare with the topic", expected=_EXPECTED[stream.acks]) as step:
        with Reader(stage.connection, topic, partition=stream.partition) as reader:
            found = Counter(int(message.value() or b"") for message in reader)
        lost = len(stream.acknowledged - found.keys())
        repeated = sum(found.values()) - len(found)
        step.saw(
            f"sent {stream.sent:,}, acknowledged {len(stream.acknowledged):,}, found {len(found):,}:"
            f" {lost:,} acknowledged records are lost, {repeated:,} are stored twice",
            # Only acks=all promises anything.
            passed=stream.acks != "all" or (lost == 0 and repeated == 0),
        )


def _go_on(stage: Stage, streams: list[_Stream]) -> list[int]:
    """Wait until acks 0 and 1 have got further; return how much was acknowledged meanwhile."""
    before = [len(each.acknowledged) for each in streams]
    stage.wait(
        "acks 0 and 1 to go on",
        lambda: all(count > _MORE // 2 for count in _since(streams, before)[:2]),
        timeout_s=_FROZEN_S,
    )
    return _since(streams, before)


def _since(streams: list[_Stream], before: list[int]) -> list[int]:
    return [len(each.acknowledged) - count for each, count in zip(streams, before, strict=True)]


def _others(stage: Stage, topic: str, streams: list[_Stream], leader: int) -> list[int] | None:
    found = stage.partitions(topic)
    leaders = [found[each.partition].leader for each in streams]
    return leaders if not {-1, leader} & set(leaders) else None


def _acknowledged(streams: list[_Stream]) -> str:
    return "acknowledged " + ", ".join(f"{len(each.acknowledged):,} with {each.acks}" for each in streams)


DRILL = Drill(
    name="acks",
    about="acks 0, 1 and all, with the leader killed in mid-stream: what was acknowledged and is lost",
    background="""\
acks says who must have a record before the client calls it sent: nobody (0), the leader (1), or
every replica in sync (all). What is acknowledged is what the client believes to be safe.""",
    run=run,
)
