"""What a house sends from noon to noon, and the clock by which it does: a day takes a minute or two."""

import datetime
import threading
import time
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field

import orjson

from penstock.lineage.gateway.events import lineage_record
from penstock.lineage.seed.history import SeedOptions, history
from penstock.lineage.seed.house import Json

HOUR_S = 3600
DAY_S = 24 * HOUR_S
MIDNIGHT_S = 12 * HOUR_S
_FIRST_DAY = datetime.date(2026, 3, 1)
_NOON = datetime.datetime.combine(_FIRST_DAY, datetime.time(12), datetime.UTC)
_RUNS_PER_EVENT = 0.52
_LOOK_EVERY_S = 0.02
_WAYS = 2


@dataclass(frozen=True)
class Due:
    """An event, and when it is to be sent."""

    due_s: float
    """Seconds of the day, since noon."""
    value: bytes
    key: bytes | None
    root: int
    """The same for runs that belong together."""

    @property
    def by_http(self) -> bool:
        """Whether its house knows HTTP alone: that is one house in two."""
        return self.root % _WAYS == 0


def events_of_day(events: int, seed: int) -> list[Due]:
    """Return about this many events, as they are due. The same numbers give the same day."""
    runs = max(1, round(events * _RUNS_PER_EVENT))
    last = _FIRST_DAY + datetime.timedelta(days=1)
    options = SeedOptions(start=_FIRST_DAY, end=last, min_runs=runs, max_runs=runs, seed=seed)
    found = [_due(event) for event in _all(options)]
    return sorted((each for each in found if 0 <= each.due_s < DAY_S), key=lambda each: each.due_s)


def _all(options: SeedOptions) -> Iterator[Json]:
    for _, events in history(options):
        yield from events


def _due(event: Json) -> Due:
    parent = event["run"]["facets"].get("parent")
    root = event["run"]["runId"] if parent is None else parent["root"]["run"]["runId"]
    at = datetime.datetime.fromisoformat(event["eventTime"])
    record = lineage_record(orjson.dumps(event), None)
    return Due((at - _NOON).total_seconds(), record.value, record.key, zlib.crc32(root.encode()))


@dataclass
class DayClock:
    """The time of that day. It can be held at an hour until something has happened, as no real clock can."""

    seconds: float
    """How long the day really takes."""
    _holds: list[tuple[float, threading.Event]] = field(default_factory=list)
    _began: float = 0.0

    def hold(self, at_s: float, until: threading.Event) -> None:
        """Let no time pass at that hour until the event is set; said before the day begins, and in order."""
        self._holds.append((at_s, until))

    def begin(self) -> None:
        """Let it be noon."""
        self._lock = threading.Lock()
        self._began = time.monotonic()

    def now(self) -> float:
        """Return the seconds since noon."""
        with self._lock:
            passed = (time.monotonic() - self._began) * self.speed
            while self._holds and passed > self._holds[0][0]:
                at_s, until = self._holds[0]
                if not until.is_set():
                    self._began = time.monotonic() - at_s / self.speed
                    return at_s
                self._holds.pop(0)
            return passed

    @property
    def speed(self) -> float:
        """How many seconds of the day pass in a real one."""
        return DAY_S / self.seconds

    def wait_until(self, at_s: float, given_up: threading.Event) -> bool:
        """Wait for a time of the day; False if that has become useless."""
        while (left := at_s - self.now()) > 0:
            if given_up.wait(min(_LOOK_EVERY_S, left / self.speed)):
                return False
        return not given_up.is_set()
