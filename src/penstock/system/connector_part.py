"""A connector as a part of the system."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

import orjson

from penstock.broker.readiness import wait_until
from penstock.config.local_services import local_service
from penstock.connect.client import ConnectClient, Connector
from penstock.connect.connectors import with_named_secrets
from penstock.errors import EnvironmentNotReady, NotFound, PenstockError
from penstock.system.part import Kind

_READY_S = 60.0


@dataclass(frozen=True)
class ConnectorPart:
    """A connector of the project file."""

    name: str
    home: Path
    config: Mapping[str, str | int | bool] = field(default_factory=dict)
    base: Path = Path()
    """What paths of secrets count from."""
    needs: tuple[str, ...] = ("connect",)
    kind: ClassVar[Kind] = "connector"

    def digest(self) -> str:
        """Return a digest of its settings, with secrets as they are named."""
        return hashlib.sha256(orjson.dumps(dict(self.config), option=orjson.OPT_SORT_KEYS)).hexdigest()

    def is_running(self) -> bool:
        """Return whether the worker runs it; if nobody can be asked, it does not."""
        try:
            return self.look().state not in {"STOPPED", "FAILED"}
        except PenstockError:
            return False

    def look(self) -> Connector:
        """Return how it is; raise `NotFound` if there is none."""
        return self._client().connector(self.name)

    def start(self) -> None:
        """Make it, or give it other settings, and let it go on if it was stopped."""
        client = self._client()
        given = {
            key: str(value).lower() if isinstance(value, bool) else str(value) for key, value in self.config.items()
        }
        known = client.secret_settings(given)
        client.put(self.name, with_named_secrets(self.name, given, self.home, self.base, known=known))
        client.resume(self.name)

    def wait(self) -> str:
        """Wait until it and its tasks run."""

        def runs() -> bool:
            try:
                found = self.look()
            except NotFound:  # the worker has heard of it, and its topic has not
                return False
            if found.has_failed:
                raise EnvironmentNotReady(
                    f"connector '{self.name}' has failed: {found.trace.splitlines()[0]}",
                    fix=f"See: penstock connect show {self.name}",
                )
            return found.is_running

        fix = f"See: penstock connect show {self.name}"
        wait_until(runs, timeout_s=_READY_S, waiting_for=f"waiting for connector '{self.name}'", fix=fix)
        return f"connector '{self.name}' runs"

    def stop(self) -> None:
        """End its tasks; its settings and offsets stay with the worker."""
        self._client().stop(self.name)

    def _client(self) -> ConnectClient:
        return ConnectClient(local_service(self.home, "connect"))
