"""At most once, at least once, exactly once: what a crash does to each, counted on a real Kafka.

    python delivery_semantics.py

A worker processes events: it copies them to another topic. Half way it is killed (SIGKILL: no goodbye, no clean-up)
at the worst moment for its kind, and a second worker finishes. Then the results are counted against what was sent:

    at most once    commits, then processes    killed in between: the current batch is lost
    at least once   processes, then commits    killed in between: the current batch is doubled
    exactly once    both in one transaction    killed inside it: neither has happened, the batch is done again

Exit code 0: each came out as its name promises; 1: one did not. Takes about 10 seconds.
"""

import argparse
import contextlib
import multiprocessing
import sys
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.connection import Connection as Pipe
from typing import NamedTuple

import penstock
from penstock import (
    Admin,
    Batch,
    Connection,
    Consumer,
    ConsumerOptions,
    PenstockError,
    Producer,
    ProducerOptions,
    TopicSpec,
    read_all,
)
from penstock.kafka import groups, topics

EVENTS, BATCH, FATAL_POSITION = 100, 20, 60


class Job(NamedTuple):
    """What a worker works on. The second worker gets the same, but nobody is going to kill it."""

    connection: Connection
    source: str
    target: str
    parent: Pipe
    to_be_killed: bool

    def consumer(self) -> Consumer:
        """Join the group, named like the target. After 6 silent seconds a member counts as dead."""
        return Consumer(self.connection, [self.source], self.target, ConsumerOptions(session_timeout_ms=6000))

    def batches(self, consumer: Consumer) -> Iterator[Batch]:
        """Return batches up to the end of the source, which has one partition."""
        for batch in consumer.batches(max_events=BATCH, max_wait_s=5.0):
            yield batch
            if batch.next_offsets()[0].offset == EVENTS:
                return

    def worst_moment(self, batch: Batch) -> None:
        """Half way, tell the parent that a crash would do most harm now, and wait for it here."""
        if self.to_be_killed and batch.next_offsets()[0].offset >= FATAL_POSITION:
            self.parent.send("kill me now")
            self.parent.recv()


def at_most_once(job: Job) -> None:
    """Commit, then process."""
    with Producer(job.connection) as producer, job.consumer() as consumer:
        for batch in job.batches(consumer):
            batch.commit()
            job.worst_moment(batch)
            for message in batch:
                producer.send(job.target, message.value())
            producer.flush()


def at_least_once(job: Job) -> None:
    """Process, then commit."""
    with Producer(job.connection) as producer, job.consumer() as consumer:
        for batch in job.batches(consumer):
            for message in batch:
                producer.send(job.target, message.value())
            producer.flush()  # the position may move only when Kafka has every result
            job.worst_moment(batch)
            batch.commit()


def exactly_once(job: Job) -> None:
    """Process and commit in one transaction."""
    # The id ties both workers together: when the second opens its producer, Kafka aborts what the first left open,
    # and would refuse the first if it were alive after all. Hence the producer before the consumer.
    options = ProducerOptions(transactional_id=job.target)
    with Producer(job.connection, options) as producer, job.consumer() as consumer:
        for batch in job.batches(consumer):
            with producer.transaction() as transaction:
                for message in batch:
                    transaction.send(job.target, message.value())
                transaction.send_offsets(*consumer.for_transaction(batch))
                producer.flush()  # not needed, but so the killed worker's results really reach the topic
                job.worst_moment(batch)


Worker = Callable[[Job], None]
SEMANTICS: dict[str, tuple[Worker, Callable[[int, int], bool]]] = {
    "at most once": (at_most_once, lambda lost, doubled: 0 < lost <= BATCH and doubled == 0),
    "at least once": (at_least_once, lambda lost, doubled: lost == 0 and 0 < doubled <= BATCH),
    "exactly once": (exactly_once, lambda lost, doubled: lost == 0 and doubled == 0),
}


def child_process(worker: Worker, job: Job) -> None:
    """Work, and tell the parent if that is impossible."""
    try:
        worker(job)
    except PenstockError as error:
        job.parent.send(error)


def play(worker: Worker, connection: Connection, source: str, target: str) -> None:
    """Run a worker that is killed half way, then one that finishes."""
    spawn = multiprocessing.get_context("spawn")  # a fork would share our connections to Kafka
    for to_be_killed in (True, False):
        ours, theirs = spawn.Pipe()
        job = Job(connection, source, target, theirs, to_be_killed)
        child = spawn.Process(target=child_process, args=(worker, job), daemon=True)
        child.start()
        theirs.close()  # only the child holds that end now, so its own end reaches us as EOFError
        with contextlib.suppress(EOFError):
            said = ours.recv()
            if isinstance(said, PenstockError):
                raise said
            child.kill()  # SIGKILL, to its process id
        child.join()


def main() -> int:
    """Play all three at the same time, and print the table."""
    parser = argparse.ArgumentParser(description="What a crash does to each of the delivery semantics.")
    parser.add_argument("--bootstrap", help="host:port of your Kafka; the local cluster if left out")
    parser.add_argument("--keep", metavar="NAME", help="leave the topics for a look: NAME.sent, NAME.at-most-once, ...")
    args = parser.parse_args()
    connection = penstock.connection(bootstrap=args.bootstrap)
    admin = Admin(connection)
    name = args.keep or f"semantics-{uuid.uuid4().hex[:8]}"
    source, targets = f"{name}.sent", {kind: f"{name}.{kind.replace(' ', '-')}" for kind in SEMANTICS}
    for topic in (source, *targets.values()):
        topics.create(admin, topic, TopicSpec(partitions=1))
    with Producer(connection) as producer:
        producer.send_many(source, [{"value": str(number)} for number in range(EVENTS)])

    with ThreadPoolExecutor() as pool:
        list(pool.map(lambda kind: play(SEMANTICS[kind][0], connection, source, targets[kind]), SEMANTICS))

    broken = 0
    sent = {message.value() for message in read_all(connection, source)}
    print(f"{'semantics':<15}{'sent':>6}{'results':>9}{'lost':>6}{'doubled':>9}")
    for kind, (_, keeps_its_promise) in SEMANTICS.items():
        # read_all reads the whole topic afresh, and leaves out what belongs to aborted transactions.
        results = Counter(message.value() for message in read_all(connection, targets[kind]))
        lost, doubled = len(sent - results.keys()), results.total() - len(results)
        broken += not keeps_its_promise(lost, doubled)
        print(f"{kind:<15}{len(sent):>6}{results.total():>9}{lost:>6}{doubled:>9}")
    if not args.keep:
        for group in targets.values():
            groups.delete(admin, group)
        for topic in (source, *targets.values()):
            topics.delete(admin, topic)
    return 1 if broken else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except PenstockError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(error.exit_code)
