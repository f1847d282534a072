"""The producer: each record that it accepted is either acknowledged or reported, never dropped silently.

Guarantees. With the defaults (acks `all`, idempotent) a record about which `flush` did not raise is in the topic
exactly once, in the order sent per partition. With acks `1` it can be lost with its leader, with `0` on the way, too.
When the bounded queue is full, `send` waits; it never drops.
"""

import logging
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, Self

from confluent_kafka import KafkaError, KafkaException, Message
from confluent_kafka import Producer as Client
from pydantic import BaseModel, Field, model_validator

from penstock.errors import BadInput, DeliveryFailed, PenstockError, QueueFull, RecordsRefused
from penstock.kafka import topics
from penstock.kafka.admin import Admin
from penstock.kafka.connection import Connection
from penstock.kafka.failures import FATAL, Causes, fatal_error, logger, opening, translate
from penstock.kafka.transactions import CoordinatorClient, Transaction
from penstock.wording import plural

if TYPE_CHECKING:
    from penstock.schemas.serializer import Serializer

Headers = Mapping[str, bytes | str] | Sequence[tuple[str, bytes | str | None]]
OnDelivery = Callable[[KafkaError | None, Message], None]

_LAST_CHANCE_S = 5.0
_SILENT_S = 3.0
# How long librdkafka takes a topic that is not there for one that is being made, half a minute if it is left alone.
_SPREADING_MS = 10_000
# Not below `penstock.kafka`, which is silent by itself: without any handler, Python writes warnings to stderr.
_outages = logging.getLogger("penstock.producer")


class ProducerOptions(BaseModel, frozen=True, extra="forbid"):
    """How a producer sends."""

    acks: Literal["0", "1", "all"] = Field(
        "all", description="Replicas that must have a record before it counts as sent."
    )
    idempotent: bool | None = Field(
        None,
        description="Retries never double or reorder; by default on with acks all, and impossible without.",
    )
    compression: Literal["none", "gzip", "snappy", "lz4", "zstd"] = Field("lz4", description="Compression of batches.")
    linger_ms: int = Field(5, ge=0, description="How long a batch waits for more records.")
    partitioner: Literal["murmur2", "crc32"] = Field(
        "crc32", description="How a key chooses its partition: as librdkafka does by itself, or as Java's clients do."
    )
    batch_max_bytes: int = Field(1_000_000, ge=1, description="Bytes of a batch of several records.")
    record_max_bytes: int | None = Field(
        None, ge=1000, le=1_000_000_000, description="A larger record is refused; librdkafka's million if left out."
    )
    queue_max_events: int = Field(100_000, ge=1, description="Records that may wait in memory before `send` waits.")
    queue_max_bytes: int = Field(256 * 2**20, ge=2**20, description="Bytes that may wait in memory.")
    delivery_timeout_ms: int = Field(
        120_000, ge=1, description="After this long without an acknowledgement, a record failed."
    )
    transactional_id: str | None = Field(
        None,
        min_length=1,
        description="Name that survives restarts; makes `transaction` available and fences an older producer.",
    )
    transaction_timeout_ms: int = Field(
        60_000, ge=1000, le=900_000, description="Kafka aborts a transaction that stays open for longer than this."
    )

    @model_validator(mode="after")
    def _idempotence_needs_all(self) -> Self:
        if self.idempotent and self.acks != "all":
            raise ValueError(f"idempotent needs acks 'all', not '{self.acks}'")
        if self.transactional_id and (self.acks != "all" or self.idempotent is False):
            raise ValueError("transactions need acks 'all' and idempotent")
        return self

    def librdkafka(self) -> dict[str, Any]:
        """Return the client's settings."""
        settings: dict[str, Any] = {
            "acks": self.acks,
            "enable.idempotence": self.acks == "all" if self.idempotent is None else self.idempotent,
            "compression.type": self.compression,
            "linger.ms": self.linger_ms,
            "partitioner": {"murmur2": "murmur2_random", "crc32": "consistent_random"}[self.partitioner],
            "batch.size": self.batch_max_bytes,
            "queue.buffering.max.messages": self.queue_max_events,
            "queue.buffering.max.kbytes": self.queue_max_bytes // 1024,
            "delivery.timeout.ms": self.delivery_timeout_ms,
            "topic.metadata.propagation.max.ms": _SPREADING_MS,
        }
        if self.record_max_bytes is not None:
            settings["message.max.bytes"] = self.record_max_bytes
        if self.transactional_id:
            settings["transactional.id"] = self.transactional_id
            settings["transaction.timeout.ms"] = self.transaction_timeout_ms
            settings["delivery.timeout.ms"] = min(self.delivery_timeout_ms, self.transaction_timeout_ms)
        return settings


