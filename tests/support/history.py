"""What was sent and acknowledged, and the judge who compares it with a fresh full read."""

import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Self

from confluent_kafka import KafkaError, Message

from penstock.errors import DeliveryFailed
from penstock.kafka.connection import Connection
from penstock.kafka.producer import Producer, ProducerOptions

_TRICKLE_PER_S = 1500


@dataclass(frozen=True)
class Event:
    """One record as the topic holds it."""

    key: str
    number: int
    partition: int
    offset: int


@dataclass
class History:
    """Every send ends as acknowledged, failed or unknown; unknown ones may be in the topic or not."""

    sent: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    acknowledged: dict[tuple[str, int], tuple[int, int]] = field(default_factory=dict)
    failed: set[tuple[str, int]] = field(default_factory=set)

    def report(self, error: KafkaError | None, message: Message) -> None:
        event = parse(message)
        if error is None:
            self.acknowledged[event.key, event.number] = (event.partition, event.offset)
        else:
            self.failed.add((event.key, event.number))


def parse(message: Message) -> Event:
    key, _, number = (message.value() or b"").decode().partition(":")
    return Event(key, int(number), int(message.partition() or 0), int(message.offset() or 0))


class LoadGenerator:
    """Sends numbered events of many keys on its own thread, with acks all, and records what became of each.

    Half of them at full speed; then a trickle for as long as the test takes for its fault; the rest at full speed.
    """

    def __init__(self, connection: Connection, topic: str, count: int, *, keys: int = 97) -> None:
        self.history = History()
        self.count = count
        self._connection, self._topic, self._keys = connection, topic, keys
        self._thread = threading.Thread(target=self._run)
        self._released = threading.Event()
        self.error: BaseException | None = None

    @property
    def done(self) -> int:
        return len(self.history.acknowledged)

    @property
    def sent(self) -> int:
        return sum(self.history.sent.values())

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._released.set()
        self._thread.join(400)
        assert not self._thread.is_alive(), "the producer did not finish"
        if self.error is not None:
            raise self.error

    def _run(self) -> None:
        try:
            # A small queue, so that the fault falls among events that are still to be sent.
            options = ProducerOptions(queue_max_events=5000)
            with Producer(self._connection, options, on_delivery=self.history.report) as producer:
                number = 0
                while number < self.count or not self._released.is_set():
                    if number >= self.count // 2 and not self._released.is_set():
                        time.sleep(1 / _TRICKLE_PER_S)
                    key = f"key-{number % self._keys}"
                    producer.send(self._topic, f"{key}:{self.history.sent[key]}", key=key, timeout_s=300)
                    self.history.sent[key] += 1
                    number += 1
        except DeliveryFailed:
            pass  # the judge knows which ones
        except BaseException as error:  # noqa: BLE001 - raised again where the test sees it
            self.error = error


def verdict(history: History, events: Iterable[Event]) -> list[str]:
    """Judge a fresh full read: nothing lost, doubled, invented, moved or out of order. An empty list is a pass."""
    faults: list[str] = []
    places: dict[tuple[str, int], list[tuple[int, int]]] = defaultdict(list)
    last: dict[str, int] = {}
    for event in events:
        places[event.key, event.number].append((event.partition, event.offset))
        if event.number <= last.get(event.key, -1):
            faults.append(f"out of order: {event}")
        last[event.key] = event.number
    faults += [f"doubled: {event} at {found}" for event, found in places.items() if len(found) > 1]
    faults += [f"lost: {event}" for event in history.acknowledged if event not in places]
    faults += [f"a failed send is there: {event}" for event in history.failed if event in places]
    faults += [f"never sent: {key}:{number}" for key, number in places if number >= history.sent[key]]
    faults += [
        f"acknowledged at {source_partition}, read at {places[event]}: {event}"
        for event, source_partition in history.acknowledged.items()
        if event in places and source_partition not in places[event]
    ]
    return faults


def wait_for_progress(load: LoadGenerator, fraction: float, until: Callable[[Callable[[], bool]], None]) -> None:
    """Wait until so much of the load is acknowledged."""
    until(lambda: load.done >= load.count * fraction or load.error is not None)
