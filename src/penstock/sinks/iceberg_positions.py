"""Positions in an Iceberg table: in the summary of each snapshot of ours, and in a property of the table.

A snapshot's positions belong to its rows, so that a table that is rolled back to it has them again: those of the newest
snapshot count, or of the nearest before it that has some. The property says the same of one snapshot by its id, for
when others have written on top and that snapshot was expired. Anybody can overwrite or remove it; what summaries say
goes first. All positions of all pipelines are carried on by every commit, for no later one could look them up.

A snapshot of ours that somebody has put on top of another by itself (cherry-picked) has rows, and no positions: those
before it do not tell of these rows, and its own tell of rows that are not there. Then none is true.
"""

from collections.abc import Iterator, Mapping
from typing import Any, TypeVar

import msgspec
import orjson

from penstock.errors import PositionLost
from penstock.record.positions import SourcePartition

PROPERTY = "penstock.positions"
_FIRST = 1
"""The sequence number of a table's first snapshot."""

Positions = dict[str, int]
"""By `pipeline/sink/topic id/partition`."""

Grouped = dict[str, dict[str, int]]
"""The same, by topic and partition."""

_Kind = TypeVar("_Kind")


class _Said(msgspec.Struct):
    """What the property says."""

    snapshot: int
    positions: Grouped


_PICKED = "source-snapshot-id"
"""What the summary of a snapshot says that repeats another one on top of the newest."""


class PositionsUnknown(Exception):
    """The table's metadata do not tell which positions are true of its rows, or not any more."""


def in_summary(positions: Mapping[str, int]) -> dict[str, str]:
    """Return what a snapshot's summary says."""
    return {PROPERTY: _dumped(_grouped(positions))}


def in_property(positions: Mapping[str, int], snapshot_id: int) -> dict[str, str]:
    """Return what the table's property says, once the snapshot is its newest."""
    return {PROPERTY: _dumped({"snapshot": snapshot_id, "positions": _grouped(positions)})}


def _dumped(said: Mapping[str, Any]) -> str:
    return orjson.dumps(said, option=orjson.OPT_SORT_KEYS).decode()


def _grouped(positions: Mapping[str, int]) -> Grouped:
    """Write the name of each topic once: a table keeps the summaries of many snapshots."""
    grouped: Grouped = {}
    for key, position in positions.items():
        topic, _, partition = key.rpartition("/")
        grouped.setdefault(topic, {})[partition] = position
    return grouped


def _flat(grouped: Grouped) -> Positions:
    return {f"{topic}/{each}": position for topic, parts in grouped.items() for each, position in parts.items()}


def positions_in(table: Any) -> Positions:
    """Return the positions that are true of the rows in the table's newest snapshot, of all pipelines and sinks."""
    try:
        return _looked_up(table)
    except PositionsUnknown:
        if PROPERTY in table.properties:
            raise
        # As far as the table tells, nobody of ours has written to it. If one has, a checkpoint knows better.
        return {}


def _looked_up(table: Any) -> Positions:
    said = _said(table.properties)
    snapshots = _Snapshots(table)
    at = table.metadata.current_snapshot_id
    while at is not None:
        is_said = said is not None and at == said.snapshot
        summary = {} if is_said and not snapshots.is_at_hand(at) else snapshots.find(at).summary or {}
        if (found := summary.get(PROPERTY)) is not None:
            return _flat(_decoded(found, Grouped))
        if said is not None and is_said:
            return _flat(said.positions)
        if (picked := summary.get(_PICKED)) is not None and snapshots.is_ours(int(picked)):
            raise PositionsUnknown
        at = snapshots.parent(at)
    return {}


def _said(properties: Mapping[str, str]) -> _Said | None:
    """Return what the property says; None if it is not there, or somebody has made something else of it."""
    try:
        return _decoded(properties[PROPERTY], _Said) if PROPERTY in properties else None
    except PositionsUnknown:
        return None


def _decoded(text: str, kind: type[_Kind]) -> _Kind:
    try:
        return msgspec.json.decode(text, type=kind)
    except (msgspec.MsgspecError, UnicodeEncodeError):
        raise PositionsUnknown from None


def recorded_positions(table: Any, what: str, pipeline: str) -> Positions:
    """Return the same; raise `PositionLost` if they cannot be told of the table `what`."""
    try:
        return positions_in(table)
    except PositionsUnknown:
        raise PositionLost(
            f"{what} was rolled back, or written to by others, and its metadata do not tell any more which of our"
            " snapshots its rows are of: what it holds is not known",
            safe="Nothing was written",
            fix="Give the sink another `path`; to fill that from the source's start, run: penstock pipeline rebuild"
            f" {pipeline}",
        ) from None


def position_key(pipeline: str, sink: str, source_partition: SourcePartition) -> str:
    """Return the name that a position has."""
    return f"{pipeline}/{sink}/{source_partition.topic_id}/{source_partition.partition}"


class _Snapshots:
    """The snapshots of a table; those that were expired, too, as long as metadata are there that it had before."""

    def __init__(self, table: Any) -> None:
        self._known = {each.snapshot_id: each for each in table.metadata.snapshots}
        self._older = _older_snapshots(table)

    def is_at_hand(self, snapshot_id: int) -> bool:
        """Return whether it is known without reading metadata that the table had before."""
        return snapshot_id in self._known

    def find(self, snapshot_id: int) -> Any:
        """Return a snapshot; raise `PositionsUnknown` if nothing tells of it."""
        while snapshot_id not in self._known:
            self._reach_back()
        return self._known[snapshot_id]

    def is_ours(self, snapshot_id: int) -> bool:
        """Return whether a snapshot is known to be one with positions."""
        try:
            return PROPERTY in (self.find(snapshot_id).summary or {})
        except PositionsUnknown:
            return False

    def parent(self, snapshot_id: int) -> int | None:
        """Return the one before; None before the first. Some who expire snapshots take this from their children."""
        while (found := self._known[snapshot_id]).parent_snapshot_id is None and found.sequence_number != _FIRST:
            self._reach_back()
        parent: int | None = found.parent_snapshot_id
        return parent

    def _reach_back(self) -> None:
        try:
            older = next(self._older)
        except StopIteration:
            raise PositionsUnknown from None
        for each in older:
            known = self._known.get(each.snapshot_id)
            if known is None or known.parent_snapshot_id is None:
                self._known[each.snapshot_id] = each


def _older_snapshots(table: Any) -> Iterator[Any]:
    """Read the snapshots in the metadata that the table had before, newest first."""
    from pyiceberg.serializers import FromInputFile

    for entry in reversed(table.metadata.metadata_log):
        try:
            metadata = FromInputFile.table_metadata(table.io.new_input(entry.metadata_file))
        except FileNotFoundError:
            continue
        yield metadata.snapshots
