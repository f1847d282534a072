"""How much memory a driver and its JVM have, at most, while it runs."""

import threading
from contextlib import suppress
from typing import Self

import psutil

_LOOK_EVERY_S = 0.25


class Memory:
    """Looks every quarter of a second. Python workers, which come and go with Spark's tasks, are not the driver's."""

    def __init__(self, pid: int) -> None:
        self._driver = psutil.Process(pid)
        self.most_bytes = 0
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def _look(self) -> None:
        while not self._ended.wait(_LOOK_EVERY_S):
            # Processes end while they are looked at.
            with suppress(psutil.Error):
                jvms = [child for child in self._driver.children() if "java" in child.name()]
                self.most_bytes = max(self.most_bytes, sum(each.memory_info().rss for each in [self._driver, *jvms]))
