"""The program of a reader: takes events, acknowledges them, and reports what it got, and when.

Its task is its argument. It ends when its input ends, so it never outlives the bench.
"""

import os
import sys
import threading
import time
from collections.abc import Sequence
from contextlib import closing

import orjson

from penstock.errors import BrokerUnavailable, Transient
from penstock.lab.bench.brokers.connecting import connect
from penstock.lab.bench.brokers.game_events import is_event
from penstock.lab.bench.brokers.reader import ReaderTask, Received
from penstock.transports import Incoming, Subscription

_ACKNOWLEDGE_EVERY_S = 0.1
_WAIT_S = 0.05


class _Reading:
    """What a reader has in hand and behind it. Values are looked at when all is over: it costs the broker nothing."""

    def __init__(self, task: ReaderTask, subscription: Subscription) -> None:
        self._task = task
        self._subscription = subscription
        self._held: list[Incoming] = []
        self._acknowledged: list[Incoming] = []
        self._arrivals: list[tuple[int, list[Incoming]]] = []
        self._last_ns = 0

    def until_woken(self) -> None:
        """Wait for a first message, which is no event, and begin with nothing."""
        deadline = time.monotonic() + self._task.first_within_s
        while not (first := self._subscription.receive(1, _WAIT_S)):
            if time.monotonic() > deadline:
                raise BrokerUnavailable(f"nothing arrived within {self._task.first_within_s:.0f} s")
        self._subscription.acknowledge(first)
        _report("awake")

    def run(self) -> None:
        """Read until all has come, nothing comes any more, or it is time to stand still."""
        acknowledge_at = time.monotonic() + _ACKNOWLEDGE_EVERY_S
        silent_at = time.monotonic() + self._task.first_within_s
        count = 0
        while count < self._task.count and time.monotonic() < silent_at:
            found = self._receive()
            if found:
                self._arrivals.append((time.monotonic_ns(), found))
                self._held += found
                count += len(found)
                silent_at = time.monotonic() + self._task.silence_s
            if self._task.hold_after is not None and len(self._acknowledged) >= self._task.hold_after and self._held:
                self._report()
                _report("holding")
                # Killed here.
                threading.Event().wait()
            if len(self._held) >= self._task.batch or time.monotonic() >= acknowledge_at:
                self._acknowledge()
                acknowledge_at = time.monotonic() + _ACKNOWLEDGE_EVERY_S
        self._acknowledge()
        self._report()

    def _receive(self) -> list[Incoming]:
        try:
            return self._subscription.receive(self._task.batch - len(self._held), _WAIT_S)
        except Transient:
            # Cut off, for being too slow. The next call connects again; what is lost shows in the count.
            return []

    def _acknowledge(self) -> None:
        if not self._held:
            return
        try:
            self._subscription.acknowledge(self._held)
            self._acknowledged += self._held
            self._last_ns = time.monotonic_ns()
        except Transient:
            pass  # they come again
        self._held = []

    def _report(self) -> None:
        delays = [
            (event["due_ns"], arrived_ns - event["due_ns"])
            for arrived_ns, messages in self._arrivals
            for event in _events(messages)
            if "due_ns" in event
        ]
        got = Received(
            first_ns=self._arrivals[0][0] if self._arrivals else 0,
            last_ns=self._last_ns,
            acknowledged=[event["number"] for event in _events(self._acknowledged)],
            held=[event["number"] for event in _events(self._held)],
            delays_ns=delays,
        )
        self._task.report.write_text(got.model_dump_json(), encoding="utf-8")


def _events(messages: Sequence[Incoming]) -> list[dict[str, int]]:
    return [event for event in map(orjson.loads, (each.value for each in messages)) if is_event(event["number"])]


def _report(word: str) -> None:
    sys.stdout.write(word + "\n")
    sys.stdout.flush()


def _end_with_input() -> None:
    sys.stdin.read()
    os._exit(1)


def main() -> None:
    """Do what the task says."""
    threading.Thread(target=_end_with_input, daemon=True).start()
    task = ReaderTask.model_validate_json(sys.argv[1])
    with closing(connect(task.address)) as transport, closing(transport.subscribe(task.topic, task.group)) as member:
        _report("ready")
        reading = _Reading(task, member)
        if task.wake_up:
            reading.until_woken()
        reading.run()
        _report("done")


if __name__ == "__main__":
    main()
