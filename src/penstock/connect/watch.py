"""The program beside a worker of Connect that starts what has failed again, for Connect itself never does.

The pause before each try grows to a minute, and starts over after a connector has run well for as long. One that
somebody has paused or stopped is left alone. What was done is on record for `penstock connect list` and `show`.
"""

import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

from penstock.config.local_services import folder_of, local_service
from penstock.connect import restarts
from penstock.connect.client import ConnectClient, Connector
from penstock.connect.restarts import Restarts
from penstock.errors import PenstockError
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
    """Looks at all connectors of a worker, now and then."""

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


def main() -> int:
    """Watch the worker of the project whose home folder is the one argument, until a signal ends it."""
    home = Path(sys.argv[1])
    watch, said = Watch(ConnectClient(local_service(home, "connect")), folder_of(home, "connect")), ""
    while True:
        try:
            watch.look(time.time())
            words = ""
        except PenstockError as error:  # the worker is not up yet, or away: its supervisor starts it again
            words = str(error)
        if words != said and words:
            sys.stderr.write(f"watching connectors: {words}\n")
        said = words
        time.sleep(_LOOK_EVERY_S)


if __name__ == "__main__":
    sys.exit(main())
