"""Leader election and ISR: the leader's node is killed, and comes back."""

import time

from confluent_kafka.admin import PartitionMetadata

from penstock.kafka.producer import Producer
from penstock.kafka.reader import read_all
from penstock.lab.drills.drill import Drill, Stage

_RECORDS = 100


def run(stage: Stage) -> None:
    """Kill the leader, write without it, bring it back."""
    with stage.step(
        "Make a topic with 1 partition and 3 replicas",
        expected="one node leads, and all three replicas are in sync (the ISR, the in-sync replicas)",
    ) as step:
        topic = stage.topic("ledger", partitions=1, replication=3)
        whole = stage.wait("an ISR of 3", lambda: _with_isr(stage, topic, 3))
        step.saw(f"node {whole.leader} leads, the ISR is {sorted(whole.isrs)}", passed=whole.leader in whole.isrs)
    _send(stage, topic, "before")
    rest = sorted(set(whole.isrs) - {whole.leader})
    with stage.step(
        f"Kill the leader, node {whole.leader}, with kill -9",
        expected=f"it cannot say goodbye, so it counts as alive until its heartbeats have been missing for 6 s, or a"
        f" bit longer if it was the controller, too; then node {rest[0]} or {rest[1]} takes over, and the ISR shrinks"
        " to these two",
    ) as step:
        stage.kill_node(whole.leader)
        died_at = time.monotonic()
        new = stage.wait("a new leader", lambda: _led_by_another(stage, topic, whole.leader))
        step.saw(
            f"node {new.leader} leads, the ISR is {sorted(new.isrs)}, {time.monotonic() - died_at:.1f} s after the"
            " death",
            passed=new.leader in rest and sorted(new.isrs) == rest,
        )
    with stage.step(
        f"Write {_RECORDS} records with acks=all while the node is away",
        expected="all are acknowledged: two replicas are in sync, and min.insync.replicas asks for two",
    ) as step:
        sent = _send(stage, topic, "between")
        step.saw(f"{sent} of {_RECORDS} acknowledged", passed=sent == _RECORDS)
    with stage.step(
        f"Start node {whole.leader} again",
        expected="it copies what it missed, then the ISR is whole; it need not lead again, for Kafka moves leaders home"
        " only every few minutes",
    ) as step:
        stage.fix()
        healed = stage.wait("an ISR of 3", lambda: _with_isr(stage, topic, 3))
        step.saw(
            f"the ISR is {sorted(healed.isrs)}, and node {healed.leader} leads",
            passed=sorted(healed.isrs) == [1, 2, 3],
        )
    with stage.step("Read the topic from its beginning", expected=f"all {2 * _RECORDS} records, each once") as step:
        values = [(message.value() or b"").decode() for message in read_all(stage.connection, topic)]
        step.saw(
            f"{len(values)} records, {len(set(values))} different",
            passed=len(values) == len(set(values)) == 2 * _RECORDS,
        )


def _send(stage: Stage, topic: str, when: str) -> int:
    with Producer(stage.connection) as producer:
        for number in range(_RECORDS):
            producer.send(topic, f"{when} {number}")
    return producer.sent - producer.failed


def _with_isr(stage: Stage, topic: str, size: int) -> PartitionMetadata | None:
    found = stage.partition(topic)
    return found if len(found.isrs) == size and found.leader >= 0 else None


def _led_by_another(stage: Stage, topic: str, leader: int) -> PartitionMetadata | None:
    found = stage.partition(topic)
    return found if found.leader not in {-1, leader} and leader not in found.isrs else None


DRILL = Drill(
    name="leaders",
    about="a leader dies: election, ISR, and the way back",
    background="""\
Each partition has one leader, which takes every write and read, and followers that copy from it.
Followers that keep up are "in sync". Only one of those may become leader, so nothing that was
acknowledged by all of them is lost.""",
    run=run,
)
