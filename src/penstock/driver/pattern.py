"""Topics of a pattern: they come and go while a driver runs.

A deleted topic does not stop the driver. What was left unread of it is recorded as a gap, unless the whole cluster is
another one: then nothing is recorded and no topic is dropped.
"""

from collections.abc import Callable, Collection

from penstock.delivery import gaps
from penstock.delivery.checkpoint import Checkpoint, Committed
from penstock.delivery.gaps import TOPIC_DELETED, Gap
from penstock.driver.paths import PipelinePaths
from penstock.record.available_range import AvailableRange
from penstock.record.positions import Positions, SourcePartition
from penstock.sources.source import Source


def deleted_topics(source: Source, committed: Committed, present: Collection[str]) -> set[str]:
    """Name the topics of a pattern that were read and are in the cluster no more; without a pattern there are none."""
    if not source.drops_deleted_topics:
        return set()
    missing = {source_partition.topic for source_partition in committed.starts}.difference(present)
    return {topic for topic in missing if not source.has(topic)}


class PatternTopics:
    """What a driver has seen of the topics, and which ones it drops."""

    def __init__(
        self, source: Source, checkpoint: Checkpoint, paths: PipelinePaths, sink_names: Collection[str]
    ) -> None:
        self._source = source
        self._checkpoint = checkpoint
        self._paths = paths
        self._sink_names = sink_names
        self._seen: Positions = {}

    def see(self, available: list[AvailableRange]) -> bool:
        """Remember how far the topics reach; return whether one is missing that was there before."""
        gone = {source_partition.topic for source_partition in self._seen} - {
            each.source_partition.topic for each in available
        }
        self._seen |= {each.source_partition: each.end for each in available}
        return bool(gone) and self._source.drops_deleted_topics

    def without_deleted(
        self, committed: Committed, available: list[AvailableRange], require_same_cluster: Callable[[Committed], None]
    ) -> Committed:
        """Drop deleted topics; what was left unread of them is recorded as a gap first."""
        deleted = deleted_topics(self._source, committed, {each.source_partition.topic for each in available})
        if not deleted:
            return committed
        require_same_cluster(committed)
        on_record = gaps.read(self._paths.gaps)
        known = {(gap.topic_id, gap.partition, gap.start) for gap in on_record if gap.reason == TOPIC_DELETED}
        left = [
            self._left_unread(committed, source_partition)
            for source_partition in committed.starts
            if source_partition.topic in deleted
        ]
        # A driver that died right after this has seen the end, and the next one has not. A topic that could not be seen
        # for a while may be deleted a second time, with more of it read by then.
        new = [gap for gap in left if gap.end is not None or (gap.topic_id, gap.partition, gap.start) not in known]
        gaps.record(self._paths.gaps, [gap for gap in new if gap.start != gap.end])
        committed = committed.without(lambda source_partition: source_partition.topic in deleted)
        self._checkpoint.commit(committed)
        self._seen = {
            source_partition: end
            for source_partition, end in self._seen.items()
            if source_partition.topic not in deleted
        }
        return committed

    def _left_unread(self, committed: Committed, source_partition: SourcePartition) -> Gap:
        offsets = committed.lowest(self._sink_names, source_partition), self._seen.get(source_partition)
        return Gap.of(self._checkpoint.pipeline, source_partition, offsets, TOPIC_DELETED, "driver")
