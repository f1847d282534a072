"""Sends records to Kafka, and reports to each request what became of its own.

Guarantee: `deliver` returns when all replicas in sync have every record. Otherwise it raises a `Refusal` that says how
many records are in Kafka, which are not, and of which nobody knows: they were on their way when time ran out. The
gateway does not send those again; a broker that hung may still find one in its socket.

1. librdkafka gets the records on the event loop's thread, which never waits. 2. A thread polls for acknowledgements;
the last one of a request wakes that request. 3. A record that is not acknowledged within `answer_timeout_s` fails, and
from then on one request at a time is let through to try, until an acknowledgement comes; others are refused at once,
and nothing of theirs is written. 4. A client that Kafka has fenced off for good is replaced.
"""

import asyncio
import logging
import threading
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from confluent_kafka import KafkaError, KafkaException, Message
from confluent_kafka import Producer as Client

from penstock.kafka.connection import Connection
from penstock.kafka.failures import FATAL, Causes, fatal_error, opening
from penstock.kafka.failures import logger as client_logger
from penstock.kafka.producer import ProducerOptions
from penstock.lineage.gateway.events import Record
from penstock.lineage.gateway.options import GatewayLimits
from penstock.lineage.gateway.refusal import Refusal

RETRY_AFTER_S = 2
_POLL_S = 0.1
_STOP_S = 5.0
# For these the broker, or librdkafka itself, has said no before anything was written. After all others it may be there:
# also what waits to be sent again was sent before.
_NOT_WRITTEN = {
    KafkaError.MSG_SIZE_TOO_LARGE: (413, "Kafka takes no record of this size"),
    KafkaError.RECORD_LIST_TOO_LARGE: (413, "Kafka takes no batch of this size"),
    KafkaError.INVALID_RECORD: (422, "Kafka refused the record"),
    KafkaError._INVALID_DIFFERENT_RECORD: (503, "Kafka refused a record beside this one"),  # noqa: SLF001
    KafkaError.INVALID_TIMESTAMP: (422, "Kafka refused the record's time"),
    KafkaError.UNKNOWN_TOPIC_OR_PART: (404, "The topic is not there"),
    KafkaError._UNKNOWN_TOPIC: (404, "The topic is not there"),  # noqa: SLF001
    KafkaError._UNKNOWN_PARTITION: (404, "The topic is not there"),  # noqa: SLF001
    KafkaError.TOPIC_AUTHORIZATION_FAILED: (403, "The gateway's user may not write to the topic"),
    KafkaError.CLUSTER_AUTHORIZATION_FAILED: (403, "The gateway's user may not write"),
    KafkaError._QUEUE_FULL: (503, "The gateway's buffer is full"),  # noqa: SLF001
    KafkaError._STATE: (503, "The gateway is reconnecting to Kafka"),  # noqa: SLF001
}
_UNKNOWN = (503, "Kafka did not acknowledge in time")
log = logging.getLogger(__name__)


@dataclass
class _Waiting:
    """One request: how many of its records are not settled, and which have failed."""

    total: int
    done: "asyncio.Future[None]"
    unsettled: int
    failures: list[tuple[int, int]] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def settle(self, number: int, error: int | None) -> None:
        # What librdkafka does not take is settled by the sending thread, all else by the polling one.
        with self.lock:
            if error is not None:
                self.failures.append((number, error))
            self.unsettled -= 1
            is_last = self.unsettled == 0
        if is_last:
            self.done.get_loop().call_soon_threadsafe(self._wake)

    def _wake(self) -> None:
        if not self.done.done():
            self.done.set_result(None)


