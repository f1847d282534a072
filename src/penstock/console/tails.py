"""Records as they arrive: one reader per viewer, never in a group, and no more in memory than a page shows.

A viewer who asks too seldom gets the number of records that were missed. A tail that nobody asks about ends by itself.
"""

import logging
import secrets
import threading
import time
from collections.abc import Callable
from typing import Literal

from pydantic import BaseModel, Field

from penstock.console.errors import A_DEFECT
from penstock.console.masks import Masks
from penstock.console.records import Record, that_fit
from penstock.errors import Conflict, NotFound, PenstockError
from penstock.kafka.connection import Connection
from penstock.kafka.positions import LATEST
from penstock.kafka.reader import Reader

_MOST_AT_ONCE = 20
_MOST_KEPT = 200
_NOBODY_LOOKS_S = 30.0
_log = logging.getLogger(__name__)


class TailWanted(BaseModel, frozen=True, extra="forbid"):
    """What to watch."""

    topic: str = Field(max_length=249, description="Topic.")
    partition: int | None = Field(None, ge=0, description="Only this partition.")


class TailLook(BaseModel, frozen=True):
    """What came since the last look."""

    id: str = Field(description="Id of the tail.")
    state: Literal["running", "ended", "failed"] = Field(description="running, ended or failed.")
    records: list[Record] = Field(description="Records that came since, the newest 200 at most, or fewer large ones.")
    skipped: int = Field(description="How many records since the last look were left out here.")
    problem: str = Field("", description="Why it failed.")


class _Tail:
    def __init__(self, owner: str, wanted: TailWanted) -> None:
        self.owner, self.wanted, self.id = owner, wanted, secrets.token_hex(8)
        self.ended = threading.Event()
        self.problem = ""
        self._lock = threading.Lock()
        self._records: list[Record] = []
        self._came = 0
        self.looked_s = time.monotonic()

    def put(self, records: list[Record], came: int) -> None:
        """Take records, the last ones of so many that came."""
        with self._lock:
            self._came += came
            held = that_fit(reversed([*self._records, *records][-_MOST_KEPT:]))
            self._records = held[::-1]

    def look(self) -> TailLook:
        with self._lock:
            records, came = self._records, self._came
            self._records, self._came = [], 0
        self.looked_s = time.monotonic()
        state: Literal["running", "ended", "failed"] = "failed" if self.problem else "running"
        if self.ended.is_set() and not self.problem:
            state = "ended"
        return TailLook(id=self.id, state=state, records=records, skipped=came - len(records), problem=self.problem)


class Tails:
    """The tails of a console; each is its owner's."""

    def __init__(self, connection: Callable[[], Connection], masks: Masks) -> None:
        self._masks = masks
        self._connection = connection
        self._lock = threading.Lock()
        self._known: dict[str, _Tail] = {}

    def begin(self, owner: str, wanted: TailWanted) -> TailLook:
        """Watch a topic from its present end on; raise `Conflict` if too many watch."""
        reader = Reader(self._connection(), wanted.topic, start=LATEST, end=None, partition=wanted.partition)
        tail = _Tail(owner, wanted)
        with self._lock:
            self._known = {key: each for key, each in self._known.items() if not each.ended.is_set()}
            if len(self._known) >= _MOST_AT_ONCE:
                reader.close()
                raise Conflict(f"{_MOST_AT_ONCE} topics are being watched already", fix="Try again in a moment")
            self._known[tail.id] = tail
        threading.Thread(target=self._run, args=(tail, reader), name="tail", daemon=True).start()
        return tail.look()

    def look(self, owner: str, tail_id: str) -> TailLook:
        """Return what came since the last look."""
        return self._of(owner, tail_id).look()

    def end(self, owner: str, tail_id: str) -> TailLook:
        """Watch no longer."""
        tail = self._of(owner, tail_id)
        tail.ended.set()
        return tail.look()

    def end_all(self) -> None:
        """Watch nothing any longer."""
        for each in list(self._known.values()):
            each.ended.set()

    def _of(self, owner: str, tail_id: str) -> _Tail:
        found = self._known.get(tail_id)
        if found is None or found.owner != owner:
            raise NotFound("there is no such tail of yours, or it has ended because nobody looked")
        return found

    def _run(self, tail: _Tail, reader: Reader) -> None:
        try:
            with reader:
                for batch in reader.batches(max_events=_MOST_KEPT * 5):
                    tail.put([self._masks.record_of(each) for each in batch[-_MOST_KEPT:]], len(batch))
                    if tail.ended.is_set() or time.monotonic() - tail.looked_s > _NOBODY_LOOKS_S:
                        return
        except PenstockError as error:
            tail.problem = str(error)
        except Exception:  # noqa: BLE001 - whoever watches has to be told
            _log.exception(A_DEFECT)
            tail.problem = A_DEFECT
        finally:
            tail.ended.set()
