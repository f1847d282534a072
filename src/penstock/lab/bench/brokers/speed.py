"""How fast: events a second in and out, and how late events are at an even rate."""

import statistics
import time
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

from penstock.errors import BrokerUnavailable
from penstock.lab.bench.brokers.contenders import Contender
from penstock.lab.bench.brokers.game_events import GameEvents, marker
from penstock.lab.bench.brokers.reader import ReaderTask, reading
from penstock.transports import Transport

SEND_BATCH = 5000
GROUP = "workers"
_NS = 1_000_000_000
_WARM_S = 1.0
_PAUSE_S = 0.0002


@dataclass
class Speed:
    """What the rounds gave."""

    in_per_s: list[float] = field(default_factory=list)
    out_per_s: list[float] = field(default_factory=list)
    lost: int = 0
    """Events that did not come out, over all rounds."""
    delays_ms: list[float] = field(default_factory=list)

    def delay_ms(self, percent: int) -> float:
        """Return the delay that so many percent of the events did not exceed."""
        return statistics.quantiles(self.delays_ms, n=100)[percent - 1]


def send_all(transport: Transport, events: GameEvents, topic: str) -> float:
    """Send every event once; return the seconds until the last was accepted."""
    messages = events.messages(topic, range(len(events)))
    began = time.perf_counter()
    for start in range(0, len(messages), SEND_BATCH):
        transport.send(messages[start : start + SEND_BATCH])
    return time.perf_counter() - began


def throughput(contender: Contender, events: GameEvents, topic: str, folder: Path, speed: Speed, *, live: bool) -> None:
    """Send all, then read all. `live` reads meanwhile, for a broker that keeps nothing.

    Out counts from the arrival of the first event until the last is acknowledged: joining a group takes part of a
    second, once, and is no question of throughput.
    """
    contender.make_topic(topic)
    task = ReaderTask(
        address=contender.address,
        topic=topic,
        group=GROUP,
        count=len(events),
        report=folder / f"{topic}.json",
        wake_up=live,
    )
    with closing(contender.open()) as transport:
        if not live:
            # A queue keeps events for groups that it knows.
            transport.subscribe(topic, GROUP).close()
            speed.in_per_s.append(len(events) / send_all(transport, events, topic))
        with reading(task) as reader:
            if live:
                transport.send([marker(topic)])
                reader.wait_for("awake")
                speed.in_per_s.append(len(events) / send_all(transport, events, topic))
            reader.wait_for("done")
            got = reader.got()
    arrived = set(got.acknowledged)
    if not arrived:
        raise BrokerUnavailable(f"none of {len(events)} events came out of {contender.name}")
    speed.lost += len(events) - len(arrived)
    speed.out_per_s.append(len(arrived) / ((got.last_ns - got.first_ns) / _NS))


def latency(
    contender: Contender, events: GameEvents, topic: str, folder: Path, speed: Speed, *, rate: int, seconds: float
) -> None:
    """Note how late events are, from the moment each was due to the moment a reader's process has it."""
    contender.make_topic(topic)
    count = int(rate * (_WARM_S + seconds))
    task = ReaderTask(
        address=contender.address,
        topic=topic,
        group=GROUP,
        count=count,
        report=folder / f"{topic}.json",
        wake_up=True,
    )
    with closing(contender.open()) as transport:
        transport.subscribe(topic, GROUP).close()
        with reading(task) as reader:
            transport.send([marker(topic)])
            reader.wait_for("awake")
            began_ns = send_evenly(transport, events, topic, rate=rate, count=count)
            reader.wait_for("done")
            got = reader.got()
    counted_from_ns = began_ns + int(_WARM_S * _NS)
    speed.delays_ms += [late_ns / 1e6 for due_ns, late_ns in got.delays_ns if due_ns >= counted_from_ns]


def send_evenly(transport: Transport, events: GameEvents, topic: str, *, rate: int, count: int) -> int:
    """Send at an even rate; return the moment at which the first was due.

    Each event carries the moment at which it was due, whenever it could really be sent. So a send that takes long
    makes those behind it late, and all that are due go together with the next one.
    """
    began_ns = time.monotonic_ns()
    sent = 0
    while sent < count:
        due = min(count, (time.monotonic_ns() - began_ns) * rate // _NS + 1)
        if due <= sent:
            time.sleep(_PAUSE_S)
            continue
        transport.send([events.message(topic, number, began_ns + number * _NS // rate) for number in range(sent, due)])
        sent = due
    return began_ns
