"""Searches through whole topics: each in a thread, with its progress, to be cancelled, and never in a group.

Bounded: some at a time, a limit on finds and on minutes. A search that nobody asks about any more is forgotten.
"""

import logging
import secrets
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, Literal

import orjson
from confluent_kafka import Message
from pydantic import BaseModel, Field

from penstock.console.errors import A_DEFECT
from penstock.console.masks import Masks
from penstock.console.records import MOST_HELD_BYTES, Content, Record, headers_of, that_fit
from penstock.errors import BadInput, Conflict, NotFound, PenstockError
from penstock.kafka import topics
from penstock.kafka.admin import Admin
from penstock.kafka.connection import Connection
from penstock.kafka.positions import Position, bounds, resolve
from penstock.kafka.reader import Reader

_MOST_AT_ONCE = 4
_MOST_KEPT = 50
_MOST_KEPT_BYTES = 4 * MOST_HELD_BYTES
_LONGEST_S = 300.0
_MOST_DIGITS = 9
_log = logging.getLogger(__name__)


class Wanted(BaseModel, frozen=True, extra="forbid"):
    """Criteria of a search: a record has to meet all of them."""

    topic: str = Field(max_length=249, description="Topic.")
    key: str | None = Field(None, description="Text that the key contains.")
    value: str | None = Field(None, description="Text that the value contains.")
    header: str | None = Field(None, description="Text that the name or the content of a header contains.")
    json_path: str | None = Field(
        None,
        max_length=1_000,
        pattern=r"^[^.\s]+(\.[^.\s]+)*$",
        description="Field of a JSON value, such as customer.id or items.0.sku.",
    )
    equals: str | None = Field(None, description="What the field has to be, as text; that it is there, if left out.")
    start: str = Field(
        "earliest", max_length=64, description="Where to begin: earliest, an offset, a time, or 15m ago."
    )
    partition: int | None = Field(None, ge=0, description="Only this partition.")
    most: int = Field(100, ge=1, le=1_000, description="How many to find at most.")

    def check(self) -> None:
        """Raise unless something is looked for."""
        if not any((self.key, self.value, self.header, self.json_path)):
            raise BadInput("say what to look for: key, value, header or json_path")
        if self.equals is not None and self.json_path is None:
            raise BadInput("equals goes with json_path")

    def takes(self, message: Message) -> bool:
        """Return whether a record is meant."""
        headers = [(name, _bytes(found)) for name, found in headers_of(message)] if self.header else []
        return self._fits(_bytes(message.key()), _bytes(message.value()), headers)

    def takes_shown(self, record: Record) -> bool:
        """Return whether a record is meant by what is shown of it."""
        headers = [(name, _shown(found)) for name, found in record.headers]
        return self._fits(_shown(record.key), _shown(record.value), headers)

    def _fits(self, key: bytes, value: bytes, headers: list[tuple[str, bytes]]) -> bool:
        return (
            (not self.key or self.key.encode() in key)
            and (not self.value or self.value.encode() in value)
            and (not self.header or self._in_headers(self.header.encode(), headers))
            and (not self.json_path or self._at_path(self.json_path, value))
        )

    def _in_headers(self, wanted: bytes, headers: list[tuple[str, bytes]]) -> bool:
        return any(wanted in name.encode() or wanted in found for name, found in headers)

    def _at_path(self, path: str, value: bytes) -> bool:
        try:
            found: Any = orjson.loads(value)
        except orjson.JSONDecodeError:
            return False
        for part in path.split("."):
            if isinstance(found, dict) and part in found:
                found = found[part]
            elif isinstance(found, list) and _is_index(part) and int(part) < len(found):
                found = found[int(part)]
            else:
                return False
        if self.equals is None:
            return True
        try:
            return self.equals == (found if isinstance(found, str) else orjson.dumps(found).decode())
        except TypeError:  # nested deeper than it can be written again
            return False


class Search(BaseModel, frozen=True):
    """A search as it stands."""

    id: str = Field(description="Its id.")
    wanted: Wanted = Field(description="What is looked for.")
    state: Literal["running", "done", "enough", "too long", "cancelled", "failed"] = Field(
        description="enough: it found as many as were asked for, or may be held; too long: it ended after five minutes."
    )
    looked_at: int = Field(description="Offsets it went past.")
    total: int = Field(description="Offsets there were when it began.")
    found: list[Record] = Field(description="What it found so far.")
    problem: str = Field("", description="Why it failed.")


class _Running:
    def __init__(self, owner: str, search_id: str, wanted: Wanted) -> None:
        self.owner = owner
        self.now = Search(id=search_id, wanted=wanted, state="running", looked_at=0, total=0, found=[])
        self.cancelled = threading.Event()

    def update(self, **news: Any) -> None:
        self.now = self.now.model_copy(update=news)


