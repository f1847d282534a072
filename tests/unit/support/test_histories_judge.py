"""What the judge of the random histories takes for explained."""

from penstock.delivery.gaps import Gap

from support.histories.judge import judge
from support.histories.records import Record

GONE = Gap(
    at="2026-01-01T00:00:00+00:00",
    pipeline="orders",
    topic="orders",
    topic_id="old",
    partition=0,
    start=3,
    end=None,
    reason="topic recreated",
    by="skip-gap",
)


def lost(partition: int, offset: int, *gaps: Gap, topic_id: str = "old", unseen: str = "") -> list[str]:
    """Judge a history in which one record of the old topic, which is destroyed, reached no sink."""
    spot = (topic_id, partition, offset)
    return judge("delta", {spot: Record("good", b"{}", "row")}, [], [], gaps, {spot}, unseen={unseen})


def test_what_was_read_before_the_topic_went_and_is_nowhere_is_lost() -> None:
    assert lost(0, 2, GONE)
    assert not lost(0, 3, GONE)


def test_a_gap_of_a_topic_that_is_gone_stands_for_partitions_that_nobody_saw() -> None:
    assert not lost(1, 0, GONE)
    assert lost(1, 0)
    assert lost(1, 0, GONE.model_copy(update={"end": 9}))


def test_a_partition_that_has_a_gap_of_its_own_is_judged_by_that() -> None:
    assert lost(1, 0, GONE, GONE.model_copy(update={"partition": 1, "start": 5}))


def test_a_gap_of_a_topic_that_is_gone_stands_for_another_of_its_name_that_came_and_went_before_anybody_looked() -> (
    None
):
    assert not lost(0, 0, GONE, topic_id="between", unseen="between")
    assert lost(0, 0, GONE, topic_id="between")
    assert lost(0, 0, topic_id="between", unseen="between")
