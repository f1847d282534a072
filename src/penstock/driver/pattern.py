"""Topics of a pattern: they come and go while a driver runs.

One that is deleted stops nothing. What was left unread of it is a recorded gap, unless all of the cluster is another
one: then nothing is recorded, and nothing is let go of.
"""

from collections.abc import Callable, Collection

from penstock.delivery import gaps
from penstock.delivery.checkpoint import Checkpoint, Committed
from penstock.delivery.gaps import TOPIC_DELETED, Gap
from penstock.driver.batch import Feed
from penstock.driver.paths import Home
from penstock.record.available_range import Extent
from penstock.record.positions import Place, Positions
from penstock.sources.kafka import KafkaFeed


def deleted_topics(feed: Feed, committed: Committed, present: Collection[str]) -> set[str]:
    """Name the topics of a pattern that were read and are in the cluster no more; without a pattern there are none."""
    if not isinstance(feed, KafkaFeed) or feed.spec.pattern is None:
        return set()
    missing = {place.topic for place in committed.starts}.difference(present)
    return {topic for topic in missing if not feed.has(topic)}


class PatternTopics:
    """What a driver has seen of the topics, and what it lets go of."""

    def __init__(self, feed: Feed, checkpoint: Checkpoint, home: Home, sink_names: Collection[str]) -> None:
        self._feed = feed
        self._checkpoint = checkpoint
        self._home = home
        self._sink_names = sink_names
        self._seen: Positions = {}

    def see(self, extents: list[Extent]) -> bool:
        """Remember how far the topics reach; tell whether one is missing that was there before."""
        gone = {place.topic for place in self._seen} - {each.place.topic for each in extents}
        self._seen |= {each.place: each.end for each in extents}
        return bool(gone) and isinstance(self._feed, KafkaFeed) and self._feed.spec.pattern is not None

    def without_deleted(
        self, committed: Committed, extents: list[Extent], require_same_cluster: Callable[[Committed], None]
    ) -> Committed:
        """Let go of topics that are gone; what was left unread of them is recorded as a gap first."""
        deleted = deleted_topics(self._feed, committed, {each.place.topic for each in extents})
        if not deleted:
            return committed
        require_same_cluster(committed)
        known = {(gap.topic_id, gap.partition) for gap in gaps.read(self._home.gaps) if gap.reason == TOPIC_DELETED}
        left = [
            self._left_unread(committed, place)
            for place in committed.starts
            if place.topic in deleted and (place.topic_id, place.partition) not in known
        ]
        gaps.record(self._home.gaps, [gap for gap in left if gap.start != gap.end])
        committed = committed.without(lambda place: place.topic in deleted)
        self._checkpoint.commit(committed)
        self._seen = {place: end for place, end in self._seen.items() if place.topic not in deleted}
        return committed

    def _left_unread(self, committed: Committed, place: Place) -> Gap:
        offsets = committed.lowest(self._sink_names, place), self._seen.get(place)
        return Gap.of(self._checkpoint.pipeline, place, offsets, TOPIC_DELETED, "driver")
