"""What topics take on disk: counted by the files of a local cluster, at most twice a minute for all who ask."""

import threading
import time
from collections.abc import Callable

from penstock.broker.cluster import Cluster
from penstock.broker.local_nodes import topic_bytes

_GOOD_S = 30.0


class Sizes:
    """The topics of the local cluster. Thousands of partitions are as many folders to look into."""

    def __init__(self, cluster: Callable[[], Cluster]) -> None:
        self._cluster = cluster
        self._lock = threading.Lock()
        self._counted: dict[str, int] = {}
        self._counted_at = -_GOOD_S

    def of_all(self) -> dict[str, int]:
        """Return the bytes of all replicas of each topic."""
        with self._lock:
            if time.monotonic() - self._counted_at >= _GOOD_S:
                self._counted, self._counted_at = topic_bytes(self._cluster()), time.monotonic()
            return self._counted
