"""Dead letters: failed records, kept byte for byte, with what failed and where.

A dead letter has the key, value, headers and timestamp of the record, and adds headers that begin with `penstock.`. Its
topic does not expire records, and accepts what any topic accepts. Where it does not, because its settings cannot be
changed, the letter is a stub: everything but the record's key, value and headers, with the size and the SHA-256 of the
value.

Dead letters are committed before any sink, with a position of their own: what was judged dead once stays dead, even if
a second try of the same batch would succeed.
"""

import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from confluent_kafka import Message

from penstock.delivery.dead_envelope import dead_topic_of
from penstock.delivery.dead_letter import understand
from penstock.delivery.dead_stager import DeadStagerFactory
from penstock.delivery.outbox import Outbox
from penstock.delivery.verdicts import Verdict, Verdicts
from penstock.errors import BadInput, FormatNotUnderstood, Refused, one_line
from penstock.kafka import topics
from penstock.kafka.admin import Admin
from penstock.kafka.connection import Connection
from penstock.kafka.reader import Reader
from penstock.kafka.topic_limits import TopicLimits, limits_of
from penstock.kafka.topic_spec import TopicSpec
from penstock.record.positions import OffsetRange, Positions, SourcePartition

SINK_NAME = "dead"
_SPREADING_S = 5.0
_LARGE = {
    "max.message.bytes": "100000000",
    "message.timestamp.type": "CreateTime",
    "message.timestamp.before.max.ms": str(2**63 - 1),
    "message.timestamp.after.max.ms": str(2**63 - 1),
}
"""Limits of a dead-letter topic: it accepts what any topic has accepted. By default Kafka would refuse some records."""


def make_topics(admin: Admin, wanted: Mapping[str, int]) -> dict[str, int]:
    """Create missing dead-letter topics, make sure that none expires; return how many partitions each has."""
    found = {}
    for name, partitions in wanted.items():
        kept = TopicSpec(partitions=partitions, cleanup="delete", retention="forever", retention_size="unlimited")
        found[name] = topics.ensure(admin, name, kept, preferred=_LARGE)
        _enlarge(admin, name)
    return found


def _enlarge(admin: Admin, name: str) -> None:
    """Raise limits that come from the cluster's defaults, and wait until they apply; or make do with stubs."""
    deadline = time.monotonic() + _SPREADING_S
    with suppress(Refused, BadInput):
        while time.monotonic() < deadline and (changes := _too_small(admin, name)):
            topics.alter_config(admin, name, {**changes})


def _too_small(admin: Admin, name: str) -> dict[str, str]:
    defaults = {key: value for key, (value, is_own) in topics.config(admin, name).items() if not is_own}
    return {key: value for key, value in _LARGE.items() if defaults.get(key, value) != value}


class DeadLetters:
    """The dead letters of one pipeline."""

    positions_expire = True

    def __init__(
        self, connection: Connection, pipeline: str, template: str, scratch: Path, group: str, sinks: Sequence[str] = ()
    ) -> None:
        self._connection = connection
        self._pipeline = pipeline
        self._sinks = list(sinks)
        self._template = template
        self._scratch = scratch / SINK_NAME
        self._outbox = Outbox(connection, SINK_NAME, group)
        self._partitions: dict[str, int] = {}
        self._limits: dict[str, TopicLimits] = {}
        self._verdicts = Verdicts(connection, self._verdict)
        self.called_now: Callable[[str | None, SourcePartition, int], str | None] = lambda sink, _at, _offset: sink
        """Returns the present name of the sink that a letter was made for, given the record's coordinates."""

    def open(self, wanted: Mapping[str, int]) -> None:
        """Make the dead-letter topics that are missing, each with this many partitions and no expiry."""
        missing = {name: partitions for name, partitions in wanted.items() if name not in self._partitions}
        if missing:
            admin = Admin(self._connection)
            self._partitions |= make_topics(admin, missing)
            self._limits |= {name: limits_of(admin, name) for name in missing}
            self._outbox.batch_max_bytes = min(limits.max_bytes for limits in self._limits.values())

    def topic_of(self, source: str) -> str:
        """Name the dead-letter topic of a source topic."""
        return dead_topic_of(source, self._template, self._pipeline)

    def positions(self, source_partitions: Iterable[SourcePartition]) -> Positions:
        """Read how far records have been judged."""
        return self._outbox.positions(source_partitions)

    def take_over(self) -> None:
        """Fence older drivers."""
        self._outbox.take_over()

    def hold(self, positions: Positions) -> None:
        """Commit these positions with every transaction from now on."""
        self._outbox.hold(positions)

    def refresh(self) -> None:
        """Keep Kafka from forgetting positions and transactional id."""
        self._outbox.refresh()

    def holds_fence(self) -> bool:
        """Return whether this driver is the newest."""
        return self._outbox.holds_fence()

    def stager(self) -> DeadStagerFactory:
        """Return the stager for dead letters, which is sent to tasks."""
        return DeadStagerFactory(
            self._pipeline, self._sinks, self._template, dict(self._partitions), dict(self._limits), self._scratch
        )

    def commit(self, files: list[Path], expected: Mapping[SourcePartition, int | None], ends: Positions) -> int:
        """Send dead letters and move their positions, in one transaction."""
        sent = self._outbox.send(files, expected, ends)
        for path in files:
            path.unlink()
        return sent

    def recorded(self, offset_ranges: Iterable[OffsetRange]) -> dict[SourcePartition, set[tuple[int, str | None]]]:
        """Find what is a dead letter already among these offsets: by offset, and sink as it is called now."""
        wanted = list(offset_ranges)
        # What a replay reads is itself the topic that its letters come back to.
        topics = {
            name
            for each in wanted
            for name in (each.source_partition.topic, self.topic_of(each.source_partition.topic))
        }
        topics &= self._partitions.keys()
        if not topics:
            self._verdicts.forget()
            return {each.source_partition: set() for each in wanted}
        found = self._verdicts.among(wanted, {topic: self._partitions[topic] for topic in sorted(topics)})
        return {at: {(offset, self.called_now(sink, at, offset)) for offset, sink in of} for at, of in found.items()}

    def last_judged(self, source_partitions: Iterable[SourcePartition]) -> Positions:
        """Read all letters, and return the position after the last one of each source partition.

        If Kafka has forgotten the position, it is at least this one; no letter is beyond it.
        """
        wanted = {(each.topic_id, each.partition): each for each in source_partitions}
        found: Positions = {}
        if not self._partitions:
            return found
        with Reader(self._connection, *self._partitions, wait_for_open_transactions=True) as reader:
            for message in reader:
                verdict = self._verdict(message)
                if verdict is not None and (source_partition := wanted.get(verdict[:2])):
                    found[source_partition] = max(verdict[2] + 1, found.get(source_partition, 0))
        return found

    def beyond(self, positions: Positions) -> Positions:
        """Look for letters of records beyond these positions."""
        return {each: at for each, at in self.last_judged(positions).items() if at > positions[each]}

    def _verdict(self, message: Message) -> Verdict | None:
        """Read whom a letter was judged for; one of another version is not ours, whose version the position says."""
        try:
            letter = understand(message)
        except FormatNotUnderstood as error:
            warning = one_line(f"warning: passed over: {error.what}")  # what somebody else has written is in it
            print(warning, file=sys.stderr)  # noqa: T201 - this is the driver's process
            return None
        if letter is None or letter.pipeline != self._pipeline:
            return None
        return letter.source_id, letter.at_partition, letter.at, letter.sink

    def close(self) -> None:
        """Close the clients."""
        self._outbox.close()
