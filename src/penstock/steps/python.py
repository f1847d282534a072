"""A Python function on rows, on a pandas frame or on an Arrow table.

Guarantee: an exception fails the record it came from, not the batch. A function on frames or tables that raises is
called again with halves, until the failing records are found. The current record is noted before each call, so that
one that kills its worker can be found. Functions may run more than once for the same record.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Literal

import pyarrow as pa
import pyarrow.compute as pc
from pydantic import Field, field_validator

from penstock.errors import PenstockError
from penstock.record.columns import ERROR, user_columns, whole_rows
from penstock.record.decoded import RecordError, columns_of
from penstock.record.schema import parse
from penstock.steps.fitting import SchemaMismatch, cast, requirement
from penstock.steps.step import StepContext, StepModel
from penstock.steps.user_code import CodeName, NoteFile, UserTask, columns_after, error_from

_SHOWN = ("_topic", "_partition", "_offset", "_timestamp", "_key")


class Python(StepModel, frozen=True):
    """A Python function, named as `module:function`; modules are looked for beside the pipeline file first."""

    keyword = "python"

    python: CodeName = Field(description="The function, as `module:function`.")
    on: Literal["rows", "pandas", "arrow"] = Field(
        "rows",
        description="What the function gets: a dictionary per row, and it gives one back, in which columns that it"
        " leaves out are null, or None to drop the event;"
        " a pandas frame, and it gives one back with the index of the rows that it keeps;"
        " or an Arrow table, and it gives one back with as many rows.",
    )
    returns: str | None = Field(None, description="Columns that come out, as in `decode.schema`; the same if left out.")

    @field_validator("returns")
    @classmethod
    def _returns_is_understood(cls, value: str | None) -> str | None:
        if value is not None:
            parse(value)
        return value

    @property
    def user_code(self) -> str:
        """The function."""
        return self.python

    def columns(self, names: list[str] | None) -> list[str] | None:
        """Return the columns that the function makes."""
        return list(parse(self.returns).names) if self.returns else names

    def open(self, context: StepContext) -> "PythonTask":
        """Return what runs inside Spark's tasks."""
        return PythonTask(self, columns_after(self.returns, context.schema), context)


def _from_pandas(values: Any, field: pa.Field) -> Any:
    """Return a column of a frame in the type that it has there: Arrow would cut values to fit another one.

    Objects have no type that could be kept. Those are looked at one by one.
    """
    if values.dtype != object:
        return pa.Array.from_pandas(values)
    require_fitting = requirement(pa.schema([field]))
    for value in values[values.notna()]:
        require_fitting((value,))
    return pa.Array.from_pandas(values, type=field.type)


def _require_row(result: Any, names: list[str], row: dict[str, Any]) -> None:
    """Refuse what is not a row, and a row that lacks a column and has an unknown one: a typo would make nulls."""
    if not isinstance(result, Mapping):
        raise TypeError(f"the function returned {type(result).__name__}, not a dictionary or None")
    if not all(map(result.__contains__, names)) and (
        unknown := [each for each in result if each not in {*names, *row}]
    ):
        missing = ", ".join(name for name in names if name not in result)
        raise SchemaMismatch(f"the function returned {unknown[0]!r}, which is not a column, and lacks {missing}")


