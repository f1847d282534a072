"""What is lost and what comes twice when a reader dies, and when the server dies. Both by `kill -9`, in the middle."""

import threading
import time
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from penstock.errors import BrokerUnavailable, PenstockError
from penstock.lab.bench.brokers.connecting import TAKEOVER_S
from penstock.lab.bench.brokers.contenders import Contender
from penstock.lab.bench.brokers.game_events import GameEvents, marker
from penstock.lab.bench.brokers.reader import Drained, ReaderTask, Received, drain, reading
from penstock.lab.bench.brokers.speed import GROUP

_READER_EVENTS = 2000
_READER_BATCH = 100
_SERVER_EVENTS = 10_000
_SERVER_BATCH = 100
_JOIN_S = 120.0
_LOOK_S = 0.002
_SILENCE_S = 3.0


@dataclass(frozen=True)
class ReaderDeath:
    """What became of events when their reader died and another went on."""

    sent: int
    lost: int
    repeated: int
    takeover_s: float | None
    """From the kill until the other one had an event that the dead one had in hand; None if it never came."""


@dataclass(frozen=True)
class ServerDeath:
    """What became of events that a server had accepted when it died and was started again."""

    accepted: int
    lost: int
    repeated: int


def reader_death(contender: Contender, events: GameEvents, topic: str, folder: Path) -> ReaderDeath:
    """Kill a reader that has events in hand.

    1. Half of the events are sent. The reader acknowledges about half of those, takes more, and is killed.
    2. A quarter is sent while nobody is there.
    3. Another reader of the same group comes, the last quarter is sent, and it reads on until nothing more comes.
    """
    contender.make_topic(topic)
    quarter = min(_READER_EVENTS, len(events)) // 4
    total = 4 * quarter
    task = ReaderTask(
        address=contender.address,
        topic=topic,
        group=GROUP,
        count=total,
        report=folder / f"{topic}.json",
        wake_up=True,
        batch=min(_READER_BATCH, max(1, quarter // 2)),
        hold_after=quarter,
    )
    with closing(contender.open()) as transport:
        transport.subscribe(topic, GROUP).close()
        with reading(task) as reader:
            transport.send([marker(topic)])
            reader.wait_for("awake")
            transport.send(events.messages(topic, range(2 * quarter)))
            reader.wait_for("holding")
            reader.kill()
            killed_s = time.monotonic()
            dead = reader.got()
        transport.send(events.messages(topic, range(2 * quarter, 3 * quarter)))
        wanted = set(range(total)) - set(dead.acknowledged)
        # The last quarter goes out as soon as the other one listens: a broker that keeps nothing has its chance too.
        rest = events.messages(topic, range(3 * quarter, total))
        other = drain(transport, topic, GROUP, wanted, silence_s=1.5 * TAKEOVER_S, when_heard=rest)
    return judge_reader(total, dead, other, killed_s)


def judge_reader(total: int, dead: Received, other: Drained, killed_s: float) -> ReaderDeath:
    """Count. An event is dealt with when it was acknowledged; one that was only in hand has to come again."""
    dealt_with = set(dead.acknowledged) | other.times.keys()
    seen = set(dead.acknowledged) | set(dead.held)
    back = [other.arrived_s[number] for number in dead.held if number in other.arrived_s]
    return ReaderDeath(
        sent=total,
        lost=total - len(dealt_with),
        repeated=len(seen & other.times.keys()) + _doubles(other),
        takeover_s=min(back) - killed_s if back else None,
    )


def server_death(contender: Contender, events: GameEvents, topic: str) -> ServerDeath:
    """Kill the server while it is being sent to, start it again, and read what it had accepted. Nobody read before."""
    contender.make_topic(topic)
    with closing(contender.open()) as transport:
        transport.subscribe(topic, GROUP).close()
    sender = _Sender(contender, events, topic)
    sender.start()
    try:
        sender.wait_until_accepted(min(_SERVER_EVENTS, len(events)))
        contender.kill()
    finally:
        sender.ending.set()
    contender.start()
    sender.join(_JOIN_S)
    with closing(contender.open()) as transport:
        found = drain(transport, topic, GROUP, set(sender.accepted), silence_s=_SILENCE_S)
    lost = len(set(sender.accepted) - found.times.keys())
    return ServerDeath(accepted=len(sender.accepted), lost=lost, repeated=_doubles(found))


class _Sender(threading.Thread):
    """Sends until the server is gone, and notes what was accepted."""

    def __init__(self, contender: Contender, events: GameEvents, topic: str) -> None:
        super().__init__(daemon=True)
        self._contender = contender
        self._events = events
        self._topic = topic
        self.accepted: list[int] = []
        self.ending = threading.Event()

    def run(self) -> None:
        """Stop at the first error: the server is dead, and what it did not accept may be there or not."""
        try:
            with closing(self._contender.open()) as transport:
                while not self.ending.is_set():
                    numbers = range(len(self.accepted), len(self.accepted) + _SERVER_BATCH)
                    transport.send(self._events.messages(self._topic, numbers))
                    self.accepted += numbers
        except PenstockError:
            return

    def wait_until_accepted(self, count: int) -> None:
        """Wait until the server has taken this many."""
        while len(self.accepted) < count:
            if not self.is_alive():
                raise BrokerUnavailable(f"{self._contender.name} accepted {len(self.accepted)} of {count} events")
            time.sleep(_LOOK_S)


def _doubles(found: Drained) -> int:
    return found.times.total() - len(found.times)
