"""Commits: automatic and manual, with a crash between processing and commit; the lost and the repeated counted."""

from collections import Counter
from typing import Any

from penstock.kafka import groups
from penstock.kafka.producer import Producer
from penstock.lab.drills.drill import Drill, Stage
from penstock.lab.drills.member import Member

_RECORDS = 100


def run(stage: Stage) -> None:
    """Crash three consumers, start each again, and count."""
    topic = stage.topic("mail", partitions=1)
    with Producer(stage.connection) as producer:
        for number in range(_RECORDS):
            producer.send(topic, str(number))
    _crash(
        stage,
        topic,
        "Automatic commit, crash soon after the start",
        "what was processed since the last commit in the background is processed again; none is lost",
        commit="automatic",
        max_events=20,
        hold_after=50,
    )
    _crash(
        stage,
        topic,
        "Automatic commit, crash in the middle of a batch that the background has committed",
        "what was handed out but not processed is lost: the commit knows what was read, not what was done",
        commits_past=30,
        commit="automatic",
        max_events=60,
        hold_after=30,
    )
    _crash(
        stage,
        topic,
        "Manual commit after each batch of 20, crash in the middle of the third",
        "the current batch is processed again; none is lost",
        commit="after",
        max_events=20,
        hold_after=50,
    )


def _crash(stage: Stage, topic: str, did: str, expected: str, *, commits_past: int = 0, **task: Any) -> None:
    group = stage.name("mailer")
    hold_after = task["hold_after"]
    with stage.step(
        f"{did}: the consumer has processed {hold_after} of {_RECORDS} records, is killed with kill -9 and started"
        " again",
        expected=expected,
    ) as step:
        name = {"topic": topic, "group": group, "instance_id": "mailer"}
        first = stage.member("first", **name, **task)
        stage.wait("the consumer to be in the middle of it", lambda: first.holds)
        if commits_past:
            stage.wait(
                "the commit in the background, every 5 s", lambda: _committed(stage, group, topic) > commits_past
            )
        first.kill()
        committed = _committed(stage, group, topic)
        second = stage.member("second", **name, **{**task, "hold_after": None})
        stage.wait("the rest to be processed", lambda: str(_RECORDS - 1) in second.processed())
        second.leave()
        lost, repeated = _count(first, second)
        step.saw(
            f"processed {hold_after}, committed {committed} at the crash; in the end {repeated} processed twice,"
            f" {lost} never",
            passed=(lost, repeated) == (max(0, committed - hold_after), max(0, hold_after - committed))
            and (task["commit"] == "automatic" or lost == 0),
        )


def _committed(stage: Stage, group: str, topic: str) -> int:
    return groups.committed(stage.admin, group, [(topic, 0)]).get((topic, 0), 0)


def _count(first: Member, second: Member) -> tuple[int, int]:
    """Return how many records were never processed, and how many more than once."""
    times = Counter(first.processed() + second.processed())
    return _RECORDS - len(times), sum(count > 1 for count in times.values())


DRILL = Drill(
    name="commits",
    about="automatic and manual commit, with a crash between: what is lost, what is repeated",
    background="""\
A group remembers one number per partition: the next offset to read. A consumer that starts again
goes on there. So it matters whether that number moves before or after the work is done.""",
    run=run,
)
