"""Transactions of a producer: their outcome is known, or the producer is marked as hung.

Guarantee: a transaction takes effect as a whole or not at all. Every call to Kafka has a time limit, even where
librdkafka has none, and a signal does not hide the outcome of a commit.
"""

import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from confluent_kafka import KafkaError, KafkaException, TopicPartition
from confluent_kafka import Producer as Client

from penstock.errors import BrokerUnavailable
from penstock.kafka.connection import Connection
from penstock.kafka.failures import FATAL, Causes, translate
from penstock.uninterrupted import to_the_end

if TYPE_CHECKING:
    from penstock.kafka.producer import Producer

_OFFSETS_TIMEOUT_S = 20.0
_END_TIMEOUT_S = 60.0
_STEP_S = 2.0
_JOIN_S = 0.1


class CoordinatorClient:
    """Talks to the transaction coordinator for one client; opening it fences an older producer with the same id."""

    def __init__(self, client: Client, connection: Connection, causes: Causes) -> None:
        self._client = client
        self._connection = connection
        self._causes = causes
        self.hung = False
        """Whether a call was abandoned: only another producer with the same transactional id can settle it."""
        self._call("opening transactions", lambda: client.init_transactions(_END_TIMEOUT_S))

    def begin(self) -> None:
        """Begin a transaction."""
        self._call("beginning a transaction", self._client.begin_transaction)

    def commit(self, transaction: "Transaction") -> None:
        """Commit, and say so in the transaction, whatever a signal handler raises meanwhile."""
        deadline = time.monotonic() + _END_TIMEOUT_S
        # Delivery reports are heard here, on the caller's thread; the one that commits has none left to hear.
        # A fatal error is raised in here, too; the commit then says the same.
        with suppress(*FATAL):
            self._client.flush(_END_TIMEOUT_S)

        def commit() -> None:
            self._call(
                "committing a transaction",
                lambda: self._client.commit_transaction(max(_STEP_S, deadline - time.monotonic())),
            )
            transaction.committed = True

        to_the_end(commit)

    def abort(self) -> None:
        """Abort; an outage ends the waiting."""
        # By steps: after each it looks whether anybody is there to hear of it.
        self._call("aborting a transaction", lambda: self._client.abort_transaction(_STEP_S), even_if_down=False)

    def _call(self, doing: str, call: Callable[[], object], *, even_if_down: bool = True) -> None:
        deadline = time.monotonic() + _END_TIMEOUT_S
        while True:
            try:
                call()
            except KafkaException as failure:
                error = failure.args[0]
                if error.retriable() and time.monotonic() < deadline and (even_if_down or not self._is_down()):
                    continue
                if error.retriable():
                    self.hung = True
                    raise BrokerUnavailable(
                        f"{doing}: no answer from Kafka at {self._connection.bootstrap_servers} ({error.str()})",
                        safe="It has happened as a whole, or not at all",
                        fix="Open a new producer with the same transactional id, which ends it, and look",
                    ) from None
                if error.code() == KafkaError.INVALID_PRODUCER_ID_MAPPING:
                    self.hung = True
                    raise BrokerUnavailable(
                        f"{doing}: Kafka has forgotten the transactional id, which was not used for a long time",
                        safe="Nothing of this transaction counts",
                        fix="Open a new producer with the same transactional id",
                    ) from None
                raise self._causes.refusal() or translate(error, self._connection, doing) from None
            else:
                return

    def _is_down(self) -> bool:
        with suppress(*FATAL):  # the next call says the same
            self._client.poll(0)
        return self._causes.decisive() is not None

    def send_offsets(self, offsets: list[TopicPartition], group_metadata: Any) -> None:
        """Move a group's committed offsets inside the transaction, on a thread that can be abandoned."""
        failures: list[Exception] = []

        def send() -> None:
            try:
                self._call(
                    "committing offsets in a transaction",
                    lambda: self._client.send_offsets_to_transaction(offsets, group_metadata, _OFFSETS_TIMEOUT_S),
                )
            except Exception as failure:  # noqa: BLE001 - raised below, by the caller's thread
                failures.append(failure)

        thread = threading.Thread(target=send, daemon=True)
        self.hung = True
        thread.start()
        # In small steps: a process that was stopped and goes on must not find its time over.
        for _ in range(round(_OFFSETS_TIMEOUT_S / _JOIN_S)):
            thread.join(_JOIN_S)
            if not thread.is_alive():
                break
        if thread.is_alive():
            raise BrokerUnavailable(
                f"committing offsets in a transaction: no answer within {_OFFSETS_TIMEOUT_S:.0f} s",
                safe="Nothing of this transaction counts",
                fix="Open a new producer with the same transactional id",
            )
        self.hung = any(isinstance(failure, BrokerUnavailable) for failure in failures)
        if failures:
            raise failures[0]


class Transaction:
    """An open transaction: `send` as on the producer, plus the offsets that it has used up."""

    def __init__(self, producer: "Producer", coordinator: CoordinatorClient) -> None:
        self._coordinator = coordinator
        self.committed = False
        self.send = producer.send
        self.send_many = producer.send_many

    def send_offsets(self, offsets: list[TopicPartition], group_metadata: Any) -> None:
        """Move a group's committed offsets inside the transaction; `Consumer.for_transaction` gives both.

        If the group's coordinator goes down meanwhile, librdkafka may wait forever, whatever the time limit. Then this
        raises `BrokerUnavailable`, and the producer is `hung`: open another with the same transactional id, which ends
        what this one has open. The same happens when Kafka has forgotten the transactional id, after a week without
        use.
        """
        self._coordinator.send_offsets(offsets, group_metadata)
