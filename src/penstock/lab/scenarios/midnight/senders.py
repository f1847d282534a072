"""The house's senders: some have a producer of Kafka's, the others only know HTTP. Each call is timed."""

import http.client
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from pydantic import Field

from penstock.kafka.connection import Connection
from penstock.kafka.producer import Producer, ProducerOptions
from penstock.lab.scenarios.midnight.day import DayClock, Due
from penstock.lab.sending_times import SendingTimes, call_times

_CONNECTIONS = 4
_MOST_AT_ONCE = 100
_CREATED = 201
_TIMEOUT_S = 120
_IDLE_S = 2.0
"""The gateway closes a connection after 5 seconds of silence: such a one is not used again."""


class SendingResult(SendingTimes, frozen=True):
    """What it was like to send a day's events one way."""

    calls: int = Field(description="Calls; over HTTP one takes all that are due.")
    refused: int = Field(description="Calls that were refused.")
    late_ms: float = Field(description="How long after its time an event was handed over, at most.")


@dataclass
class _Times:
    """What the calls of one way took; several threads may add to it."""

    events: int = 0
    refused: int = 0
    calls_s: list[float] = field(default_factory=list)
    late_s: float = 0.0
    lock: threading.Lock = field(default_factory=threading.Lock)

    def add(self, events: int, call_s: float, late_s: float, *, taken: bool) -> None:
        with self.lock:
            self.events += events if taken else 0
            self.refused += not taken
            self.calls_s.append(call_s)
            self.late_s = max(self.late_s, late_s)

    def result(self, way: str) -> SendingResult:
        return SendingResult(
            way=way,
            events=self.events,
            calls=len(self.calls_s),
            refused=self.refused,
            **call_times(self.calls_s),
            late_ms=round(1000 * self.late_s, 1),
        )


class Senders:
    """Send a day's events by its clock, in the background. `finish` waits for the last acknowledgement."""

    def __init__(self, connection: Connection, address: str, topic: str, day: Sequence[Due], clock: DayClock) -> None:
        self._topic = topic
        self._clock = clock
        self._place = urlsplit(address)
        self._given_up = threading.Event()
        self._kafka, self._http = _Times(), _Times()
        self._pool = ThreadPoolExecutor(1 + _CONNECTIONS, "sender")
        direct = [each for each in day if not each.by_http]
        self._work: list[Future[None]] = [self._pool.submit(self._send_to_kafka, connection, direct)]
        for number in range(_CONNECTIONS):
            share = [each for each in day if each.by_http and each.root // 2 % _CONNECTIONS == number]
            self._work.append(self._pool.submit(self._send_by_http, share))

    @property
    def given_up(self) -> threading.Event:
        """Set when they end before the day is over."""
        return self._given_up

    @property
    def are_done(self) -> bool:
        """Whether all have sent what they had to."""
        return all(each.done() for each in self._work)

    def finish(self) -> list[SendingResult]:
        """Wait until everything is sent and acknowledged, and tell what it was like."""
        for each in self._work:
            each.result()
        return [self._kafka.result("Kafka"), self._http.result("HTTP")]

    def stop(self) -> None:
        """End them, whether or not the day is over."""
        self._given_up.set()
        self._pool.shutdown()

    def _send_to_kafka(self, connection: Connection, events: Sequence[Due]) -> None:
        with Producer(connection, ProducerOptions(partitioner="murmur2")) as producer:
            for event in events:
                if not self._clock.wait_until(event.due_s, self._given_up):
                    return
                late_s = (self._clock.now() - event.due_s) / self._clock.speed
                before = time.perf_counter()
                producer.send(self._topic, event.value, key=event.key)
                self._kafka.add(1, time.perf_counter() - before, late_s, taken=True)
            producer.flush()

    def _send_by_http(self, events: Sequence[Due]) -> None:
        client = http.client.HTTPConnection(self._place.hostname or "", self._place.port, timeout=_TIMEOUT_S)
        last = time.perf_counter()
        for due in self._due(events):
            late_s = (self._clock.now() - due[0].due_s) / self._clock.speed
            before = time.perf_counter()
            if before - last > _IDLE_S:
                client.close()
            taken = _post(client, b"[" + b",".join(each.value for each in due) + b"]")
            last = time.perf_counter()
            self._http.add(len(due), last - before, late_s, taken=taken)
        client.close()

    def _due(self, events: Sequence[Due]) -> Iterator[Sequence[Due]]:
        """Yield events as they become due."""
        first = 0
        while first < len(events) and self._clock.wait_until(events[first].due_s, self._given_up):
            now, last = self._clock.now(), first + 1
            while last < min(len(events), first + _MOST_AT_ONCE) and events[last].due_s <= now:
                last += 1
            yield events[first:last]
            first = last


def _post(client: http.client.HTTPConnection, body: bytes) -> bool:
    """Send events, and return whether they were taken."""
    try:
        client.request("POST", "/api/v1/lineage", body, {"Content-Type": "application/json"})
        answer = client.getresponse()
        answer.read()
    except (OSError, http.client.HTTPException):
        client.close()
        return False
    return answer.status == _CREATED
