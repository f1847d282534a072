"""Who did what and when, kept in a topic: every request that changes something, and its outcome.

Guarantee: an action never waits for its record, and never fails because of it. Records wait in a bounded queue while
Kafka is away; what does not fit is reported in the console's log. Bodies of requests are not kept: they may hold
anybody's data. Where the path of a request does not say what it changes, its route says so in a few words.
"""

import logging
import queue
import threading
from collections.abc import Callable
from contextlib import suppress

from pydantic import BaseModel, Field

from penstock.errors import Conflict, PenstockError
from penstock.kafka import topics
from penstock.kafka.admin import Admin
from penstock.kafka.connection import Connection
from penstock.kafka.positions import Position
from penstock.kafka.producer import Producer
from penstock.kafka.reader import Reader
from penstock.kafka.topic_spec import TopicSpec

TOPIC = "penstock.console-audit"
_KEPT = TopicSpec.model_validate({"partitions": 1, "retention": "90d"})
_MOST_WAITING = 1_000
_AGAIN_S = 5.0
_LAST_S = 3.0
_log = logging.getLogger(__name__)


class Entry(BaseModel, frozen=True):
    """One request that would change something."""

    at: float = Field(description="When, in seconds since 1970.")
    who: str = Field(description="Who asked; anonymous on a console without sign-in.")
    role: str = Field(description="Their role then.")
    address: str = Field(description="Where they asked from.")
    action: str = Field(description="What was asked for, such as DELETE /topics/orders.")
    action_id: str = Field(description="The id of the action; the same one twice was done once.")
    outcome: str = Field(description="done, or why not.")
    about: str = Field("", description="What was changed, where the request's path does not say it.")


class Audit:
    """Keeps entries, and reads them again."""

    def __init__(self, connection: Callable[[], Connection], admin: Callable[[], Admin]) -> None:
        self._connection = connection
        self._admin = admin
        self._waiting: queue.Queue[Entry | None] = queue.Queue(_MOST_WAITING)
        self._thread: threading.Thread | None = None
        self._ended = threading.Event()

    def begin(self) -> None:
        """Start sending."""
        self._thread = threading.Thread(target=self._run, name="audit", daemon=True)
        self._thread.start()

    def note(self, entry: Entry) -> None:
        """Keep an entry; returns at once."""
        try:
            self._waiting.put_nowait(entry)
        except queue.Full:
            _log.warning("the audit log lacks '%s' by '%s': Kafka does not accept it", entry.action, entry.who)

    def newest(self, count: int) -> list[Entry]:
        """Return the newest entries, the newest first; none if nothing was done yet."""
        if TOPIC not in {each.topic for each in topics.list_topics(self._admin())}:
            return []
        with Reader(self._connection(), TOPIC, start=Position("before_end", count)) as reader:
            values = [message.value() for message in reader]
        found = []
        for value in values:
            with suppress(ValueError):  # anybody may write to a topic
                found.append(Entry.model_validate_json(value or b""))
        return sorted(found, key=lambda each: each.at, reverse=True)[:count]

    def end(self) -> None:
        """Send what waits, if Kafka takes it within seconds."""
        self._ended.set()
        with suppress(queue.Full):
            self._waiting.put_nowait(None)
        if self._thread is not None:
            self._thread.join(_LAST_S)

    def _run(self) -> None:
        while True:
            entry = self._waiting.get()
            if entry is None:
                return
            while not self._is_sent(entry):
                if self._ended.wait(_AGAIN_S):
                    return

    def _is_sent(self, entry: Entry) -> bool:
        try:
            admin = self._admin()
            if TOPIC not in {each.topic for each in topics.list_topics(admin)}:
                with suppress(Conflict):  # another console has just made it
                    topics.create(admin, TOPIC, _KEPT)
            with Producer(self._connection()) as producer:
                producer.send(TOPIC, entry.model_dump_json(), key=entry.who)
        except PenstockError:
            return False
        return True
