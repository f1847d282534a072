"""Positions in a topic: earliest, latest, an offset, a time, or a number of records before the end."""

import datetime
import re
import time
from dataclasses import dataclass
from typing import Literal

from confluent_kafka import OFFSET_INVALID, IsolationLevel, TopicPartition
from confluent_kafka.admin import ListOffsetsResultInfo, OffsetSpec

from penstock.errors import BadInput, LeaderNotAvailable
from penstock.kafka.admin import Admin
from penstock.quantities import parse_duration_ms

_EARLIEST = OffsetSpec.earliest()  # type: ignore[no-untyped-call]
_LATEST = OffsetSpec.latest()  # type: ignore[no-untyped-call]
_LATEST_WORDS = {"latest", "end"}
_AGO = re.compile(r"\d+(\.\d+)?\s*[a-zA-Z]+")


@dataclass(frozen=True)
class Position:
    """Where to start or stop. `value` is an offset, milliseconds since 1970, or a count of records."""

    kind: Literal["earliest", "latest", "offset", "timestamp", "before_end"]
    value: int = 0

    @classmethod
    def parse(cls, text: str) -> "Position":
        """Read `earliest`, `latest`, an offset such as `42`, a time such as `2026-01-31T12:00`, or `15m` ago."""
        cleaned = text.strip()
        if cleaned in {"earliest", "beginning", "start"}:
            return cls("earliest")
        if cleaned in _LATEST_WORDS:
            return cls("latest")
        if cleaned.isascii() and cleaned.isdecimal():
            return cls("offset", int(cleaned))
        try:
            if _AGO.fullmatch(cleaned):
                moment_ms = int(time.time() * 1000) - parse_duration_ms(cleaned)
            else:  # a time without a zone is the user's own
                moment_ms = int(datetime.datetime.fromisoformat(cleaned).timestamp() * 1000)
        except (ValueError, OverflowError):
            raise BadInput(
                f"'{text}' is not a position in a topic: say earliest, latest, an offset (42),"
                " a time (2026-01-31T12:00) or how long ago (15m)"
            ) from None
        return cls("timestamp", max(0, moment_ms))  # no record is older, and -1 would be the end to Kafka


def moves_on(text: str) -> bool:
    """Return whether a position, as written, means another offset later on: `latest`, or a time before now."""
    cleaned = text.strip()
    return cleaned in _LATEST_WORDS or _AGO.fullmatch(cleaned) is not None


EARLIEST = Position("earliest")
LATEST = Position("latest")


def bounds(admin: Admin, partitions: list[tuple[str, int]]) -> dict[tuple[str, int], tuple[int, int]]:
    """Return the first and the next offset of each partition."""
    starts, ends = _listed(admin, partitions, _EARLIEST, _LATEST)
    return {partition: (starts[partition].offset, ends[partition].offset) for partition in partitions}


def committed_bounds(
    admin: Admin, partitions: list[tuple[str, int]]
) -> dict[tuple[str, int], tuple[int, int, int | None]]:
    """Return the first offset of each partition, the end of what a reader of committed records gets now, and its epoch.

    That is the epoch of the leader who said so, if the broker knows epochs.
    """
    starts, ends = _listed(admin, partitions, _EARLIEST, _LATEST, isolation_level=IsolationLevel.READ_COMMITTED)
    return {
        partition: (starts[partition].offset, ends[partition].offset, _epoch(ends[partition]))
        for partition in partitions
    }


def _epoch(found: ListOffsetsResultInfo) -> int | None:
    epoch: int | None = found.leader_epoch
    return epoch if epoch is not None and epoch >= 0 else None


def stable_ends(admin: Admin, partitions: list[tuple[str, int]]) -> dict[tuple[str, int], int]:
    """Return the last stable offset of each partition: the end, or where the first open transaction begins."""
    return _list_offsets(admin, partitions, _LATEST, isolation_level=IsolationLevel.READ_COMMITTED)


def resolve(admin: Admin, position: Position, partitions: list[tuple[str, int]]) -> dict[tuple[str, int], int]:
    """Turn a position into one offset per partition, within what the partition holds."""
    limits = bounds(admin, partitions)
    if position.kind == "timestamp":
        found = _list_offsets(admin, partitions, OffsetSpec.for_timestamp(position.value))
        # No record is that young: the position is the end.
        return {partition: offset if offset >= 0 else limits[partition][1] for partition, offset in found.items()}
    return {partition: offset_within(position, partition, limits[partition]) for partition in partitions}


def offset_within(position: Position, partition: tuple[str, int], limits: tuple[int, int]) -> int:
    """Resolve a position that does not depend on timestamps."""
    start, end = limits
    if position.kind == "earliest":
        return start
    if position.kind == "latest":
        return end
    if position.kind == "before_end":
        return max(start, end - position.value)
    if not start <= position.value <= end:
        raise BadInput(f"offset {position.value} is not in {partition[0]}/{partition[1]}, which holds {start} to {end}")
    return position.value


def _list_offsets(
    admin: Admin, partitions: list[tuple[str, int]], spec: OffsetSpec, **options: IsolationLevel
) -> dict[tuple[str, int], int]:
    (listed,) = _listed(admin, partitions, spec, **options)
    return {partition: found.offset for partition, found in listed.items()}


def _listed(
    admin: Admin, partitions: list[tuple[str, int]], *specs: OffsetSpec, **options: IsolationLevel
) -> list[dict[tuple[str, int], ListOffsetsResultInfo]]:
    """Ask for several offsets of each partition at the same time: the answers take as long as one."""
    if not partitions:
        return [{} for _ in specs]
    questions = [{TopicPartition(topic, number): spec for topic, number in partitions} for spec in specs]
    doing = f"looking up offsets of topic '{partitions[0][0]}'"

    def ask() -> list[dict[tuple[str, int], ListOffsetsResultInfo]]:
        asked = [admin.client.list_offsets(each, request_timeout=admin.timeout_s, **options) for each in questions]
        found = [
            {(each.topic, each.partition): admin.result(future, doing) for each, future in futures.items()}
            for futures in asked
        ]
        for answers in found:
            _require_answers(answers, doing)
        return found

    # A leader that was just chosen does not know its end for a moment, and librdkafka does not ask again.
    return admin.when_ready(ask)


def _require_answers(found: dict[tuple[str, int], ListOffsetsResultInfo], doing: str) -> None:
    """Raise if nothing was reported for a partition: its leader died, and librdkafka reports no error."""
    for (topic, partition), each in found.items():
        if each.offset == OFFSET_INVALID:
            raise LeaderNotAvailable(f"{doing}: {topic}/{partition} has no leader", fix="Try again in a moment")
