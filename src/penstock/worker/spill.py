"""Spills columns that SQL does not read to a file, while the others pass through the JVM.

Most of a record's bytes are its raw value, which only a dead letter needs, and most columns of Penstock are the same
for all rows of a task. Of the user's columns those are spilled that a star passes on unchanged; of those that SQL
reads, the JVM gets a copy, which does not come back. Rows are numbered on their way out, and their order is kept, so
that each finds its own again. The two Python workers of a task run on one machine at the same time; once both have
opened the file, its name is removed. Only its owner can read it, its name cannot be guessed, and files of other users
with such names are ignored. What a killed worker leaves behind is removed when the next driver, or one of its tasks,
starts on the machine.
"""

import os
import re
import tempfile
import uuid
from collections import deque
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pyarrow as pa

from penstock.record.columns import RESERVED, user_columns
from penstock.steps.select import Select, with_columns_for_stars

NUMBER = "_row"
_NAME = re.compile(r"penstock-spill-(?P<id>[0-9a-f]{32})-(?P<attempt>\d+)-(?P<parent>\d{1,9})-\w+\.arrow")


def spill_of(schema: pa.Schema, selects: list[Select], conditions: list[str]) -> "Spill":
    """Work out which columns the JVM only passes on, and which of those SQL reads. In doubt a column goes there."""
    texts = [text for each in selects for text in [*each.expressions, each.where or ""]] + conditions
    said = {word.lower() for text in texts for word in re.findall(r"\w+", text)}
    stars = [
        [part for part, name in zip(each.expressions, each.names, strict=True) if name is None] for each in selects
    ]
    # A star inside a function, as in struct(*), mentions every column.
    plain = (
        "except" not in said
        and all(each in (["*"], ["events.*"]) for each in stars)
        and all(text == with_columns_for_stars(text, []) for text in texts if text)
    )
    made = {name.lower() for each in selects for name, _ in each.made}
    names = [name.lower() for name in schema.names]
    own = [
        name
        for name in user_columns(schema.names)
        if plain
        and name.isascii()
        and name.isidentifier()
        and name.lower() not in made
        and names.count(name.lower()) == 1
    ]
    spilled = [*own, *(name for name in RESERVED.names if name != "_error")]
    return Spill(tuple(spilled), tuple(name for name in spilled if name.lower() in said))


@dataclass(frozen=True)
class Spill:
    """The columns that one way through the JVM and back leaves in a file, and that file."""

    columns: tuple[str, ...]
    """The columns that are written to the file."""
    read_by_sql: tuple[str, ...] = ()
    """Those of them that SQL reads: a copy of each goes to the JVM."""
    id: str = field(default_factory=lambda: uuid.uuid4().hex)

    def passing(self, schema: pa.Schema) -> pa.Schema:
        """Return the columns that go to the JVM."""
        behind = {*self.columns} - {*self.read_by_sql}
        return pa.schema([*(each for each in schema if each.name not in behind), (NUMBER, pa.int64())])

    def create(self) -> tuple[pa.OSFile, Path]:
        """Create the file of this attempt of this task. Its name has the id of the process that starts the workers."""
        for _, path in self._own():
            path.unlink(missing_ok=True)
        descriptor, name = tempfile.mkstemp(prefix=f"{self._stem()}-{os.getppid()}-", suffix=".arrow")
        return _arrow_file(descriptor, "wb"), Path(name)

    def open(self) -> tuple[pa.OSFile, Path]:
        """Open the file in the other worker of the task, which knows the attempt, too."""
        ((file, path),) = self._own()
        return file, path

    def _own(self) -> list[tuple[pa.OSFile, Path]]:
        """Open the files of this attempt. The folder may be everybody's, so names say nothing, and come and go."""
        own = []
        for path in Path(tempfile.gettempdir()).glob(f"{self._stem()}-*.arrow"):
            with suppress(OSError):  # it is gone, or not ours to open
                # Without waiting: it may be a pipe.
                descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
                if os.fstat(descriptor).st_uid == os.geteuid():
                    own.append((_arrow_file(descriptor, "rb"), path))
                else:
                    os.close(descriptor)
        return own

    def _stem(self) -> str:
        from pyspark import TaskContext

        context = TaskContext.get()
        return f"penstock-spill-{self.id}-{context.taskAttemptId() if context is not None else 0}"


