"""Polling a cluster every few seconds, in a thread of its own, once for all viewers."""

import threading
from abc import ABC, abstractmethod

from penstock.errors import PenstockError

EVERY_S = 5.0


class Looks(ABC):
    """Looks at a system repeatedly, from `begin` to `end`. Who reads the results holds the lock."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None

    def begin(self) -> None:
        """Start looking, unless that was done before."""
        with self._lock:
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name=type(self).__name__, daemon=True)
                self._thread.start()

    def end(self) -> None:
        """Stop looking."""
        self._ended.set()

    @abstractmethod
    def look(self) -> None:
        """Look once."""

    @abstractmethod
    def forget(self) -> None:
        """Drop what was seen before an outage, so that nothing is made up across it; the lock is held."""

    def _run(self) -> None:
        while True:
            try:
                self.look()
            except PenstockError:
                with self._lock:
                    self.forget()
            if self._ended.wait(EVERY_S):
                return
