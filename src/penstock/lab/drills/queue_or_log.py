"""Queue or log: one group shares the records, two groups each get all, and a group can read everything again."""

from penstock.kafka import groups
from penstock.kafka.positions import EARLIEST
from penstock.kafka.producer import Producer
from penstock.lab.drills.drill import Drill, Stage
from penstock.lab.drills.member import Member

_PARTITIONS = 4
_RECORDS = 400


def run(stage: Stage) -> None:
    """Share, then each for itself, then again."""
    topic = stage.topic("parcels", partitions=_PARTITIONS)
    couriers = stage.name("couriers")
    with stage.step(
        f"One group of two consumers, then send {_RECORDS} records",
        expected="a queue: each record goes to one of the two, none to both",
    ) as step:
        ann, bob = (stage.member(name, topic=topic, group=couriers) for name in ("ann", "bob"))
        stage.wait_for_shares(couriers, [2, 2])
        with Producer(stage.connection) as producer:
            for number in range(_RECORDS):
                producer.send(topic, str(number), key=str(number))
        stage.wait("all to be read", lambda: len({*ann.processed(), *bob.processed()}) == _RECORDS)
        both = {*ann.processed()} & {*bob.processed()}
        step.saw(
            f"ann has {len(ann.processed())}, bob has {len(bob.processed())}, {len(both)} went to both",
            passed=bool(ann.processed()) and bool(bob.processed()) and not both,
        )
    with stage.step(
        "A second group comes later",
        expected=f"a log: it gets all {_RECORDS} from the beginning, whatever others have read",
    ) as step:
        audit = stage.member("eve", topic=topic, group=stage.name("audit"))
        _read_all(stage, audit)
        step.saw(f"eve has {len(set(audit.processed()))} of {_RECORDS}", passed=len(audit.processed()) == _RECORDS)
    with stage.step(
        "The first group stops, its position is moved to the beginning, and ann starts again",
        expected=f"a replay: all {_RECORDS} once more, nothing had been deleted by reading it",
    ) as step:
        ann.leave()
        bob.leave()
        partitions = [(topic, number) for number in range(_PARTITIONS)]
        groups.reset(stage.admin, couriers, groups.plan_reset(stage.admin, couriers, partitions, to=EARLIEST))
        again = stage.member("ann", topic=topic, group=couriers)
        _read_all(stage, again)
        step.saw(f"ann has {len(set(again.processed()))} of {_RECORDS}", passed=len(again.processed()) == _RECORDS)


def _read_all(stage: Stage, member: Member) -> None:
    stage.wait(f"{_RECORDS} records to be read", lambda: len(set(member.processed())) == _RECORDS)


DRILL = Drill(
    name="queue-or-log",
    about="one group shares the records, two groups each get all, and a replay from the start",
    background="""\
A queue hands each message to one worker and forgets it. A log keeps what was written, and readers
keep their place. Kafka is a log; a group makes a queue of it.""",
    run=run,
)
