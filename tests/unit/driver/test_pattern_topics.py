"""Topics of a pattern that are out of sight or deleted: what was left unread is on record, each offset once."""

from pathlib import Path
from typing import cast

from penstock.delivery import gaps
from penstock.delivery.checkpoint import Checkpoint, Committed
from penstock.driver.paths import PipelinePaths
from penstock.driver.pattern import PatternTopics
from penstock.record.available_range import AvailableRange
from penstock.record.positions import Positions, SourcePartition
from penstock.sources.source import PartitionReader, Source

TP = SourcePartition("orders-1", "Ab-_9", 0)


class NoTopics(Source):
    """A pattern that matches nothing just now."""

    drops_deleted_topics = True

    def available(self) -> list[AvailableRange]:
        return []

    def topic_ids(self) -> dict[str, str]:
        return {}

    def starts(self, available: list[AvailableRange]) -> Positions:
        return {each.source_partition: each.first for each in available}

    def reader(self) -> PartitionReader:
        return cast("PartitionReader", None)


def let_go(folder: Path, at: int, end: int | None) -> None:
    """Miss a topic that was read up to `at`, with a driver that has seen so much of it."""
    topics = PatternTopics(NoTopics(), Checkpoint(folder / "checkpoint", "orders"), PipelinePaths(folder), ["delta"])
    if end is not None:
        topics.see([AvailableRange(TP, 0, end)])
    topics.without_deleted(Committed(1, {TP: 0}, {"delta": {TP: at}}), [], lambda _committed: None)


def recorded(folder: Path) -> list[tuple[int, int | None]]:
    return [(gap.start, gap.end) for gap in gaps.read(folder)]


def test_a_topic_that_comes_back_and_is_deleted_later_leaves_a_second_gap(tmp_path: Path) -> None:
    let_go(tmp_path, 100, 150)
    let_go(tmp_path, 180, 200)
    let_go(tmp_path, 180, 210)

    assert [(100, 150), (180, 200), (200, 210)] == recorded(tmp_path)


def test_a_gap_that_a_driver_died_after_is_not_recorded_again_by_one_that_never_saw_the_end(tmp_path: Path) -> None:
    let_go(tmp_path, 100, 150)
    let_go(tmp_path, 100, None)

    assert [(100, 150)] == recorded(tmp_path)
