"""The position that each row of a `kafka` sink carries: where the sink stands is found again if Kafka forgets it.

The header `penstock.position` names the group whose position the row has moved, the source partition, and the position:
the offset behind the row's record. So rows of other sinks, of other pipelines and of replays are not taken for it.
"""

from collections.abc import Collection, Sequence
from typing import Any

from penstock.errors import Refused
from penstock.kafka import topics
from penstock.kafka.admin import Admin
from penstock.kafka.connection import Connection
from penstock.kafka.positions import Position, bounds
from penstock.kafka.reader import Reader
from penstock.record.columns import COORDINATES
from penstock.record.formats import KAFKA_RECORD, require_format, version_of
from penstock.record.positions import Positions, SourcePartition
from penstock.sinks.sink import OnRead

POSITION = "penstock.position"
"""The header, right before that of the format version."""

_FIRST_LOOK = 5_000
"""How many offsets before the end of each partition are looked at first."""

_BEFORE_THE_VERSION = (POSITION, f"penstock.{COORDINATES[-1].strip('_')}")
"""Records of a pipeline in real time have no position: the last of their coordinates stands there."""


def position_prefix(group: str, source_partition: SourcePartition) -> str:
    """Return what stands in the header before the position."""
    return f"{group} {source_partition.topic_id} {source_partition.partition} "


def find_positions(
    connection: Connection, topic: str, group: str, source_partitions: Collection[SourcePartition], on_read: OnRead
) -> tuple[Positions, dict[SourcePartition, str]]:
    """Read a topic to its end, and return the furthest position of each source partition that a row of the group has.

    And the source partitions that other sinks of the pipeline have written rows of, with the group of one of these. An
    open transaction is waited for, whoever opened it: rows of this group may stand behind it.
    """
    pipeline = group[: group.rindex(".") + 1].encode()
    prefixes = {position_prefix(group, each).encode(): each for each in source_partitions}
    numbers = topics.identify(Admin(connection), [topic])[topic][1]
    total = sum(end - start for start, end in bounds(Admin(connection), [(topic, each) for each in numbers]).values())
    suffixes = {position_prefix("", each).encode(): each for each in source_partitions}
    found: Positions = {}
    others: dict[SourcePartition, str] = {}
    done = 0
    with Reader(connection, topic, wait_for_open_transactions=True) as reader:
        for batch in reader.batches():
            for message in batch:
                listed: Any = message.headers() or ()
                prefix, position = _carried(listed, f"{topic}/{message.partition()} offset {message.offset()}")
                if source_partition := prefixes.get(prefix):
                    found[source_partition] = max(position, found.get(source_partition, 0))
                elif prefix.startswith(pipeline):
                    writer, space, rest = prefix.partition(b" ")
                    if source_partition := suffixes.get(space + rest):
                        others[source_partition] = writer.decode(errors="replace")
            done += len(batch)
            on_read(topic, done, total)
    return found, others


def find_beyond(connection: Connection, topic: str, group: str, positions: Positions) -> Positions:
    """Return positions of rows of the group that are further than these, if there are any.

    Rows of one source partition are in order in each partition of the topic. So it is read from its end, and only as
    far back as it takes to meet a row of each that is not further.
    """
    prefixes = {position_prefix(group, each).encode(): each for each in positions}
    numbers = topics.identify(Admin(connection), [topic])[topic][1]
    limits = bounds(Admin(connection), [(topic, each) for each in numbers])
    count, longest = _FIRST_LOOK, max(end - first for first, end in limits.values())
    while longest and positions:
        met: dict[int, set[SourcePartition]] = {each: set() for each in numbers}
        found: Positions = {}
        start = Position("before_end", count)
        with Reader(connection, topic, start=start, wait_for_open_transactions=True) as reader:
            for message in reader:
                number = int(message.partition() or 0)
                listed: Any = message.headers() or ()
                prefix, position = _carried(listed, f"{topic}/{number} offset {message.offset()}")
                source_partition = prefixes.get(prefix)
                if source_partition is not None and position > positions[source_partition]:
                    found[source_partition] = max(position, found.get(source_partition, 0))
                elif source_partition is not None:
                    met[number].add(source_partition)
        if found or all(
            len(met[number]) == len(positions) or count >= end - first for (_, number), (first, end) in limits.items()
        ):
            return found
        count *= 8
    return {}


def _carried(headers: Sequence[tuple[str, bytes | None]], where: str) -> tuple[bytes, int]:
    """Return what a record's own position says; of a record that is no row of such a sink, nothing."""
    name, carried = headers[-2] if len(headers) > 1 else ("", None)
    if (version := version_of(headers)) is None or name not in _BEFORE_THE_VERSION:
        return b"", 0
    require_format(f"the record at {where}", version, KAFKA_RECORD, otherwise="let the sink write to another topic")
    prefix, space, position = (carried or b"").rpartition(b" ")
    is_position = name == POSITION and position.isdigit() and len(position) < len(str(2**63))
    return (prefix + space, int(position)) if is_position else (b"", 0)


def keeps_all(admin: Admin, topic: str) -> bool:
    """Return whether nothing was removed from a topic, neither by retention nor by compaction.

    Of a topic that was compacted before, and is not any more, this is not seen.
    """
    try:
        policy, _ = topics.config(admin, topic)["cleanup.policy"]
    except Refused:
        return False  # this client may not see it
    numbers = topics.identify(admin, [topic])[topic][1]
    starts = (start for start, _ in bounds(admin, [(topic, each) for each in numbers]).values())
    return "compact" not in policy and not any(starts)
