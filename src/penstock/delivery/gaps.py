"""Recorded gaps: what was skipped on purpose, who decided it, and when."""

import datetime
from pathlib import Path
from typing import Literal

import orjson
from pydantic import BaseModel, Field

from penstock.delivery.durable import write_bytes
from penstock.record.formats import GAPS, KEY, require_format
from penstock.record.positions import SourcePartition

TOPIC_DELETED = "topic deleted"
_FILE = "gaps.jsonl"


class Gap(BaseModel, frozen=True):
    """Offsets that a pipeline went past without reading them."""

    at: str = Field(description="When it was recorded.")
    pipeline: str = Field(description="The pipeline.")
    topic: str = Field(description="The topic.")
    topic_id: str = Field(description="Its id then.")
    partition: int = Field(description="The partition.")
    start: int = Field(description="First offset that was skipped.")
    end: int | None = Field(
        description="Offset after the last one that was skipped; none if nobody knows any more, nor whether partitions"
        " were added to the topic that were never looked at."
    )
    reason: str = Field(
        description="retention, log truncated, topic recreated, topic deleted, another cluster, or what somebody said"
        " who skipped it."
    )
    by: Literal["skip", "skip-gap", "rebuild", "driver"] = Field(
        description="The command that decided it; the driver itself goes on where a topic of a pattern is gone."
    )

    @property
    def is_given_up(self) -> bool:
        """Return whether somebody decided to skip these offsets."""
        return self.by in {"skip", "skip-gap"}

    @classmethod
    def of(
        cls,
        pipeline: str,
        source_partition: SourcePartition,
        offsets: tuple[int, int | None],
        reason: str,
        by: Literal["skip", "skip-gap", "rebuild", "driver"],
    ) -> "Gap":
        """Describe offsets of a source partition, from the first to behind the last, as of now."""
        return cls(
            at=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
            pipeline=pipeline,
            topic=source_partition.topic,
            topic_id=source_partition.topic_id,
            partition=source_partition.partition,
            start=offsets[0],
            end=offsets[1],
            reason=reason,
            by=by,
        )


def record(folder: Path, gaps: list[Gap]) -> None:
    """Append gaps to the pipeline's record, durably, before anything moves past them; each offset once.

    What is there already was recorded by a command that died before everything had moved past it. Since then retention
    may have taken more, which alone is new.
    """
    known = read(folder)
    lines = [
        orjson.dumps({KEY: GAPS, **part.model_dump()}, option=orjson.OPT_APPEND_NEWLINE)
        for gap in gaps
        for part in _less(
            gap, [each for each in known if _partition_of(each) == _partition_of(gap) and _counts(each, gap)]
        )
    ]
    write_bytes(folder / _FILE, b"".join([_whole_lines(folder), *lines]))


def read(folder: Path) -> list[Gap]:
    """Read the record; raise `FormatNotUnderstood` if a line has another version."""
    found = [orjson.loads(line) for line in _whole_lines(folder).splitlines()]
    for number, line in enumerate(found, start=1):
        require_format(f"line {number} of {folder / _FILE}", line.pop(KEY, None), GAPS)
    return [Gap.model_validate(line) for line in found]


def ranges(folder: Path) -> dict[tuple[str, int], list[tuple[int, int]]]:
    """Return the offsets to skip: by topic id and partition, from the first to the one after the last.

    These were given up by `skip` or `skip-gap`. What a driver or a rebuild records is only a finding: if the records
    turn up after all, they are read.
    """
    found: dict[tuple[str, int], list[tuple[int, int]]] = {}
    for gap in read(folder):
        if gap.end is not None and gap.is_given_up:
            found.setdefault(_partition_of(gap), []).append((gap.start, gap.end))
    return found


def _whole_lines(folder: Path) -> bytes:
    """Leave out a last line that was cut short: nothing has moved past a gap that was not recorded to its end."""
    path = folder / _FILE
    found = path.read_bytes() if path.exists() else b""
    return found[: found.rfind(b"\n") + 1]


def _partition_of(gap: Gap) -> tuple[str, int]:
    return gap.topic_id, gap.partition


def _counts(known: Gap, gap: Gap) -> bool:
    """Return whether a recorded gap covers another: a finding does not cover a decision."""
    return known.is_given_up or not gap.is_given_up


def _less(gap: Gap, known: list[Gap]) -> list[Gap]:
    """Leave out what is recorded already; an unknown end is beyond all offsets."""
    parts, start, end = [], gap.start, gap.end
    for each in sorted(known, key=lambda gap: gap.start):
        if (end is None or each.start < end) and (each.end is None or each.end > start):
            if start < each.start:
                parts.append(gap.model_copy(update={"start": start, "end": each.start}))
            if each.end is None:
                return parts
            start = each.end
    if end is None or start < end:
        parts.append(gap.model_copy(update={"start": start}))
    return parts
