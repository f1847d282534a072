"""The three delivery semantics, topic to topic, with a crash in the middle; judged by a read of committed records."""

from collections import Counter
from typing import Literal

from penstock.kafka import groups
from penstock.kafka.producer import Producer
from penstock.kafka.reader import read_all
from penstock.lab.drills.drill import Drill, Stage

_RECORDS = 100
_BATCH = 20
_CRASH_AFTER = 50


def run(stage: Stage) -> None:
    """Copy a topic three times, each with a crash, and count what arrived."""
    topic = stage.topic("payments", partitions=1)
    with Producer(stage.connection) as producer:
        for number in range(_RECORDS):
            producer.send(topic, str(number))
    kinds: dict[str, tuple[Literal["before", "after", "transaction"], str, str]] = {
        "At most once": ("before", "commit the position, then write", "some are lost, none is doubled"),
        "At least once": ("after", "write, then commit the position", "some are doubled, none is lost"),
        "Exactly once": (
            "transaction",
            "write and commit the position in one transaction",
            "none is lost, none is doubled, for readers of committed records",
        ),
    }
    for kind, (commit, order, expected) in kinds.items():
        with stage.step(
            f"{kind}: {order}, in batches of {_BATCH}; kill -9 after {_CRASH_AFTER} of {_RECORDS}, then start again",
            expected=expected,
        ) as step:
            lost, doubled = _crash(stage, topic, commit)
            step.saw(
                f"{_RECORDS} in, {_RECORDS - lost} arrived, {lost} lost, {doubled} doubled",
                passed={
                    "before": lost > 0 and doubled == 0,
                    "after": lost == 0 and doubled > 0,
                    "transaction": lost == 0 and doubled == 0,
                }[commit],
            )


def _crash(stage: Stage, topic: str, commit: Literal["before", "after", "transaction"]) -> tuple[int, int]:
    """Return how many records did not arrive, and how many did more than once."""
    output = stage.topic("booked", partitions=1)
    group = stage.name("booker")
    task = {
        "topic": topic,
        "group": group,
        "output": output,
        "commit": commit,
        "max_events": _BATCH,
        "instance_id": "booker",
    }
    first = stage.member("first", **task, hold_after=_CRASH_AFTER)
    stage.wait("the writer to be in the middle of it", lambda: first.holds)
    first.kill()
    second = stage.member("second", **task)
    stage.wait(
        "the position to reach the end",
        lambda: groups.committed(stage.admin, group, [(topic, 0)]).get((topic, 0)) == _RECORDS,
    )
    second.leave()
    arrived = Counter(message.value() for message in read_all(stage.connection, output))
    return _RECORDS - len(arrived), sum(count > 1 for count in arrived.values())


DRILL = Drill(
    name="semantics",
    about="at most once, at least once, exactly once: each counted, with a crash in the middle",
    background="""\
A consumer that writes does two things per batch: it writes, and it moves its position. A crash can
come between the two. Which comes first decides between lost and doubled; a transaction makes them
one.""",
    run=run,
)
