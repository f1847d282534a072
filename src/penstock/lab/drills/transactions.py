"""Idempotence and transactions: a retry is stored once, an abort is not seen, a zombie is fenced."""

from collections import Counter
from contextlib import suppress

from penstock.errors import Conflict
from penstock.kafka.producer import Producer, ProducerOptions
from penstock.kafka.reader import Reader
from penstock.lab.drills.drill import Drill, Stage

_RECORDS = 10
# Four partitions on three nodes: some node leads two of them.
_PARTITIONS = 4
_ANSWER_WITHIN_MS = 500
_ONE_BATCH_MS = 50


class _ChangedMindError(Exception):
    """The reason for an abort."""


def run(stage: Stage) -> None:
    """Retry, abort, and come back from the dead."""
    _retry(stage)
    topic = stage.topic("accounts", partitions=1)
    name = stage.name("teller")
    with stage.step(
        f"Commit a transaction of {_RECORDS} records, abort another of {_RECORDS}",
        expected=f"a reader of committed records sees {_RECORDS}; a reader of everything sees {2 * _RECORDS}: aborted"
        " records stay in the log, marked",
    ) as step:
        older = Producer(stage.connection, ProducerOptions(transactional_id=name))
        _transact(older, topic, "committed", abort=False)
        _transact(older, topic, "aborted", abort=True)
        clean, everything = _read(stage, topic), _read(stage, topic, committed_only=False)
        step.saw(
            f"committed: {_listed(clean)}; everything: {_listed(everything)}",
            passed=clean == {"committed": _RECORDS} and everything == {"committed": _RECORDS, "aborted": _RECORDS},
        )
    with stage.step(
        "A producer stops in mid-transaction and is taken for dead; a second one starts with the same transactional id"
        " and commits; then the first one wakes up and commits, too",
        expected="the first is refused (fenced), and its records are never seen",
    ) as step:
        refusal = _zombie(stage, older, name, topic)
        clean = _read(stage, topic)
        step.saw(
            f"the zombie {f'was refused: {refusal}' if refusal else 'was NOT refused'}; committed: {_listed(clean)}",
            passed=bool(refusal) and clean == {"committed": _RECORDS, "newer": _RECORDS},
        )


def _retry(stage: Stage) -> None:
    topic = stage.topic("retries", partitions=_PARTITIONS)
    by_leader: dict[int, list[int]] = {}
    for number, part in sorted(stage.partitions(topic).items()):
        by_leader.setdefault(part.leader, []).append(number)
    leader, (once, plain, *_) = max(by_leader.items(), key=lambda each: len(each[1]))
    followers = sorted({1, 2, 3} - {leader})
    with stage.step(
        f"Send {_RECORDS} records with and {_RECORDS} without idempotence, while the followers are frozen: the leader"
        f" stores them, but has to answer 'timed out' after {_ANSWER_WITHIN_MS} ms, so both clients send again",
        expected="with idempotence the leader knows the batch by its number and stores it once; without, every retry"
        " is stored",
    ) as step:
        connection = stage.connection.model_copy(update={"client_settings": {"request.timeout.ms": _ANSWER_WITHIN_MS}})
        log = stage.cluster.node(leader).data / f"{topic}-{plain}" / f"{0:020}.log"
        with (
            Producer(connection, ProducerOptions(idempotent=True, linger_ms=_ONE_BATCH_MS)) as careful,
            Producer(connection, ProducerOptions(idempotent=False, linger_ms=_ONE_BATCH_MS)) as careless,
        ):
            # The first record makes the connections, so that only answers are late.
            for producer, partition in ((careful, once), (careless, plain)):
                producer.send(topic, "first", partition=partition)
                producer.flush()
            before = log.stat().st_size
            with stage.frozen(followers):
                for producer, partition in ((careful, once), (careless, plain)):
                    for number in range(_RECORDS):
                        producer.send(topic, str(number), partition=partition)
                grown = stage.wait("the leader to store it", lambda: log.stat().st_size - before, timeout_s=8.0)
                stage.wait("a retry to be stored", lambda: log.stat().st_size - before >= 2 * grown, timeout_s=8.0)
        stored = {"with": _stored(stage, topic, once), "without": _stored(stage, topic, plain)}
        step.saw(
            f"with idempotence {stored['with']} records stored, without {stored['without']}",
            passed=stored["with"] == _RECORDS < stored["without"],
        )


def _stored(stage: Stage, topic: str, partition: int) -> int:
    with Reader(stage.connection, topic, partition=partition) as reader:
        return sum(message.value() != b"first" for message in reader)


def _transact(producer: Producer, topic: str, value: str, *, abort: bool) -> None:
    with suppress(_ChangedMindError), producer.transaction() as transaction:
        for _ in range(_RECORDS):
            transaction.send(topic, value)
        # An abort may overtake what was not sent yet; here it is to be in the log.
        producer.flush()
        if abort:
            raise _ChangedMindError


def _zombie(stage: Stage, older: Producer, name: str, topic: str) -> str:
    try:
        with older.transaction() as transaction:
            for _ in range(_RECORDS):
                transaction.send(topic, "zombie")
            older.flush()
            with Producer(stage.connection, ProducerOptions(transactional_id=name)) as newer:
                _transact(newer, topic, "newer", abort=False)
    except Conflict as refusal:
        return refusal.what
    return ""


def _read(stage: Stage, topic: str, *, committed_only: bool = True) -> Counter[str]:
    with Reader(stage.connection, topic, committed_only=committed_only) as reader:
        return Counter((message.value() or b"").decode() for message in reader)


def _listed(counts: Counter[str]) -> str:
    return ", ".join(f"{count} {value}" for value, count in sorted(counts.items()))


DRILL = Drill(
    name="transactions",
    about="idempotence and transactions: retries, aborts, and a zombie that is fenced",
    background="""\
A client that gets no answer cannot know whether its records arrived, so it sends them again. An
idempotent producer numbers its batches, and the leader drops what it has already. A transaction
makes several writes appear together or not at all, to readers that ask for committed records only.""",
    run=run,
)
