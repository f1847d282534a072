"""A sink's part in a stateful pipeline: results are merged by key, and the batch that they hold is the position.

Guarantee: exactly once. Rows and position move in one step. A batch that runs again finds its own position and changes
nothing; one that does not follow the position is refused, and the pipeline stops.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds

from penstock.record.positions import SourcePartition
from penstock.sinks.key_values import last_of_each, with_plain_keys
from penstock.sinks.schema_change import SchemaChange

STATE = SourcePartition("state", "state", 0)


@dataclass(frozen=True)
class MergeContext:
    """What a sink is opened with in a stateful pipeline."""

    name: str
    """The sink's own name, which its position carries."""
    pipeline: str


class MergingSink(ABC):
    """Takes the changed results of one batch."""

    keeps_position = True

    def __init__(self, name: str) -> None:
        self.name = name

    def require_fitting(self, _schema: pa.Schema) -> SchemaChange | None:
        """Raise what `merge` would raise of a table that cannot take results of this schema; nothing is made.

        Return what the first results will change in its columns; None if it is not there.
        """
        return None

    @abstractmethod
    def position(self) -> int | None:
        """Return what identifies the last batch that was written; None if nothing ever was."""

    @abstractmethod
    def merge(self, rows: ds.Dataset, expected: int | None, following: int) -> None:
        """Write the rows and move the position from `expected` to `following`, in one step."""

    def close(self) -> None:  # noqa: B027 - most hold nothing
        """Close connections; called once, also after a failure."""


def newest(rows: ds.Dataset, key: list[str]) -> pa.RecordBatchReader:
    """Keep the last row of each key: a batch may change one result several times. Only keys are held in memory."""
    keys = with_plain_keys(rows.to_table(columns=key), key)
    last = last_of_each(keys, key)

    def kept() -> Iterator[pa.RecordBatch]:
        start = 0
        for batch in rows.to_batches():
            first, end = np.searchsorted(last, [start, start + batch.num_rows])
            if first < end:
                yield with_plain_keys(batch.take(pa.array(last[first:end] - start)), key)
            start += batch.num_rows

    return pa.RecordBatchReader.from_batches(rows.schema, kept())
