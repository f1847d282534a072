"""Positions: for each sink and each source partition, the next offset that the sink needs.

A sink keeps its positions in the same atomic step as its data. Writing is compare-and-set: an offset range that starts
at the position is written and moves it; what lies below is in already and is trimmed; one that starts above is a
gap, and the pipeline stops. Nothing else decides what has been written.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from penstock.errors import PositionsMoved


@dataclass(frozen=True, order=True)
class SourcePartition:
    """One partition of one topic.

    A topic that was deleted and recreated has another id, so its partitions are different ones.
    """

    topic: str
    topic_id: str
    partition: int

    @property
    def in_kafka(self) -> bool:
        """Return whether it belongs to a topic, and not to a file, in which no group can have a position."""
        return "/" not in self.topic

    def __str__(self) -> str:
        return f"{self.topic}/{self.partition}"


@dataclass(frozen=True)
class OffsetRange:
    """Offsets from `start` up to, not including, `end`, at one source partition."""

    source_partition: SourcePartition
    start: int
    end: int

    def less(self, skipped: Iterable[tuple[int, int]]) -> list["OffsetRange"]:
        """Return the parts that lie between what is skipped: from a first offset to behind the last, each."""
        parts, start = [], self.start
        for first, end in sorted(skipped):
            if first < self.end and end > start:
                parts.append(replace(self, start=start, end=max(start, first)))
                start = end
        parts.append(replace(self, start=start, end=max(start, self.end)))
        return [part for part in parts if part.start < part.end]

    def __str__(self) -> str:
        offsets = f"offset {self.start}" if self.end == self.start + 1 else f"offsets {self.start} to {self.end - 1}"
        return f"{self.source_partition} {offsets}"


Positions = dict[SourcePartition, int]


def require_unmoved(
    sink: str, expected: Mapping[SourcePartition, int | None], found: Mapping[SourcePartition, int]
) -> None:
    """Raise unless the sink's positions are where this driver left them: otherwise another driver has written there."""
    for source_partition, offset in expected.items():
        if found.get(source_partition) != offset:
            raise PositionsMoved(
                f"another driver has written to sink '{sink}': {source_partition} is at"
                f" {found.get(source_partition)},"
                f" and this driver expected {offset}",
                safe="Nothing of this batch was written to it",
                fix="Let only one driver of a pipeline run",
            )


def to_json(positions: Mapping[SourcePartition, int]) -> list[list[Any]]:
    """Write positions as plain lists."""
    return [
        [source_partition.topic, source_partition.topic_id, source_partition.partition, offset]
        for source_partition, offset in sorted(positions.items())
    ]


def from_json(rows: Iterable[Sequence[Any]]) -> Positions:
    """Read positions back."""
    return {SourcePartition(topic, topic_id, partition): offset for topic, topic_id, partition, offset in rows}
