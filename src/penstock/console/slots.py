"""Replication slots of captures as many people look at them: a database is asked once at a time, and not all the time.

One that does not answer takes ten seconds to be given up. Whoever asks meanwhile gets what was known before.
"""

import threading
import time
from collections.abc import Callable

from penstock.connect.cdc import Capture, SlotStatus, slot_status

_FRESH_S = 4.0
_STATEMENT_MS = 5_000


class Slots:
    """What the databases said last."""

    def __init__(self, ask: Callable[[Capture], SlotStatus] = lambda each: slot_status(each, _STATEMENT_MS)) -> None:
        self._ask = ask
        self._lock = threading.Lock()
        self._known: dict[str, tuple[float, SlotStatus]] = {}
        self._asked: set[str] = set()

    def look(self, capture: Capture) -> SlotStatus:
        """Return how the slot is; what was known before while somebody else is asking."""
        with self._lock:
            at, known = self._known.get(capture.name, (0.0, _not_yet(capture)))
            if capture.name in self._asked or (at and time.monotonic() - at < _FRESH_S):
                return known
            self._asked.add(capture.name)
        try:
            found = self._ask(capture)
            with self._lock:
                self._known[capture.name] = (time.monotonic(), found)
            return found
        finally:
            with self._lock:
                self._asked.discard(capture.name)


def _not_yet(capture: Capture) -> SlotStatus:
    return SlotStatus(slot=capture.slot, state="unknown", problem="the database is being asked")