class PythonTask(UserTask):
    """Runs the function over the good rows of each chunk; failed rows pass by."""

    def __init__(self, spec: Python, columns: pa.Schema, context: StepContext) -> None:
        super().__init__(spec.python, columns, context)
        self._spec = spec

    def run(
        self, loaded: Callable[..., Any], batches: Iterator[pa.RecordBatch], note_file: NoteFile
    ) -> Iterator[pa.RecordBatch]:
        """Return each chunk with the columns that the function makes."""
        for batch in batches:
            yield from self._chunk(loaded, batch, note_file)

    def _chunk(
        self, function: Callable[..., Any], batch: pa.RecordBatch, note_file: NoteFile
    ) -> Iterator[pa.RecordBatch]:
        good = pc.is_null(batch.column("_error"))
        passing = batch.filter(pc.invert(good))
        if passing.num_rows:
            blank = [pa.nulls(passing.num_rows, field.type) for field in self._columns]
            yield whole_rows(blank, passing, passing.column("_error"), self.schema)
        rows = batch.filter(good)
        if not rows.num_rows:
            return
        run = {"rows": self._on_rows, "pandas": self._on_pandas, "arrow": self._on_arrow}[self._spec.on]
        columns, record_errors, kept = run(function, rows, note_file)
        whole = whole_rows(columns, rows, pa.array(record_errors, ERROR), self.schema)
        yield whole.filter(pa.array(kept)) if not all(kept) else whole

    def _on_rows(
        self, function: Callable[..., Any], rows: pa.RecordBatch, note_file: NoteFile
    ) -> tuple[list[pa.Array], list[RecordError | None], list[bool]]:
        shown = rows.select([*user_columns(rows.schema.names), *_SHOWN]).to_pylist(maps_as_pydicts="strict")
        offsets = rows.column("_at").to_pylist()
        record_errors: list[RecordError | None] = [None] * len(shown)
        results: list[tuple[Any, ...]] = []
        kept = [True] * len(shown)
        names = self._columns.names
        blank = (None,) * len(names)
        require_fitting = requirement(self._columns)
        for number, row in enumerate(shown):
            note_file.note(offsets[number])
            try:
                result = function(row)
                if result is None:
                    kept[number] = False
                    results.append(blank)
                    continue
                _require_row(result, names, row)
                values = tuple(map(result.get, names))
                require_fitting(values)
                results.append(values)
            except PenstockError:
                raise
            except Exception as error:  # noqa: BLE001 - whatever a user's function raises is that record's fault
                record_errors[number] = error_from(error)
                results.append(blank)
        return columns_of(self._columns, results, record_errors, [], "step").columns, record_errors, kept

    def _on_pandas(
        self, function: Callable[..., Any], rows: pa.RecordBatch, note_file: NoteFile
    ) -> tuple[list[pa.Array], list[RecordError | None], list[bool]]:
        import pandas as pd

        # The usual integers of pandas cannot be null, and would become floats, which are not exact.
        exact = {
            pa.int8(): pd.Int8Dtype(),
            pa.int16(): pd.Int16Dtype(),
            pa.int32(): pd.Int32Dtype(),
            pa.int64(): pd.Int64Dtype(),
        }
        frame = rows.select(user_columns(rows.schema.names)).to_pandas(types_mapper=exact.get)
        # Labels below zero: rows that the function numbers itself cannot be taken for other ones.
        frame.index = pd.RangeIndex(-rows.num_rows, 0)
        require_fitting = requirement(self._columns)
        record_errors: list[RecordError | None] = [None] * rows.num_rows
        kept = [False] * rows.num_rows
        results: list[tuple[Any, ...]] = [(None,) * len(self._columns)] * rows.num_rows

        def one(first: int, last: int) -> None:
            part = frame.iloc[first:last]
            given = function(part.copy())
            places = part.index.get_indexer(given.index)
            if (places < 0).any() or not given.index.is_unique:
                raise ValueError("the index of the result may only have rows that went in, each at most once")
            columns = [_from_pandas(given[field.name], field) for field in self._columns]
            table = cast(pa.Table.from_arrays(columns, self._columns.names), self._columns)
            found = [tuple(row.values()) for row in table.to_pylist()]
            for values in found:
                require_fitting(values)
            for place, values in zip(places.tolist(), found, strict=True):
                results[first + place] = values
                kept[first + place] = True

        self._halving(one, rows, record_errors, kept, note_file)
        return columns_of(self._columns, results, record_errors, [], "step").columns, record_errors, kept

    def _on_arrow(
        self, function: Callable[..., Any], rows: pa.RecordBatch, note_file: NoteFile
    ) -> tuple[list[pa.Array], list[RecordError | None], list[bool]]:
        table = pa.Table.from_batches([rows.select(user_columns(rows.schema.names))])
        record_errors: list[RecordError | None] = [None] * rows.num_rows
        kept = [True] * rows.num_rows
        parts: dict[int, pa.Table] = {}

        def one(first: int, last: int) -> None:
            given = function(table.slice(first, last - first))
            if isinstance(given, pa.RecordBatch):
                given = pa.Table.from_batches([given])
            given = cast(given.select(self._columns.names), self._columns)
            if given.num_rows != last - first:
                raise ValueError(f"{last - first} rows went in and {given.num_rows} came out")
            parts[first] = given

        self._halving(one, rows, record_errors, kept, note_file)
        for number, problem in enumerate(record_errors):
            if problem is not None:
                parts[number] = pa.table([pa.nulls(1, field.type) for field in self._columns], schema=self._columns)
        joined = pa.concat_tables([parts[first] for first in sorted(parts)]).combine_chunks()
        return [column.combine_chunks() for column in joined.columns], record_errors, kept

    def _halving(
        self,
        one: Callable[[int, int], None],
        rows: pa.RecordBatch,
        record_errors: list[RecordError | None],
        kept: list[bool],
        note_file: NoteFile,
    ) -> None:
        """Call with all rows, and after an exception with halves, until the failing rows are found."""
        offsets = rows.column("_at").to_pylist()
        waiting = [(0, rows.num_rows)]
        while waiting:
            first, last = waiting.pop()
            note_file.note(offsets[first] if last - first == 1 else None)
            try:
                one(first, last)
            except PenstockError:
                raise
            except Exception as error:  # noqa: BLE001 - as above
                if last - first == 1:
                    record_errors[first], kept[first] = error_from(error), True
                else:
                    middle = (first + last) // 2
                    waiting += [(middle, last), (first, middle)]
