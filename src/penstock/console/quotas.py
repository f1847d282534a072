"""Quotas of Kafka's users, for all who ask a console."""

import threading
from collections.abc import Callable, Sequence
from pathlib import Path

from penstock.broker import quotas
from penstock.broker.quotas import Quota
from penstock.jvm.jars import KAFKA, ensure
from penstock.kafka.admin import Admin


class Quotas:
    """Quotas of one cluster. Kafka's tool is run by one at a time: each run is a JVM."""

    def __init__(self, admin: Callable[[], Admin], jars: Path) -> None:
        self._admin, self._jars = admin, jars
        self._lock = threading.Lock()

    def list(self) -> list[Quota]:
        """Return the quotas of users."""
        with self._lock:
            return quotas.list_quotas(self._admin(), self._classpath())

    def put(self, quota: Quota) -> None:
        """Set a quota."""
        with self._lock:
            quotas.put(self._admin(), self._classpath(), quota)

    def remove(self, user: str | None) -> bool:
        """Remove a quota; return whether there was one."""
        with self._lock:
            return quotas.remove(self._admin(), self._classpath(), user)

    def _classpath(self) -> Sequence[Path]:
        return ensure(KAFKA, self._jars)
