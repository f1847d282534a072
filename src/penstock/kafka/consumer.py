"""The group consumer: batches by size and time, with positions that are never guessed.

Guarantees. With `commit="manual"` (the default) nothing is lost: a position moves only when `batch.commit()` says so,
and what was not committed comes again (at least once). With `commit="automatic"` positions move in the background,
every 5 seconds, as records are handed out: a crash can lose the current records and repeat those since the last commit.
An outage of the brokers is waited out, even if it ends in a rebalance; a refused login is raised.

`start` counts only for a group that has no position in the topic yet, and is fixed by a commit before the
first read, so that a restart cannot skip records; partitions added later are read from offset 0.
Records that retention deleted before the group read them raise `Conflict`; nothing is skipped in silence.
The headers of a record with a header whose name is not UTF-8 are left out, and that is logged.
"""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Literal, Self

from confluent_kafka import Consumer as Client
from confluent_kafka import KafkaError, KafkaException, Message, TopicPartition
from pydantic import BaseModel, Field

from penstock.errors import Conflict, OwnershipLost, Transient
from penstock.kafka import groups
from penstock.kafka.admin import Admin
from penstock.kafka.connection import FETCHING, Connection
from penstock.kafka.failures import Causes, logger, opening, translate
from penstock.kafka.headers import settle_headers
from penstock.kafka.positions import EARLIEST, Position, resolve
from penstock.kafka.topics import identify

Partitions = list[tuple[str, int]]
OnPartitions = Callable[[Partitions], None]

# Reports about what librdkafka fixes itself: a connection, or the membership of a consumer that was busy for too long.
_PASSING = {
    KafkaError._MAX_POLL_EXCEEDED,  # noqa: SLF001 - librdkafka's own names
    KafkaError._TRANSPORT,  # noqa: SLF001
    KafkaError._ALL_BROKERS_DOWN,  # noqa: SLF001
    KafkaError._TIMED_OUT,  # noqa: SLF001
}
_COMMIT_PATIENCE_S = 10.0
_COMMIT_PAUSE_S = 0.05
_REBALANCE_PAUSE_S = 0.2
_REBALANCING = {KafkaError.ILLEGAL_GENERATION, KafkaError.REBALANCE_IN_PROGRESS}
_LOST_OWNERSHIP = _REBALANCING | {
    KafkaError.UNKNOWN_MEMBER_ID,
    KafkaError.FENCED_INSTANCE_ID,
    KafkaError._ASSIGNMENT_LOST,  # noqa: SLF001 - librdkafka's own name
}


class ConsumerOptions(BaseModel, frozen=True, extra="forbid"):
    """How a consumer reads."""

    commit: Literal["manual", "automatic"] = Field("manual", description="Who moves the group's positions.")
    max_poll_interval_ms: int | None = Field(
        None, ge=1000, description="A member that is busy for longer than this (5 minutes) loses its partitions."
    )
    session_timeout_ms: int | None = Field(
        None, ge=1000, description="A member silent for this long (45 seconds) counts as dead."
    )
    instance_id: str | None = Field(
        None, min_length=1, description="Static membership: a restart under this name moves nothing."
    )

    def librdkafka(self) -> dict[str, Any]:
        """Return the client's settings."""
        settings: dict[str, Any] = {
            **FETCHING,
            "enable.auto.commit": self.commit == "automatic",
            "partition.assignment.strategy": "cooperative-sticky",
            "isolation.level": "read_committed",
            # Positions are settled in _assigned; a position that is gone is an error, never a jump.
            "auto.offset.reset": "error",
        }
        chosen = {
            "max.poll.interval.ms": self.max_poll_interval_ms,
            "session.timeout.ms": self.session_timeout_ms,
            "group.instance.id": self.instance_id,
        }
        return settings | {name: value for name, value in chosen.items() if value is not None}


