"""The terminal, for a first look.

Guarantee: at least once; it keeps no position of its own, and shows the first rows of each batch and partition only.
"""

import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Literal

import orjson
import pyarrow as pa
from pydantic import Field

from penstock.record.decoded import RecordError
from penstock.record.positions import OffsetRange, SourcePartition
from penstock.sinks.rows import fitting, plain_rows
from penstock.sinks.sink import Sink, SinkContext, SinkModel
from penstock.terminal import write_data

if TYPE_CHECKING:
    from penstock.sinks.merging import MergeContext, MergingSink


class Console(SinkModel, frozen=True):
    """Rows on standard output, as JSON. At least once."""

    guarantee = "at least once"
    can_merge = True

    type: Literal["console"] = Field("console", description="The terminal.")
    rows: int = Field(20, ge=1, le=1000, description="Rows to show per batch and partition.")

    def open(self, context: SinkContext) -> "ConsoleSink":
        """Make the driver's part."""
        return ConsoleSink(self, context.name)

    def open_merge(self, context: "MergeContext") -> "MergingSink":
        """Make the driver's part for results that change."""
        from penstock.sinks.console_merge import ConsoleMerge

        return ConsoleMerge(self, context)


class ConsoleSink(Sink):
    """Prints the rows that came with the tasks' answers."""

    def __init__(self, spec: Console, name: str) -> None:
        super().__init__(name)
        self._limit = spec.rows

    def open(self, _schema: pa.Schema) -> None:
        """Nothing to open."""

    def positions(self, _source_partitions: Iterable[SourcePartition]) -> None:
        """Return none: it keeps no positions."""

    def stager(self) -> "ConsoleStagerFactory":
        """Return the stager that picks rows, which is sent to tasks."""
        return ConsoleStagerFactory(self._limit)

    def commit(self) -> None:
        """Print."""
        for each in self._staged:
            for row in each.detail.get("rows", ()):
                write_data(orjson.dumps(row) + b"\n")
        sys.stdout.flush()


class ConsoleStagerFactory:
    """Opens a stager per offset range."""

    def __init__(self, limit: int) -> None:
        self._limit = limit

    def __call__(self, _offset_range: OffsetRange) -> "ConsoleStager":
        """Start with no rows."""
        return ConsoleStager(self._limit)


class ConsoleStager:
    """Keeps the first rows."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._rows: list[dict[str, Any]] = []

    def write(self, rows: pa.RecordBatch, _offsets: pa.Array) -> list[tuple[int, RecordError]]:
        """Keep the first rows; refuse one of them if it cannot be shown."""
        shown, _, refused = fitting(rows.slice(0, self._limit - len(self._rows)), lambda some: list(plain_rows(some)))
        self._rows += shown
        return refused

    def finish(self) -> dict[str, Any]:
        """Return the rows."""
        return {"rows": self._rows}