class Searches:
    """The searches of a console; each is its owner's."""

    def __init__(self, connection: Callable[[], Connection], admin: Callable[[], Admin], masks: Masks) -> None:
        self._masks = masks
        self._connection = connection
        self._admin = admin
        self._lock = threading.Lock()
        self._known: OrderedDict[str, _Running] = OrderedDict()

    def begin(self, owner: str, wanted: Wanted) -> Search:
        """Start a search; raise `Conflict` if too many run."""
        wanted.check()
        total, starts = self._extent(wanted)
        running = _Running(owner, secrets.token_hex(8), wanted)
        running.update(total=total)
        with self._lock:
            if sum(each.now.state == "running" for each in self._known.values()) >= _MOST_AT_ONCE:
                raise Conflict(f"{_MOST_AT_ONCE} searches are running", fix="Cancel one, or try again in a moment")
            self._known[running.now.id] = running
            self._forget_old()
        threading.Thread(target=self._run, args=(running, starts), name="search", daemon=True).start()
        return running.now

    def _forget_old(self) -> None:
        """Keep the newest that have ended, as many as there is room for."""
        ended = [key for key, each in self._known.items() if each.now.state != "running"]
        left = _MOST_KEPT_BYTES
        for number, key in enumerate(reversed(ended)):
            left -= sum(each.held_bytes for each in self._known[key].now.found)
            if number >= _MOST_KEPT or left < 0:
                del self._known[key]

    def get(self, owner: str, search_id: str) -> Search:
        """Return how a search stands."""
        return self._of(owner, search_id).now

    def cancel(self, owner: str, search_id: str) -> Search:
        """End a search; what it found stays."""
        running = self._of(owner, search_id)
        running.cancelled.set()
        return running.now

    def end(self) -> None:
        """End all searches."""
        for each in list(self._known.values()):
            each.cancelled.set()

    def _of(self, owner: str, search_id: str) -> _Running:
        found = self._known.get(search_id)
        if found is None or found.owner != owner:
            raise NotFound("there is no such search of yours")
        return found

    def _extent(self, wanted: Wanted) -> tuple[int, dict[tuple[str, int], int]]:
        admin = self._admin()
        numbers = topics.identify(admin, [wanted.topic])[wanted.topic][1]
        partitions = [(wanted.topic, number) for number in numbers if wanted.partition in (None, number)]
        starts = resolve(admin, Position.parse(wanted.start), partitions)
        return sum(end - starts[each] for each, (_, end) in bounds(admin, partitions).items()), starts

    def _run(self, running: _Running, starts: dict[tuple[str, int], int]) -> None:
        try:
            running.update(state=self._looked_through(running, starts))
        except PenstockError as error:
            running.update(state="failed", problem=str(error))
        except Exception:  # noqa: BLE001 - a search that stays "running" would keep the place of another for good
            _log.exception(A_DEFECT)
            running.update(state="failed", problem=A_DEFECT)

    def _found(self, wanted: Wanted, batch: list[Message]) -> list[Record]:
        if wanted.json_path is None and not self._masks.applies_to(wanted.topic):
            taken = [each for each in batch if wanted.takes(each)]
            shown = [(self._masks.record_of(each), self._masks.applies_to_record(each)) for each in taken]
            return [record for record, is_masked in shown if not is_masked or wanted.takes_shown(record)]
        # By what is shown alone: fields are there once a value is decoded, and a search must not update what is hidden.
        return [each for each in map(self._masks.record_of, batch) if wanted.takes_shown(each)]

    def _looked_through(self, running: _Running, starts: dict[tuple[str, int], int]) -> str:
        wanted, deadline = running.now.wanted, time.monotonic() + _LONGEST_S
        reached = dict(starts)
        begin = Position.parse(wanted.start)
        with Reader(self._connection(), wanted.topic, start=begin, partition=wanted.partition) as reader:
            for batch in reader.batches():
                found = self._found(wanted, batch)
                for each in batch:
                    reached[wanted.topic, int(each.partition() or 0)] = int(each.offset() or 0) + 1
                looked_at = sum(reached[each] - starts[each] for each in starts)
                fitting = that_fit([*running.now.found, *found][: wanted.most])
                is_full = len(fitting) < len(running.now.found) + len(found)
                running.update(looked_at=looked_at, found=fitting)
                if running.cancelled.is_set():
                    return "cancelled"
                if is_full or len(fitting) >= wanted.most:
                    return "enough"
                if time.monotonic() > deadline:
                    return "too long"
        running.update(looked_at=running.now.total)
        return "done"


def _is_index(part: str) -> bool:
    return part.isdecimal() and len(part) <= _MOST_DIGITS


def _shown(found: Content | None) -> bytes:
    return b"" if found is None else found.text.encode()


def _bytes(found: bytes | str | None) -> bytes:
    return found.encode() if isinstance(found, str) else found or b""