class Delivery:
    """Sends the records of all requests to one Kafka. `close` when no request is left."""

    def __init__(self, connection: Connection, limits: GatewayLimits) -> None:
        self._connection = connection
        self._options = ProducerOptions(
            partitioner="murmur2",
            delivery_timeout_ms=round(limits.answer_timeout_s * 1000),
            # A client waits for the answer, and who comes meanwhile shares the next batch.
            linger_ms=1,
            # The gateway's own buffer is the limit: this one must never be the smaller.
            queue_max_bytes=min(2 * limits.buffer_max_bytes, 2**40),
            queue_max_events=10_000_000,
        )
        self._line = _Line(self._connection, self._options)
        self.is_away = False
        """Whether the last that was heard of Kafka is a record that it did not acknowledge in time."""
        self._is_tried = False

    @property
    def unacknowledged(self) -> int:
        """Return how many records wait."""
        return len(self._line.client)

    async def deliver(self, topic: str, records: Sequence[Record]) -> None:
        """Return when all are acknowledged; else raise `Refusal`."""
        if not self.is_away:
            await self._deliver(topic, records)
            return
        if self._is_tried:
            raise Refusal(
                503,
                "Kafka is away; nothing was written",
                details={"acknowledged": 0, "written": False},
                retry_after_s=RETRY_AFTER_S,
            )
        self._is_tried = True
        try:
            await self._deliver(topic, records)
        finally:
            self._is_tried = False

    async def _deliver(self, topic: str, records: Sequence[Record]) -> None:
        waiting = _Waiting(len(records), asyncio.get_running_loop().create_future(), len(records))
        self._send(topic, records, waiting)
        # Not to be cancelled: the answer is about what has happened.
        await asyncio.shield(waiting.done)
        if len(waiting.failures) < waiting.total:
            self.is_away = False
        if waiting.failures:
            raise self._refusal(waiting)

    def _send(self, topic: str, records: Sequence[Record], waiting: _Waiting) -> None:
        if self._line.is_broken:
            self._line.abandon()
            self._line = _Line(self._connection, self._options)
        produce = self._line.client.produce
        for number, (value, key, timestamp_ms) in enumerate(records):

            def settle(error: KafkaError | None, _message: Message, number: int = number) -> None:
                waiting.settle(number, None if error is None else error.code())

            try:
                produce(topic, value, key, timestamp=timestamp_ms, on_delivery=settle)
            except BufferError:
                waiting.settle(number, KafkaError._QUEUE_FULL)  # noqa: SLF001
            except KafkaException as failure:
                code = failure.args[0].code()
                waiting.settle(number, code if code in _NOT_WRITTEN else KafkaError._STATE)  # noqa: SLF001

    def _refusal(self, waiting: _Waiting) -> Refusal:
        known = [(number, _NOT_WRITTEN[code]) for number, code in waiting.failures if code in _NOT_WRITTEN]
        unknown = sorted(number for number, code in waiting.failures if code not in _NOT_WRITTEN)
        status, text = max((each for _, each in known), default=_UNKNOWN)
        if unknown:
            status, text = _UNKNOWN
            self.is_away = True
            codes = sorted({KafkaError(code).name() for _, code in waiting.failures})
            log.warning("%d records are not acknowledged: %s", len(unknown), ", ".join(codes))
        acknowledged = waiting.total - len(waiting.failures)
        return Refusal(
            status,
            f"{text}; {_said(waiting.total, acknowledged, len(unknown))}",
            details={
                "acknowledged": acknowledged,
                "written": None if unknown else bool(acknowledged),
                "not_written": sorted(number for number, _ in known),
                "unknown": unknown,
            },
            retry_after_s=RETRY_AFTER_S if status == _UNKNOWN[0] else None,
        )

    def close(self) -> None:
        """Let go of Kafka. What is still unacknowledged fails, and its requests hear of it."""
        self._line.abandon()
        self._line.thread.join(_STOP_S)


def _said(total: int, acknowledged: int, unknown: int) -> str:
    if unknown:
        return f"{acknowledged} of {total} were written, and {unknown} more may have been"
    return f"{acknowledged} of {total} were written"


class _Line:
    """One client of librdkafka's, and the thread that polls it."""

    def __init__(self, connection: Connection, options: ProducerOptions) -> None:
        self._causes = Causes(connection)
        self.is_broken = False
        self._is_left = False
        settings = {**connection.librdkafka(), **options.librdkafka(), "error_cb": self._causes}
        with opening(connection):
            self.client = Client(settings, logger=client_logger)
        self.thread = threading.Thread(target=self._poll, name="gateway-acknowledgements", daemon=True)
        self.thread.start()

    def _poll(self) -> None:
        while not self._is_left:
            self._handle_reports()
        self.client.purge()
        with suppress(*FATAL):
            self.client.flush(_STOP_S)

    def _handle_reports(self) -> None:
        """Handle acknowledgements. A fatal error is raised from there: this client takes nothing more, ever."""
        try:
            self.client.poll(_POLL_S)
        except FATAL as failure:
            self.is_broken = True
            reason = fatal_error(failure).str()
            log.warning("Kafka takes nothing more from this connection, and another one is opened: %s", reason)

    def abandon(self) -> None:
        """Send nothing more; what waits fails."""
        self._is_left = True
