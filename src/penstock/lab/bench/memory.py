"""How much memory a driver, its JVM and Spark's Python workers have, at most, while it runs."""

import threading
from collections.abc import Collection
from contextlib import suppress
from dataclasses import dataclass
from typing import Self

import psutil

_LOOK_EVERY_S = 0.25


@dataclass
class PeakMemory:
    """The most bytes that each had."""

    driver: int = 0
    jvm: int = 0
    worker: int = 0
    """The largest Python worker."""


class Memory:
    """Looks every quarter of a second. Python workers, which come and go with Spark's tasks, are not the driver's."""

    def __init__(self, pid: int, servers: Collection[int] = ()) -> None:
        """`servers` are processes that the driver has started beside its JVM."""
        self._driver = psutil.Process(pid)
        self._servers = servers
        self._lately = PeakMemory()
        self.most_bytes = 0
        """Of the driver and its JVM together."""
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def lately(self) -> PeakMemory:
        """Return the most that each had since this was last asked."""
        found, self._lately = self._lately, PeakMemory()
        return found

    def _look(self) -> None:
        while not self._ended.wait(_LOOK_EVERY_S):
            # Processes end while they are looked at.
            with suppress(psutil.Error):
                children = self._driver.children()
                jvms = [child for child in children if "java" in child.name() and child.pid not in self._servers]
                driver = self._driver.memory_info().rss
                jvm = sum(each.memory_info().rss for each in jvms)
                self.most_bytes = max(self.most_bytes, driver + jvm)
                workers = [each.memory_info().rss for jvm in jvms for each in jvm.children(recursive=True)]
                most = self._lately
                most.driver, most.jvm = max(most.driver, driver), max(most.jvm, jvm)
                most.worker = max(most.worker, *workers, 0)
