"""The topic partitions that a pipeline has read, recorded beside its checkpoint.

Only a name and an id together show that a topic was recreated. If the checkpoint is lost, the sinks still know ids, but
most of them no names; and Kafka forgets the offsets of a topic that is deleted.
"""

from pathlib import Path

from penstock.delivery.checkpoint import Committed
from penstock.delivery.durable import read_versioned, write_versioned
from penstock.record.formats import PIPELINE_FILES
from penstock.record.positions import SourcePartition

_FILE = "topics.json"


class KnownTopics:
    """The topics that one pipeline has read. Losing the file costs nothing while the checkpoint exists."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / _FILE
        self._kept: Committed | None = None

    def load(self) -> Committed:
        """Return what is recorded, as a checkpoint that knows only what the pipeline has read."""
        try:
            found = read_versioned(self._path, PIPELINE_FILES)
            starts = {SourcePartition(*each): 0 for each in found["partitions"]}
            return Committed(0, starts, cluster_id=str(found["cluster_id"]))
        except (OSError, ValueError, KeyError, TypeError):
            return Committed(0, {})

    def keep(self, committed: Committed) -> None:
        """Put on record what a checkpoint has, before anything new of it is read."""
        starts = {source_partition: 0 for source_partition in committed.starts if source_partition.in_kafka}
        known = Committed(0, starts, cluster_id=committed.cluster_id)
        if self._kept is None:
            self._kept = self.load()
        if known == self._kept:
            return
        rows = [[each.topic, each.topic_id, each.partition] for each in starts]
        write_versioned(self._path, PIPELINE_FILES, {"cluster_id": known.cluster_id, "partitions": rows})
        self._kept = known
