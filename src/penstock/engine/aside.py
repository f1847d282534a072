"""Columns that SQL does not ask for stay in Python: they wait in a file while the others pass through the JVM.

Most of a record's bytes are its raw value, which only a dead letter needs, and most columns of Penstock are the same
for all rows of a task. Rows are numbered on their way out, and their order is kept, so that each finds its own again.
The two Python workers of a task run on one machine at the same time; once both have the file open it has no name any
more, so nothing is left behind.
"""

import tempfile
import uuid
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark import TaskContext

from penstock.pipeline.columns import RESERVED, user_columns

NUMBER = "_row"


@dataclass(frozen=True)
class Aside:
    """One way through the JVM and back. `wanted` names the columns of Penstock that the SQL asks for."""

    wanted: frozenset[str]
    id: str = field(default_factory=lambda: uuid.uuid4().hex)

    @property
    def waiting(self) -> list[str]:
        """The columns that wait."""
        return [name for name in RESERVED.names if name not in self.wanted and name != "_error"]

    def passing(self, schema: pa.Schema) -> pa.Schema:
        """Give the columns that pass."""
        names = [*user_columns(schema.names), *(name for name in RESERVED.names if name not in self.waiting)]
        return pa.schema([*(schema.field(name) for name in names), (NUMBER, pa.int64())])

    def path(self) -> Path:
        """Name the file of this attempt of this task; both of its workers know the number."""
        context = TaskContext.get()
        attempt = context.taskAttemptId() if context is not None else 0
        return Path(tempfile.gettempdir()) / f"penstock-aside-{self.id}-{attempt}.arrow"


class SetAside:
    """Writes the waiting columns down, and lets the others pass."""

    def __init__(self, aside: Aside, schema: pa.Schema) -> None:
        self._aside = aside
        self.schema = aside.passing(schema)

    def __call__(self, batches: Iterator[pa.RecordBatch], _index: int) -> Iterator[pa.RecordBatch]:
        """Give slim rows; what they lack is in the file before they leave."""
        waiting = pa.schema([RESERVED.field(name) for name in self._aside.waiting])
        number = 0
        with pa.OSFile(str(self._aside.path()), "wb") as file, pa.ipc.new_stream(file, waiting) as stream:
            for batch in batches:
                stream.write_batch(batch.select(waiting.names))
                numbers = pa.array(np.arange(number, number + batch.num_rows))
                number += batch.num_rows
                yield batch.select(self.schema.names[:-1]).append_column(NUMBER, numbers)


class TakeBack:
    """Gives rows their waiting columns back, all of Penstock's in their usual order behind the user's."""

    def __init__(self, aside: Aside) -> None:
        self._aside = aside

    def __call__(self, batches: Iterator[pa.RecordBatch], _index: int) -> Iterator[pa.RecordBatch]:
        """Give whole rows."""
        shelf = _Shelf(self._aside.path())
        for batch in batches:
            if not batch.num_rows:
                continue
            found = shelf.rows(batch.column(NUMBER).to_numpy())
            columns = {name: batch.column(name) for name in batch.schema.names if name != NUMBER}
            columns |= {name: found.column(name) for name in self._aside.waiting}
            names = [*(name for name in columns if name not in RESERVED.names), *RESERVED.names]
            yield pa.RecordBatch.from_arrays([columns[name] for name in names], names)


class _Shelf:
    """What was written down; rows come for theirs in order."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._stream: Any = None
        self._held: deque[pa.RecordBatch] = deque()
        self._first = 0
        """Number of the first row that is held."""
        self._next = 0

    def rows(self, numbers: Any) -> pa.RecordBatch:
        """Give the waiting columns of rows with these numbers."""
        if self._stream is None:
            # Not before: now that rows are here, the file is, and all that they need is in it.
            file = pa.OSFile(str(self._path), "rb")
            self._stream = pa.ipc.open_stream(file)
            self._path.unlink()
        first, last = int(numbers[0]), int(numbers[-1])
        while self._next <= last:
            self._held.append(self._stream.read_next_batch())
            self._next += self._held[-1].num_rows
        while self._first + self._held[0].num_rows <= first:
            self._first += self._held.popleft().num_rows
        held = pa.Table.from_batches(self._held).slice(first - self._first, last - first + 1)
        if held.num_rows > len(numbers):
            held = held.take(pa.array(numbers - first))
        return held.combine_chunks().to_batches()[0]