@dataclass(frozen=True)
class Batch:
    """Records that arrived together, in order per partition."""

    messages: list[Message]
    _consumer: "Consumer"

    def commit(self) -> None:
        """Move the group's position behind this batch, durably; raises `OwnershipLost` after a rebalance."""
        self._consumer.commit(self.next_offsets())

    def next_offsets(self) -> list[TopicPartition]:
        """Return the position behind the batch, per partition."""
        ends = {
            (str(message.topic()), int(message.partition() or 0)): int(message.offset() or 0)
            for message in self.messages
        }
        return [TopicPartition(topic, partition, offset + 1) for (topic, partition), offset in ends.items()]

    def __iter__(self) -> Iterator[Message]:
        return iter(self.messages)

    def __len__(self) -> int:
        return len(self.messages)


class Consumer:
    """A member of a group. Use it in a `with` block: leaving it leaves the group at once."""

    def __init__(
        self,
        connection: Connection,
        topics: list[str],
        group: str,
        options: ConsumerOptions | None = None,
        *,
        start: Position = EARLIEST,
        on_assigned: OnPartitions | None = None,
        on_revoked: OnPartitions | None = None,
    ) -> None:
        self.group = group
        self._connection = connection
        self._on_assigned = on_assigned
        self._on_revoked = on_revoked
        self._causes = Causes(connection)
        self._stopping = threading.Event()
        self._callback_error: BaseException | None = None
        self._admin = Admin(connection)
        for topic in topics:
            self._settle_start(topic, start)
        options = options or ConsumerOptions()
        settings = {
            **connection.librdkafka(),
            **options.librdkafka(),
            "group.id": group,
            "error_cb": self._causes,
        }
        with opening(connection):
            self._client = Client(settings, logger=logger)
        self._client.subscribe(topics, on_assign=self._assigned, on_revoke=self._revoked, on_lost=self._revoked)

    def _settle_start(self, topic: str, start: Position) -> None:
        """Fix where a new group starts, for the whole topic, before joining.

        1. The group has a position somewhere in the topic: it has started before, leave everything.
        2. It has none: commit `start` for every partition. Kafka accepts that only while the group has no member,
           so no progress can be overwritten; of two first members that start together, either's start will do.
        3. Kafka refuses because a member is in: that one has done step 2 already.
        """
        partitions = [(topic, number) for number in identify(self._admin, [topic], "subscribing to")[topic][1]]
        if groups.committed(self._admin, self.group, partitions):
            return
        with suppress(Conflict):
            groups.commit(self._admin, self.group, resolve(self._admin, start, partitions))

    @property
    def assignment(self) -> Partitions:
        """The partitions that this member owns now."""
        return [(each.topic, each.partition) for each in self._client.assignment()]

    def batches(
        self, *, max_events: int = 500, max_wait_s: float = 1.0, idle_s: float | None = None
    ) -> Iterator[Batch]:
        """Return a batch when `max_events` are there or `max_wait_s` has passed; never an empty one.

        Ends after `stop()`, or after `idle_s` without a record.
        """
        last_event = time.monotonic()
        while not self._stopping.is_set():
            heard = self._client.consume(max_events, max_wait_s)
            self._raise_callback_error()
            # What came with an error is handed out first: librdkafka counts it as delivered.
            good = [message for message in heard if message.error() is None]
            if good:
                settle_headers(good)
                yield Batch(good, self)
                last_event = time.monotonic()
            if len(good) < len(heard):
                self._raise_failure(heard)
            if good:
                continue
            if refusal := self._causes.refusal():
                raise refusal
            if idle_s is not None and time.monotonic() - last_event >= idle_s:
                return

    def __iter__(self) -> Iterator[Message]:
        for batch in self.batches(max_wait_s=0.2):
            yield from batch

    def commit(self, offsets: list[TopicPartition]) -> None:
        """Move the group's position to these offsets, durably.

        While other members join or leave, Kafka refuses commits even for partitions that stay here: those are tried
        again for as long as this member owns them all.
        """
        deadline = time.monotonic() + _COMMIT_PATIENCE_S
        while (error := self._try_commit(offsets)) is not None:
            ours = {(each.topic, each.partition) for each in offsets} <= set(self.assignment)
            if error.code() not in _REBALANCING or not ours or time.monotonic() > deadline:
                raise self._commit_failure(error)
            time.sleep(_COMMIT_PAUSE_S)

    def _try_commit(self, offsets: list[TopicPartition]) -> KafkaError | None:
        try:
            done = self._client.commit(offsets=offsets, asynchronous=False)
        except KafkaException as failure:
            error: KafkaError = failure.args[0]
            return error
        return next((each.error for each in done or [] if each.error is not None), None)

    def _commit_failure(self, error: KafkaError) -> Exception:
        if error.code() in _LOST_OWNERSHIP:
            return OwnershipLost(
                f"the partitions of this batch have moved to another member of group '{self.group}'",
                safe="The batch was not committed and is delivered again there",
                fix="Go on with the next batch",
            )
        return translate(error, self._connection, f"committing for group '{self.group}'")

    def for_transaction(self, batch: Batch) -> tuple[list[TopicPartition], Any]:
        """Return what `Transaction.send_offsets` takes, so that output and position move together."""
        return batch.next_offsets(), self._client.consumer_group_metadata()

    def stop(self) -> None:
        """End `batches()` after the current batch; may be called from a signal handler or another thread."""
        self._stopping.set()

    def close(self) -> None:
        """Leave the group, so that the others take over at once."""
        self._stopping.set()
        self._client.close()
        self._raise_callback_error()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, _k: type[BaseException] | None, _e: BaseException | None, _t: TracebackType | None) -> None:
        self.close()

    def _assigned(self, client: Client, partitions: list[TopicPartition]) -> None:
        try:
            client.incremental_assign(self._with_positions(partitions))
            if self._on_assigned:
                self._on_assigned([(each.topic, each.partition) for each in partitions])
        except Exception as error:  # noqa: BLE001 - librdkafka would lose it: it is raised from batches()
            self._callback_error = error

    def _revoked(self, client: Client, partitions: list[TopicPartition]) -> None:
        try:
            if self._on_revoked:
                self._on_revoked([(each.topic, each.partition) for each in partitions])
        except Exception as error:  # noqa: BLE001 - as above
            self._callback_error = error
        finally:
            client.incremental_unassign(partitions)

    def _with_positions(self, assigned: list[TopicPartition]) -> list[TopicPartition]:
        """Take the group's positions; a partition without one is newer than the group: begin at 0.

        Not where its log begins now: the group has to learn of records that retention deleted before it read them.
        Asked through the admin connection: this client may be closing, and would then wait for itself.
        """
        partitions = [(each.topic, each.partition) for each in assigned]
        while True:
            try:
                committed = groups.committed(self._admin, self.group, partitions)
            except Transient:
                # Brokers that come back have members join again before every one of them can answer.
                if self._stopping.wait(_REBALANCE_PAUSE_S):
                    return []
            else:
                return [TopicPartition(*partition, committed.get(partition, 0)) for partition in partitions]

    def _raise_callback_error(self) -> None:
        error, self._callback_error = self._callback_error, None
        if isinstance(error, KafkaException):
            raise translate(error, self._connection, f"joining group '{self.group}'") from None
        if error is not None:
            raise error

    def _raise_failure(self, heard: list[Message]) -> None:
        for message in heard:
            error = message.error()
            if error is not None and error.code() not in _PASSING:
                failure = self._failure(error, message)
                if not isinstance(failure, Transient):
                    raise failure

    def _failure(self, error: KafkaError, message: Message) -> Exception:
        if error.code() in {KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE}:  # noqa: SLF001
            where = f"{message.topic()}/{message.partition()}"
            return Conflict(
                f"the position of group '{self.group}' in {where} is gone:"
                " retention or a purge deleted records that it had not read",
                safe="Nothing was skipped: the position is where it was",
                fix=f"Accept the gap: penstock group reset {self.group} --topic {message.topic()}"
                f" --partition {message.partition()} --to earliest --yes",
            )
        if "group.instance.id" in error.str():  # the code says no more than that it is fatal
            return Conflict(
                f"another consumer with the same instance_id has taken this one's place in group '{self.group}'",
                safe="What was not committed is delivered to that one",
                fix="Give every consumer an instance_id of its own",
            )
        return translate(error, self._connection, f"reading as group '{self.group}'")
