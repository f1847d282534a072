"""What a task reports to the driver of its offset range: what it read, what it staged, what its handlers did.

Inside a task, its parts report what they know by a `TaskSummary` in a row of its own, which is passed along with the
events. The last part puts it into the `Manifest`. Of a task that ran twice the driver gets one manifest only.
"""

from collections.abc import Iterable
from typing import Any, Self

import msgspec
import pyarrow as pa

from penstock.record.columns import ERROR, SUMMARY

COLUMN = "manifest"
MANIFEST = f"{COLUMN} string"
"""The schema, as Spark takes it, of the one row that the end of a task gives."""


class TaskSummary(msgspec.Struct, frozen=True, omit_defaults=True):
    """What one part of a task reports; unknown fields are left out."""

    read: dict[int, int] = {}
    """How many events were read from each offset on from which some sink still needs them."""
    end: int | None = None
    """How far the task got: the offset behind the last one that was read."""
    handlers: dict[str, Any] = {}
    """What handlers counted."""
    stopped: tuple[int, str] | None = None
    """The offset at which a handler failed whose `on_failure` says to stop, and why."""

    def row(self, schema: pa.Schema) -> pa.RecordBatch:
        """Return the row that is passed along with the events."""
        error = {"stage": SUMMARY, "error": "", "message": msgspec.json.encode(self).decode()}
        columns = [pa.nulls(1, each.type) for each in schema][:-1]
        return pa.RecordBatch.from_arrays([*columns, pa.array([error], ERROR)], schema=schema)

    def with_rows(self, errors: pa.Array) -> "TaskSummary":
        """Return this with what rows of summaries say, given their column of errors."""
        summary = self
        for error in errors.to_pylist():
            found = msgspec.json.decode(error["message"], type=TaskSummary)
            summary = TaskSummary(
                read=found.read or summary.read,
                end=summary.end if found.end is None else found.end,
                handlers=found.handlers or summary.handlers,
                stopped=found.stopped or summary.stopped,
            )
        return summary


class SinkPart(msgspec.Struct, frozen=True):
    """What became of the events for one sink."""

    rows: int
    dead: int
    dropped: int
    detail: dict[str, Any]
    """What the sink's own part in the driver needs to find the rows."""


class Manifest(msgspec.Struct, frozen=True):
    """What one task did."""

    index: int
    """Which of the batch's offset ranges it had."""
    summary: TaskSummary
    sinks: dict[str, SinkPart]
    dead: dict[str, Any]
    """What the driver needs to find the dead letters."""
    rules: dict[str, int]
    """How many rows broke each expectation."""
    failed_rule: tuple[str, int] | None
    """The first expectation that was broken and says to stop, and the offset."""

    def row(self) -> pa.RecordBatch:
        """Return the row that goes to the driver."""
        return pa.RecordBatch.from_pydict({COLUMN: [msgspec.json.encode(self).decode()]})

    @classmethod
    def read(cls, text: str) -> Self:
        """Return what `row` has in its column."""
        return msgspec.json.decode(text, type=cls)

    @property
    def end(self) -> int:
        """How far the task got. Only a task that was stopped does not know, and its batch is not committed."""
        if self.summary.end is None:
            raise ValueError("the task did not say how far it got")
        return self.summary.end


def added_up(parts: Iterable[dict[str, Any]]) -> dict[str, Any]:
    """Add up what several tasks counted, at any depth."""
    total: dict[str, Any] = {}
    for part in parts:
        for name, value in part.items():
            known = total.get(name)
            total[name] = added_up([known or {}, value]) if isinstance(value, dict) else (known or 0) + value
    return total
