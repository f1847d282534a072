"""The terminal, for a first look.

Guarantee: at least once; it keeps no position of its own, and shows the first rows of each batch and partition only.
"""

import sys
from collections.abc import Iterable
from typing import Any, Literal

import orjson
import pyarrow as pa
from pydantic import BaseModel, Field

from penstock.record.columns import COORDINATES
from penstock.record.decoded import RecordError
from penstock.record.positions import OffsetRange, SourcePartition
from penstock.sinks.rows import fitting, plain_rows
from penstock.sinks.sink import Sink
from penstock.terminal import write_data


class Console(BaseModel, frozen=True, extra="forbid"):
    """Rows on standard output, as JSON. At least once."""

    type: Literal["console"] = Field("console", description="The terminal.")
    name: str | None = Field(None, description="Name of the sink in reports; its type if left out.")
    where: str | None = Field(None, description="SQL condition: only rows that meet it go to this sink.")
    rows: int = Field(20, ge=1, le=1000, description="Rows to show per batch and partition.")

    @property
    def reserved_columns(self) -> tuple[str, ...]:
        """The columns of Penstock that are shown."""
        return COORDINATES

    def sink(self, name: str) -> "ConsoleSink":
        """Make the driver's part."""
        return ConsoleSink(self, name)


class ConsoleSink(Sink):
    """Prints what the tasks brought along."""

    def __init__(self, spec: Console, name: str) -> None:
        super().__init__(name)
        self._limit = spec.rows

    def open(self, _schema: pa.Schema) -> None:
        """Nothing to open."""

    def positions(self, _source_partitions: Iterable[SourcePartition]) -> None:
        """Return none: it keeps no positions."""

    def stager(self) -> "ConsoleStagerFactory":
        """Return what tasks pick rows with."""
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
        """Keep what there is room for; refuse a row among those that cannot be shown."""
        shown, _, refused = fitting(rows.slice(0, self._limit - len(self._rows)), lambda some: list(plain_rows(some)))
        self._rows += shown
        return refused

    def finish(self) -> dict[str, Any]:
        """Hand the rows over."""
        return {"rows": self._rows}