class Producer:
    """Sends records. Not thread-safe; leaving the `with` block flushes.

    `on_delivery(error, message)` is called for every record, which costs time; without it only failures are reported.

    With a `schema`, values are whatever it describes, such as dictionaries: each is checked and encoded before it is
    accepted, and one that does not fit is `BadInput`. A schema that the registry refuses is `Conflict` at the first
    record for a topic, before any is sent. `key_schema` does the same for keys.
    """

    def __init__(
        self,
        connection: Connection,
        options: ProducerOptions | None = None,
        *,
        on_delivery: OnDelivery | None = None,
        schema: "Serializer | None" = None,
        key_schema: "Serializer | None" = None,
    ) -> None:
        options = options or ProducerOptions()
        self._connection = connection
        self._causes = Causes(connection)
        self._user_on_delivery = on_delivery
        self._schema = schema
        self._key_schema = key_schema
        self._failure: tuple[str, KafkaError] | None = None
        self._fatal: KafkaError | None = None
        self._waiting_since: float | None = None
        self.sent = 0
        self.failed = 0
        # Both counts at the last time that somebody heard of them.
        self._settled = (0, 0)
        settings = {**connection.librdkafka(), **options.librdkafka(), "error_cb": self._causes}
        settings["on_delivery"] = self._delivered
        settings["delivery.report.only.error"] = on_delivery is None
        with opening(connection):
            self._client = Client(settings, logger=logger)
        is_transactional = options.transactional_id is not None
        self._coordinator = CoordinatorClient(self._client, connection, self._causes) if is_transactional else None

    @property
    def hung(self) -> bool:
        """Whether a transaction got no answer; another producer with the same transactional id settles it."""
        return self._coordinator is not None and self._coordinator.hung

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self.failed += 1
            self._failure = self._failure or (str(message.topic()), error)
        if self._user_on_delivery is not None:
            self._user_on_delivery(error, message)

    def send(
        self,
        topic: str,
        value: Any,
        *,
        key: Any = None,
        headers: Headers | None = None,
        partition: int = -1,
        timestamp_ms: int = 0,
        timeout_s: float = 60.0,
    ) -> None:
        """Hand over one record. Waits while the queue is full, and raises `QueueFull` after `timeout_s` of that."""
        if self._schema is not None:
            value = self._schema.encode(topic, value)
        if self._key_schema is not None:
            key = self._key_schema.encode(topic, key, is_key=True)
        listed = list(headers.items()) if isinstance(headers, Mapping) else headers
        deadline = 0.0
        while True:
            try:
                self._client.produce(
                    topic,
                    value,
                    key,
                    partition=partition,
                    timestamp=timestamp_ms,
                    headers=listed,  # type: ignore[arg-type]
                )
            except BufferError:
                deadline = deadline or time.monotonic() + timeout_s
                self._wait_for_room(deadline, "this record was not taken")
            except KafkaException as failure:
                self._poll()
                raise translate(failure, self._connection, f"sending to topic '{topic}'") from None
            else:
                self.sent += 1
                break
        self._poll()

    def _poll(self, timeout_s: float = 0.0) -> None:
        """Handle acknowledgements and outages; raise the fatal error that ended this producer, now and later."""
        try:
            self._client.poll(timeout_s)
        except FATAL as failure:
            self._fatal = fatal_error(failure)
        if self._fatal is not None:
            raise translate(self._fatal, self._connection, "sending")

    def send_many(
        self, topic: str, records: list[dict[str, Any]], *, partition: int = -1, timeout_s: float = 60.0
    ) -> None:
        """Hand over many records at once, each `{"value": ..., "key": ...}`; well faster than `send`.

        Records of one call keep their order per partition. One that can never be accepted, such as one that is too
        large, raises `RecordsRefused` when all the others of the call are accepted. Headers need `send`. With a schema,
        all are encoded first: if one does not fit, none is accepted.
        """
        rest = records = self._encoded(topic, records)
        refused: dict[int, KafkaError] = {}
        deadline = time.monotonic() + timeout_s
        while rest:
            self._client.produce_batch(topic, rest, partition=partition)
            errors = [(number, each.pop("_error")) for number, each in enumerate(rest) if "_error" in each]
            self.sent += len(rest) - len(errors)
            begin = len(records) - len(rest)
            # From the first for which there was no room on, all are given back: the rest keeps its order.
            waiting = sum(error.code() == KafkaError._QUEUE_FULL for _, error in errors)  # noqa: SLF001
            refused |= {begin + number: error for number, error in errors[: len(errors) - waiting]}
            rest = rest[len(rest) - waiting :]
            if rest:
                self._wait_for_room(deadline, f"the last {len(rest)} records of this call were not taken")
        self._poll()
        if refused:
            self._raise_refused(topic, refused, len(records))

    def _encoded(self, topic: str, records: list[dict[str, Any]]) -> list[dict[str, Any]]:
        if self._schema is None and self._key_schema is None:
            return records
        encoded = []
        for each in records:
            value, key = each.get("value"), each.get("key")
            value = value if self._schema is None else self._schema.encode(topic, value)
            key = key if self._key_schema is None else self._key_schema.encode(topic, key, is_key=True)
            encoded.append({**each, "value": value, "key": key})
        return encoded

    def _raise_refused(self, topic: str, refused: dict[int, KafkaError], total: int) -> None:
        failure = translate(next(iter(refused.values())), self._connection, f"sending to topic '{topic}'")
        if not isinstance(failure, BadInput):
            raise failure
        taken = f"The other {total - len(refused)} records of the call were taken"
        raise RecordsRefused(failure.what, refused=tuple(refused), safe=taken)

    def _wait_for_room(self, deadline: float, not_taken: str) -> None:
        self._poll(0.05)
        if refusal := self._causes.refusal():
            raise refusal
        self._warn_of_outage(deadline)
        if time.monotonic() > deadline:
            raise QueueFull(
                f"the producer's queue stayed full: {plural(len(self._client), 'record')} waiting for Kafka at"
                f" {self._connection.bootstrap_servers}",
                safe=f"Nothing was dropped, and {not_taken}",
                fix="Try again, more slowly",
            )

    def flush(self, timeout_s: float = 120.0) -> None:
        """Wait until every record is acknowledged; raise `DeliveryFailed` if any is not."""
        deadline = time.monotonic() + timeout_s
        while self._waiting() > 0:
            if refusal := self._causes.refusal():
                raise self._undelivered(str(refusal))
            if time.monotonic() > deadline:
                raise self._undelivered(str(self._causes.timeout("waiting for acknowledgements")))
            self._warn_of_outage(deadline)
        if self._failure is not None:
            raise self._undelivered(self._reason(*self._failure))
        self._waiting_since = None
        self._settled = (self.sent, self.failed)

    def _warn_of_outage(self, deadline: float) -> None:
        """Log once why nothing happens: an outage may pass, and the user should know what is waited for."""
        now = time.monotonic()
        if self._waiting_since is None:
            self._waiting_since = now
        elif now - self._waiting_since > _SILENT_S and (cause := self._causes.decisive()) is not None:
            _outages.warning("%s. Waiting for it, for up to %.0f s", cause, deadline - now)
            self._waiting_since = deadline

    def _reason(self, topic: str, error: KafkaError) -> str:
        """Return why a record failed; for a missing topic, with the one that was probably meant."""
        if self._fatal is not None:
            return str(translate(self._fatal, self._connection, "sending"))
        if error.code() in {KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC}:  # noqa: SLF001
            try:
                topics.identify(Admin(self._connection), [topic])
            except PenstockError as found:
                return str(found)
        return f"{topic}: {error.str()}"

    def _waiting(self) -> int:
        """Wait a little and return how many are still unacknowledged; a fatal error ends the waiting."""
        try:
            return self._client.flush(0.2)
        except FATAL as failure:
            self._fatal = fatal_error(failure)
            # Idempotence is asked of the cluster before any topic is named; a right to write to one would do.
            doing = "sending, which takes the right to write to a topic"
            raise self._undelivered(str(translate(self._fatal, self._connection, doing))) from None

    def _undelivered(self, reason: str) -> DeliveryFailed:
        """Report what failed since the last report or flush; the producer remains usable."""
        missing, total = self._missing()
        self._failure, self._waiting_since = None, None
        rest, it = total - missing, "it" if missing == 1 else "them"
        return DeliveryFailed(
            f"{missing:,} of {plural(total, 'record')} not acknowledged: {reason}",
            safe=f"The other {rest:,} {'is' if rest == 1 else 'are'} in the topic" if rest else "",
            fix=f"Send {it} again then; if only the acknowledgement was lost, the topic will have {it} twice",
        )

    def _missing(self) -> tuple[int, int]:
        """Count failed and unanswered records, and all records, since the last report or complete flush."""
        # Reports that wait to be heard are answers, and what librdkafka logs waits in the same queue.
        with suppress(PenstockError):
            self._poll()
        sent, failed = self.sent - self._settled[0], self.failed - self._settled[1]
        unknown = min(len(self._client), sent - failed)
        # What failed was reported, and is sent again, perhaps: as a record of its own, which counts on its own.
        self._settled = (self.sent - unknown, self.failed)
        return failed + unknown, sent

    @contextmanager
    def transaction(self) -> Iterator[Transaction]:
        """Run the block as one transaction: its records and offsets appear together, or not at all if it raises.

        What a signal handler raises during the commit is raised once Kafka has answered; `Transaction.committed` then
        says what happened. A commit or an abort without an answer raises `BrokerUnavailable`, and the producer is
        `hung`: open another with the same transactional id, which settles it.
        """
        if self._coordinator is None:
            raise BadInput("this producer has no transactional_id", fix="Name one in ProducerOptions")
        before = (self.sent, self.failed, self._settled)
        transaction = Transaction(self, self._coordinator)
        self._coordinator.begin()
        try:
            yield transaction
            self._coordinator.commit(transaction)
        except BaseException as error:
            if transaction.committed:
                error.add_note("The transaction was committed before this: do not send it again")
                raise
            if self.hung:
                raise
            try:
                self._coordinator.abort()
            except PenstockError as failure:
                if isinstance(error, PenstockError):
                    raise
                # Ctrl-C stays Ctrl-C.
                error.add_note(str(failure))
            finally:
                # What was aborted was neither sent nor lost.
                self.sent, self.failed, self._settled = before
                self._failure = None
            raise

    def close(self) -> None:
        """Flush, then close. A hung producer is left as it is: closing it would hang, too."""
        if self.hung:
            return
        try:
            self.flush()
        finally:
            self._let_go()

    def _let_go(self) -> None:
        # Without a purge it would wait for records until their time is over.
        self._client.purge()
        with warnings.catch_warnings(action="ignore", category=RuntimeWarning):
            # It would warn that it could not abort its transaction: the one who took over has done that.
            self._client.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        if error is None or self.hung:
            self.close()
            return
        with suppress(*FATAL):
            self._client.flush(_LAST_CHANCE_S)
        missing, total = self._missing()
        if missing:
            error.add_note(f"{missing:,} of {plural(total, 'record')} sent before this not acknowledged")
        self._let_go()
