"""What a source holds right now: one entry per source partition."""

from dataclasses import dataclass

from penstock.record.positions import SourcePartition


@dataclass(frozen=True)
class AvailableRange:
    """The first offset that is still there, and the one that the next committed record will get."""

    source_partition: SourcePartition
    first: int
    end: int
    leader_epoch: int | None = None
    """Kafka's count of the partition's leaders, as of that end."""
