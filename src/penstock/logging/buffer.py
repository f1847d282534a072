"""The bounded buffer between the program that logs and the thread that sends.

Every event that was put in is sent, dropped or still here: the three counts always add up.
"""

import threading
from collections import deque
from typing import Literal

from penstock.logging.event import Event

WhenFull = Literal["block", "drop_oldest", "drop_newest"]


class Buffer:
    """A queue for one sender and any number of threads that log."""

    def __init__(self, capacity: int, when_full: WhenFull) -> None:
        self._capacity = capacity
        self._when_full = when_full
        self._waiting: deque[Event] = deque()
        self._in_flight: list[Event] = []
        # Reentrant: a signal handler or a destructor may log while this very thread is in here.
        self._changed = threading.Condition(threading.RLock())
        self._wake_at = 0
        self._blocked = 0
        self._hurries = 0
        self._draining = 0
        self._closed = False
        self.sent = 0
        self.dropped = 0
        self.unreported = 0

    def put(self, event: Event) -> None:
        """Take an event, or drop one as `when_full` says; only `block` waits."""
        with self._changed:
            if self._closed or (len(self._waiting) + len(self._in_flight) >= self._capacity and not self._make_room()):
                self._drop()
                return
            self._waiting.append(event)
            # The sender says how many it waits for: waking it for each event would cost more than the rest.
            if self._wake_at and len(self._waiting) >= self._wake_at:
                self._wake_at = 0
                self._changed.notify_all()

    def _make_room(self) -> bool:
        if self._when_full == "block":
            self._blocked += 1
            self._changed.wait_for(lambda: self._closed or len(self._waiting) + len(self._in_flight) < self._capacity)
            self._blocked -= 1
            return not self._closed
        # What is being sent right now cannot be dropped any more.
        if self._when_full == "drop_newest" or not self._waiting:
            return False
        self._waiting.popleft()
        self._drop()
        return True

    def drop(self) -> None:
        """Note that an event was lost before it could be put in."""
        with self._changed:
            self._drop()

    def _drop(self, count: int = 1) -> None:
        self.dropped += count
        self.unreported += count

    def wait_for_work(self, max_events: int, linger_s: float) -> bool:
        """Wait until there is something to send, and `linger_s` more for a fuller batch; False when it was closed."""
        with self._changed:
            while not (self._closed or self._waiting or self.unreported):
                self._wake_at = 1
                self._changed.wait()
            if not self._in_a_hurry(max_events):
                self._wake_at = max_events
                self._changed.wait_for(lambda: self._in_a_hurry(max_events), linger_s)
            self._wake_at = 0
            return not self._closed

    def _in_a_hurry(self, max_events: int) -> bool:
        return self._closed or self._draining > 0 or len(self._waiting) >= max_events

    def take(self, max_events: int) -> list[Event]:
        """Return the oldest events; they count as in flight until `settle` or `put_back`."""
        with self._changed:
            self._in_flight = [self._waiting.popleft() for _ in range(min(max_events, len(self._waiting)))]
            return self._in_flight

    def settle(self, *, refused: int = 0, reported: int = 0) -> None:
        """Note that those in flight have been sent, but for the refused ones; `reported` drops need no more word."""
        with self._changed:
            self.sent += len(self._in_flight) - refused
            self._in_flight = []
            self._drop(refused)
            self.unreported -= reported
            if self._blocked or not (self._waiting or self.unreported):
                self._changed.notify_all()

    def put_back(self) -> None:
        """Note that those in flight could not be sent: they are the oldest again."""
        with self._changed:
            self._waiting.extendleft(reversed(self._in_flight))
            self._in_flight = []

    def pause(self, seconds: float) -> None:
        """Wait before another attempt; somebody who flushes or closes cuts it short."""
        with self._changed:
            seen = self._hurries
            self._changed.wait_for(lambda: self._closed or self._hurries != seen, seconds)

    def drain(self, timeout_s: float) -> bool:
        """Send everything without waiting for fuller batches; False if something is left after `timeout_s`."""
        with self._changed:
            self._hurries += 1
            self._draining += 1
            self._changed.notify_all()
            try:
                return self._changed.wait_for(lambda: not self.left and not self.unreported, timeout_s)
            finally:
                self._draining -= 1

    def close(self) -> None:
        """Accept nothing more, and drop what is left."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    @property
    def left(self) -> int:
        """How many events are here, waiting or in flight."""
        return len(self._waiting) + len(self._in_flight)
