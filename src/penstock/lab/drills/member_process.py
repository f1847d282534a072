"""The program of a member: reads, processes and commits in the order that its task says.

The task is the first line of its input. The end of the input tells it to leave, so it never outlives the drill.
"""

import os
import sys
import threading
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

from confluent_kafka import Message

from penstock.kafka.consumer import Batch, Consumer, ConsumerOptions
from penstock.kafka.producer import Producer, ProducerOptions
from penstock.lab.drills.member import Entry, MemberTask

# The least that Kafka allows unless told otherwise, so that a dead member is missed soon.
_SESSION_MS = 6000
_HEARTBEAT_MS = 500
_WAIT_S = 0.2

Send = Callable[..., None]


class _Work:
    """The processing of records, one at a time."""

    def __init__(self, task: MemberTask, journal: int, consumer: Consumer, producer: Producer | None) -> None:
        self._task = task
        self._journal = journal
        self._consumer = consumer
        self._producer = producer
        self._done = 0

    def handle(self, batch: Batch) -> None:
        """Process a batch, and move the position when the task says so."""
        if self._task.commit == "transaction" and self._producer is not None:
            with self._producer.transaction() as transaction:
                self._process(batch, transaction.send)
                transaction.send_offsets(*self._consumer.for_transaction(batch))
            return
        if self._task.commit == "before":
            batch.commit()
        self._process(batch, self._producer.send if self._producer is not None else None)
        if self._producer is not None:
            self._producer.flush()
        if self._task.commit == "after":
            batch.commit()

    def _process(self, batch: Batch, send: Send | None) -> None:
        for message in batch:
            if send is not None and self._task.output is not None:
                send(self._task.output, message.value())
            self._note(Entry(event="processed", value=_text(message)))
            self._done += 1
            if self._done == self._task.hold_after:
                if self._producer is not None:
                    self._producer.flush()
                self._note(Entry(event="holding"))
                # Killed here; heartbeats and background commits go on until then.
                threading.Event().wait()

    def _note(self, entry: Entry) -> None:
        """Write past every buffer of this process: a kill takes nothing back."""
        os.write(self._journal, entry.model_dump_json().encode() + b"\n")


def _text(message: Message) -> str:
    return (message.value() or b"").decode()


def _producer(task: MemberTask) -> Producer | None:
    if task.output is None:
        return None
    return Producer(
        task.connection,
        ProducerOptions(transactional_id=f"{task.group}-writer" if task.commit == "transaction" else None),
    )


def _watch(consumer: Consumer, *, holds: bool) -> None:
    sys.stdin.read()
    consumer.stop()
    if holds:
        # Whoever was to kill it at the hold is gone.
        os._exit(1)


def main() -> None:
    """Do the task on the first line of the input."""
    task = MemberTask.model_validate_json(sys.stdin.readline())
    settings = {"client.id": task.name, "heartbeat.interval.ms": _HEARTBEAT_MS}
    options = ConsumerOptions(
        commit="automatic" if task.commit == "automatic" else "manual",
        session_timeout_ms=_SESSION_MS,
        instance_id=task.instance_id,
    )
    connection = task.connection.model_copy(update={"client_settings": settings})
    journal = os.open(Path(sys.argv[1]), os.O_WRONLY | os.O_APPEND)
    with ExitStack() as stack:
        producer = _producer(task)
        if producer is not None:
            stack.enter_context(producer)
        consumer = stack.enter_context(Consumer(connection, [task.topic], task.group, options))
        holds = task.hold_after is not None
        threading.Thread(target=_watch, args=(consumer,), kwargs={"holds": holds}, daemon=True).start()
        work = _Work(task, journal, consumer, producer)
        for batch in consumer.batches(max_events=task.max_events, max_wait_s=_WAIT_S):
            work.handle(batch)


if __name__ == "__main__":
    main()
