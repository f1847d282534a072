"""The program beside a worker of Connect that starts what has failed again, because Connect itself never does.

The pause before each try grows to a minute, and starts over after a connector has run well for as long. One that
somebody has paused or stopped is left alone. What was done is on record for `penstock connect list` and `show`.
A snapshot of a capture that was interrupted is restarted.
"""

import sys
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType

from penstock.config.local_services import folder_of, local_service
from penstock.connect import restarts, snapshots
from penstock.connect.cdc import Captures
from penstock.connect.client import ConnectClient, Connector
from penstock.connect.restarts import Restarts
from penstock.delivery.holding import held
from penstock.errors import NotFound, PenstockError
from penstock.kafka.admin import Admin
from penstock.pauses import Pauses

_LOOK_EVERY_S = 2.0
_MEANT_TO_RUN = {"RUNNING", "FAILED"}


@dataclass
class _Watched:
    """A connector that has failed before."""

    pauses: Pauses = field(default_factory=Pauses)
    started_at: float = 0.0
    recorded: Restarts = field(default_factory=Restarts)


class Watch:
    """Checks all connectors of a worker regularly."""

    def __init__(self, client: ConnectClient, folder: Path) -> None:
        self._client = client
        self._folder = folder
        self._watched = {name: _Watched(recorded=each) for name, each in restarts.load(folder).items()}

    def look(self, now: float) -> None:
        """Start again what has failed and whose pause is over; `now` is the time in seconds since 1970."""
        there = self._client.connectors()
        before = {name: each.recorded for name, each in self._watched.items()}
        for name in self._watched.keys() - {each.name for each in there}:
            del self._watched[name]
        for each in there:
            if each.has_failed and each.state in _MEANT_TO_RUN:
                self._look_at(each, now)
        recorded = {name: each.recorded for name, each in self._watched.items()}
        if recorded != before:
            restarts.save(self._folder, recorded)

    def _look_at(self, connector: Connector, now: float) -> None:
        watched = self._watched.setdefault(connector.name, _Watched())
        recorded = watched.recorded
        if recorded.again_at is None:
            pause_s = watched.pauses.after(now - watched.started_at)
            watched.recorded = Restarts(
                count=recorded.count, reason=connector.cause, failed_at=now, again_at=now + pause_s
            )
        elif now >= recorded.again_at:
            self._client.restart(connector.name, only_failed=True)
            watched.started_at = now
            watched.recorded = recorded.model_copy(update={"count": recorded.count + 1, "again_at": None})


class SnapshotWatch:
    """Looks at the snapshots of all captures, and restarts those that were interrupted."""

    def __init__(self, captures: Captures, open_admin: Callable[[], Admin]) -> None:
        self._captures = captures
        self._open_admin = open_admin
        self._admin: Admin | None = None
        """Kept from look to look; opened again after a failure, and before anything is done."""
        self._looked_at: dict[str, int] = {}
        """By capture where the topic that tells of its snapshots ended when there was nothing to do."""

    def look(self) -> None:
        """Restart what was interrupted; go on with what an earlier watch has left half done.

        Raise the first capture's error once all have been checked.
        """
        failures = list[PenstockError]()
        for name in self._captures.names():
            try:
                with suppress(BlockingIOError), held(self._captures.lock_of(name)):  # or it is being added, or removed
                    self._look_at(name)
            except PenstockError as error:
                self._admin = None
                failures.append(error)
        if failures:
            raise failures[0]

    def _look_at(self, name: str) -> None:
        try:
            self._admin = self._admin or self._open_admin()
            end = snapshots.end(self._admin, name)
            if self._looked_at.get(name) == end:
                return
            admin = self._admin = self._open_admin()  # which looks whose Kafka it is: what follows writes to it
            capture, found = self._captures.load(name), snapshots.state(admin, name)
            connector = self._captures.client.connector(name)
        except NotFound:  # an addition was not completed, or a removal, or it is done
            return
        if found == "interrupted" and connector.state not in _MEANT_TO_RUN:
            return  # somebody has paused or stopped it
        if found in {"interrupted", "restarting"}:
            sys.stderr.write(f"the snapshot of '{name}' was interrupted, and is taken again from its beginning\n")
            self._captures.restart_snapshot(capture, admin)
        elif found == "not begun" and connector.state == "STOPPED":
            self._captures.client.resume(name)
        else:
            self._looked_at[name] = end


def run(home: Path, open_admin: Callable[[], Admin]) -> None:
    """Watch the worker of the project with this home folder, until a signal ends it."""
    client = ConnectClient(local_service(home, "connect"))
    watch, of_snapshots = Watch(client, folder_of(home, "connect")), SnapshotWatch(Captures(home, client), open_admin)
    connectors_failing, snapshots_failing = _Trouble("connectors"), _Trouble("snapshots")
    while True:
        with connectors_failing:
            watch.look(time.time())
        with snapshots_failing:
            of_snapshots.look()
        time.sleep(_LOOK_EVERY_S)


class _Trouble(AbstractContextManager[None]):
    """Reports a failure once, and again only if it changes: the worker or Kafka may still be starting, or be down."""

    def __init__(self, what: str) -> None:
        self._what = what
        self._said = ""

    def __exit__(
        self, _kind: type[BaseException] | None, error: BaseException | None, _t: TracebackType | None
    ) -> bool:
        words = str(error) if isinstance(error, PenstockError) else ""
        if words and words != self._said:
            sys.stderr.write(f"watching {self._what}: {words}\n")
        self._said = words
        return bool(words)
