"""One Kafka as a console sees it: the project's own, or another one that its file names."""

import threading
from collections.abc import Callable

from penstock.console.group_history import GroupHistory
from penstock.console.masks import Masks
from penstock.console.rates import Rates
from penstock.console.searches import Searches
from penstock.console.tails import Tails
from penstock.errors import Conflict
from penstock.kafka.admin import Admin
from penstock.kafka.connection import Connection


class KafkaSide:
    """Clients and looks at one cluster, shared by all who ask. It may be down, stop, and come back."""

    def __init__(self, name: str, connection: Callable[[], Connection], masks: Masks) -> None:
        self.name = name
        """Empty for the project's own."""
        self.connection = connection
        self.masks = masks
        self.rates = Rates(self.admin)
        self.group_history = GroupHistory(self.admin)
        self.searches = Searches(connection, self.admin, masks)
        self.tails = Tails(connection, masks)
        self._lock = threading.Lock()
        self._admin: Admin | None = None

    @property
    def is_own(self) -> bool:
        """Whether it is the project's own cluster, which pipelines, tables and the rest belong to."""
        return not self.name

    def admin(self) -> Admin:
        """Return the one admin client, opened when it is first needed, and reopened if the address has changed."""
        connection = self.connection()
        with self._lock:
            if self._admin is None or self._admin.connection != connection:
                self._admin = Admin(connection)
            return self._admin

    def require_own(self) -> None:
        """Raise `Conflict` for a cluster that somebody else starts and stops."""
        if not self.is_own:
            raise Conflict(
                f"cluster '{self.name}' is an external one: Penstock does not start or stop it",
                safe="Nothing was changed",
            )

    def begin(self) -> None:
        """Start looking at topics and groups, unless that was done before."""
        self.rates.begin()
        self.group_history.begin()

    def end(self) -> None:
        """Stop looking."""
        self.rates.end()
        self.group_history.end()
        self.searches.end()
        self.tails.end_all()
