"""Recorded gaps: what was skipped on purpose, by whom it was decided, and when."""

import datetime
from pathlib import Path

import orjson
from pydantic import BaseModel, Field

from penstock.delivery.durable import write_bytes


class Gap(BaseModel, frozen=True):
    """Offsets that a pipeline went past without reading them."""

    at: str = Field(description="When it was recorded.")
    pipeline: str = Field(description="The pipeline.")
    topic: str = Field(description="The topic.")
    topic_id: str = Field(description="Its id then.")
    partition: int = Field(description="The partition.")
    start: int = Field(description="First offset that was skipped.")
    end: int | None = Field(description="Offset after the last one that was skipped; none if nobody knows any more.")
    reason: str = Field(
        description="retention, log truncated, topic recreated, topic deleted, or what somebody said who skipped it."
    )


def record(folder: Path, gaps: list[Gap]) -> None:
    """Append gaps to the pipeline's record, durably, before anything moves past them; each once.

    One that is there already was recorded by a command that died before everything had moved past it.
    """
    known = {_what(gap) for gap in read(folder)}
    lines = [
        orjson.dumps(gap.model_dump(), option=orjson.OPT_APPEND_NEWLINE) for gap in gaps if _what(gap) not in known
    ]
    write_bytes(folder / "gaps.jsonl", b"".join([_whole_lines(folder), *lines]))


def read(folder: Path) -> list[Gap]:
    """Read the record."""
    return [Gap.model_validate_json(line) for line in _whole_lines(folder).splitlines()]


def ranges(folder: Path) -> dict[tuple[str, int], list[tuple[int, int]]]:
    """Give the offsets that are on record as skipped: by topic id and partition, from the first to behind the last."""
    found: dict[tuple[str, int], list[tuple[int, int]]] = {}
    for gap in read(folder):
        if gap.end is not None:
            found.setdefault((gap.topic_id, gap.partition), []).append((gap.start, gap.end))
    return found


def _whole_lines(folder: Path) -> bytes:
    """Leave out a last line that was cut short: nothing has moved past a gap that was not recorded to its end."""
    path = folder / "gaps.jsonl"
    found = path.read_bytes() if path.exists() else b""
    return found[: found.rfind(b"\n") + 1]


def _what(gap: Gap) -> tuple[object, ...]:
    return tuple(gap.model_dump(exclude={"at"}).values())


def now() -> str:
    """Give the time as records have it."""
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
