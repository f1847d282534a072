"""Three of the drills, on the cluster that other tests share; all of them are in tests/faults/test_all_drills.py."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.config.project import LocalCluster
from penstock.errors import BrokerUnavailable
from penstock.kafka.producer import Producer
from penstock.lab.drills.catalog import DRILLS
from penstock.lab.drills.drill import Stage, perform
from penstock.lab.drills.member import Member

from conftest import RunningKafka
from support.waiting import until


class Silent:
    def say(self, line: str) -> None: ...

    def waiting(self, what: str, passed_s: float, limit_s: float) -> None: ...

    def waited(self) -> None: ...


@pytest.fixture
def stage(three_nodes: RunningKafka, tmp_path: Path) -> Iterator[Stage]:
    three_nodes.cluster.up(LocalCluster())
    made = Stage(three_nodes.cluster, tmp_path, Silent())
    made.drill = "test"
    yield made
    made.end_members()


@pytest.mark.parametrize("name", ["groups", "semantics", "transactions"])
def test_what_the_textbook_says_happens(name: str, stage: Stage) -> None:
    results = perform(DRILLS[name], stage)

    assert len(results) >= 3
    assert [] == [each for each in results if not each.passed]


def test_a_consumer_of_a_drill_can_be_killed_and_what_it_did_stays_known(stage: Stage) -> None:
    topic = stage.topic("journal", partitions=1)
    with Producer(stage.connection) as producer:
        for number in range(10):
            producer.send(topic, str(number))
    member = stage.member("ann", topic=topic, group=stage.name("group"), hold_after=7)
    until(lambda: member.holds)
    member.kill()

    assert [str(number) for number in range(7)] == member.processed()


def test_a_consumer_that_cannot_work_is_reported_with_its_reason(stage: Stage) -> None:
    member = stage.member("ann", topic="never-made", group=stage.name("group"))

    def stopped(member: Member) -> bool:
        try:
            member.entries()
        except BrokerUnavailable as error:
            return "consumer ann stopped" in str(error) and "there is no topic" in str(error)
        return False

    until(lambda: stopped(member))
