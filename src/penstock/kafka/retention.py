"""What retention will delete next, counted by the records' timestamps."""

import time

from pydantic import BaseModel, Field

from penstock.kafka import topics
from penstock.kafka.admin import Admin
from penstock.kafka.positions import Position, bounds, resolve

_DAY_MS = 86_400_000


class Retention(BaseModel, frozen=True):
    """How long a topic keeps records, and which go next. Offsets are counted, so these are at most so many records."""

    deletes: bool = Field(description="Whether records are deleted by age or size at all (cleanup.policy).")
    keeps_ms: int | None = Field(description="How long a record is kept, in milliseconds; none for ever.")
    keeps_bytes: int | None = Field(description="Bytes that each partition keeps; none for any number.")
    due: int = Field(description="Records that are older: they go as soon as their segment is closed.")
    due_within_day: int = Field(description="Further records that will be older within 24 hours.")


def retention_of(admin: Admin, topic: str) -> Retention:
    """Count what goes next; raise `NotFound` if there is no such topic."""
    settings = topics.config(admin, topic)
    keeps_ms, keeps_bytes = (
        _limit(settings.get(name, ("-1", False))[0]) for name in ("retention.ms", "retention.bytes")
    )
    deletes = "delete" in settings.get("cleanup.policy", ("", False))[0]
    found = admin.metadata(f"looking at topic '{topic}'").topics.get(topic)
    partitions = [(topic, part.id) for part in found.partitions.values() if part.leader >= 0] if found else []
    due = due_within_day = 0
    if deletes and keeps_ms is not None and partitions:
        starts = {partition: start for partition, (start, _) in bounds(admin, partitions).items()}
        before_ms = int(time.time() * 1000) - keeps_ms
        now, tomorrow = (
            sum(max(0, offset - starts[each]) for each, offset in _older(admin, moment, partitions).items())
            for moment in (before_ms, before_ms + _DAY_MS)
        )
        due, due_within_day = now, max(0, tomorrow - now)
    return Retention(
        deletes=deletes, keeps_ms=keeps_ms, keeps_bytes=keeps_bytes, due=due, due_within_day=due_within_day
    )


def _older(admin: Admin, moment_ms: int, partitions: list[tuple[str, int]]) -> dict[tuple[str, int], int]:
    """Return the offset of each partition that the first record of this age, or a younger one, has."""
    return resolve(admin, Position("timestamp", max(0, moment_ms)), partitions)


def _limit(value: str) -> int | None:
    """Return a limit of Kafka's; below zero it is none."""
    return int(value) if value.isdecimal() else None