def _arrow_file(descriptor: int, mode: str) -> pa.OSFile:
    """Hand an open file over to Arrow, which opens by name only: this one leads to the file and nowhere else."""
    try:
        return pa.OSFile(f"/dev/fd/{descriptor}", mode)
    finally:
        os.close(descriptor)


def remove_left() -> None:
    """Remove the files of workers whose parent is gone, as after a kill: nobody will read them."""
    with os.scandir(tempfile.gettempdir()) as entries:
        named = [(entry, match) for entry in entries if (match := _NAME.fullmatch(entry.name))]
    for entry, match in named:
        with suppress(OSError):  # another task was faster
            # The folder is everybody's: what others put there is none of ours, whatever its name.
            if entry.stat(follow_symlinks=False).st_uid == os.geteuid() and not psutil.pid_exists(int(match["parent"])):
                Path(entry.path).unlink()


class SpillColumns:
    """Writes the spilled columns to the file, and lets the others pass."""

    def __init__(self, spill: Spill, schema: pa.Schema) -> None:
        self._spill = spill
        self._spilled = pa.schema([schema.field(name) for name in spill.columns])
        self.schema = spill.passing(schema)

    def __call__(self, batches: Iterator[pa.RecordBatch], _index: int) -> Iterator[pa.RecordBatch]:
        """Return the rows without them; what a row lacks is in the file before it leaves."""
        remove_left()
        (file, path), number = self._spill.create(), 0
        try:
            with file, pa.ipc.new_stream(file, self._spilled) as stream:
                for batch in batches:
                    stream.write_batch(batch.select(self._spilled.names))
                    numbers = pa.array(np.arange(number, number + batch.num_rows))
                    number += batch.num_rows
                    yield batch.select(self.schema.names[:-1]).append_column(NUMBER, numbers)
        except BaseException:
            path.unlink(missing_ok=True)
            raise


class RestoreColumns:
    """Puts the spilled columns of rows back: the user's in the schema's order, then Penstock's."""

    def __init__(self, spill: Spill, schema: pa.Schema) -> None:
        self._spill = spill
        self._schema = schema

    def __call__(self, batches: Iterator[pa.RecordBatch], _index: int) -> Iterator[pa.RecordBatch]:
        """Return whole rows."""
        reader = _SpillReader(self._spill)
        for batch in batches:
            if not batch.num_rows:
                continue
            found = reader.rows(batch.column(NUMBER).to_numpy())
            columns = {name: batch.column(name) for name in batch.schema.names if name != NUMBER}
            for name in self._spill.columns:
                # Spark and Arrow name the parts of lists and maps differently.
                columns[name] = found.column(name).cast(self._schema.field(name).type)
            judged = [name for name in columns if name not in self._schema.names]
            names = [*user_columns(self._schema.names), *judged, *RESERVED.names]
            yield pa.RecordBatch.from_arrays([columns[name] for name in names], names)


class _SpillReader:
    """Reads the file of a spill, in the order of the rows."""

    def __init__(self, spill: Spill) -> None:
        self._spill = spill
        self._stream: Any = None
        self._held: deque[pa.RecordBatch] = deque()
        self._first = 0
        """Number of the first row that is held."""
        self._next = 0

    def rows(self, numbers: Any) -> pa.RecordBatch:
        """Return the spilled columns of the rows with these numbers."""
        if self._stream is None:
            # Not before: now that rows are here, the file is, and all that they need is in it.
            file, path = self._spill.open()
            self._stream = pa.ipc.open_stream(file)
            path.unlink()
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
