"""SQL inside a Python worker: a SELECT, and the conditions of expectations and sinks, without a way to the JVM.

Guarantee: the same rows, values and errors as `driver/safe_sql.py` gives. A row on which an expression raises gets an
error that names it, rows that have failed already pass by, and what WHERE leaves out is gone.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.record.columns import ERROR
from penstock.worker.expressions import Expression, Result, evaluate
from penstock.worker.kernels import mask

_MOST_BYTES = 64_000_000
"""A chunk with more is evaluated in pieces: texts of a column that is made of several must stay under 2 GB together."""


@dataclass(frozen=True)
class Part:
    """One expression of a step."""

    text: str
    """As the user wrote it."""
    expression: Expression


@dataclass(frozen=True)
class SelectTask:
    """What a SELECT makes of rows."""

    schema: pa.Schema
    made: dict[str, Part]
    """The columns that it makes; others come out as they went in."""
    where: Part | None

    def __call__(self, batches: Iterator[pa.RecordBatch], _index: int) -> Iterator[pa.RecordBatch]:
        """Return the rows that WHERE lets through, and those that have failed."""
        for batch in batches:
            yield from map(self._chunk, _pieces(batch))

    def _chunk(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        good = mask(pc.is_null(rows.column("_error")))
        results = {name: evaluate(part.expression, rows) for name, part in self.made.items()}
        broken = good & _raised(results.values(), rows.num_rows)
        parts, every = list(self.made.values()), list(results.values())
        if self.where is not None:
            condition = evaluate(self.where.expression, rows)
            parts, every = [*parts, self.where], [*every, condition]
            broken = good & (_raised([condition], rows.num_rows) | (mask(condition.values) & broken))
        given = _where(good & ~broken, {name: each.values for name, each in results.items()})
        columns = {name: rows.column(name) for name in rows.schema.names} | given
        columns["_error"] = _errors(rows.column("_error"), "sql", broken, parts, every)
        arrays = [_as(columns[each.name], each.type) for each in self.schema]
        made = pa.RecordBatch.from_arrays(arrays, schema=self.schema)
        if self.where is None:
            return made
        return made.filter(pa.array(~good | broken | mask(condition.values)))


@dataclass(frozen=True)
class JudgeTask:
    """Says of each row which expectations it meets, and which sinks it is for."""

    schema: pa.Schema
    """The columns that come out: the user's, the answers, Penstock's."""
    rules: dict[str, Part]
    """The conditions of expectations, each true or false, by the column that has the answer."""
    wheres: dict[str, Part]
    """Those of the sinks."""
    strict: tuple[str, ...]
    """The rules without which a row goes to no sink: only rows that meet them are asked for the sinks' conditions."""

    def __call__(self, batches: Iterator[pa.RecordBatch], _index: int) -> Iterator[pa.RecordBatch]:
        """Return all rows, with the answers."""
        for batch in batches:
            yield from map(self._chunk, _pieces(batch))

    def _chunk(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        errors = rows.column("_error")
        answers, errors = self._judged(rows, errors, "expect", self.rules, np.ones(rows.num_rows, bool))
        asked = np.ones(rows.num_rows, bool)
        for name in self.strict:
            asked &= mask(answers[name])
        more, errors = self._judged(rows, errors, "where", self.wheres, asked)
        answers |= more
        columns = {name: rows.column(name) for name in rows.schema.names} | answers | {"_error": errors}
        return pa.RecordBatch.from_arrays(
            [_as(columns[each.name], each.type) for each in self.schema], schema=self.schema
        )

    def _judged(
        self, rows: pa.RecordBatch, errors: pa.Array, stage: str, parts: dict[str, Part], asked: Any
    ) -> tuple[dict[str, pa.Array], pa.Array]:
        results = {name: evaluate(part.expression, rows) for name, part in parts.items()}
        asked = asked & mask(pc.is_null(errors))
        broken = asked & _raised(results.values(), rows.num_rows)
        answers = _where(asked & ~broken, {name: each.values for name, each in results.items()})
        return answers, _errors(errors, stage, broken, list(parts.values()), list(results.values()))


def _pieces(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Cut a chunk in halves until they are small, or rows."""
    if batch.nbytes <= _MOST_BYTES or batch.num_rows <= 1:
        yield batch
        return
    half = batch.num_rows // 2
    yield from _pieces(batch.slice(0, half))
    yield from _pieces(batch.slice(half))


def _raised(results: Iterable[Result], count: int) -> Any:
    found = np.zeros(count, bool)
    for each in results:
        if each.raised is not None:
            found = found | each.raised
    return found


def _where(chosen: Any, columns: dict[str, pa.Array]) -> dict[str, pa.Array]:
    """Leave the values of other rows out: they are null."""
    if chosen.all():
        return columns
    mine = pa.array(chosen)
    return {name: pc.if_else(mine, each, pa.scalar(None, each.type)) for name, each in columns.items()}


def _errors(errors: pa.Array, stage: str, broken: Any, parts: list[Part], results: list[Result]) -> pa.Array:
    """Return for each broken row which expressions raise on it."""
    if not broken.any():
        return errors
    listed = errors.to_pylist()
    for row in np.flatnonzero(broken).tolist():
        raising = [
            " ".join(part.text.split())
            for part, result in zip(parts, results, strict=True)
            if result.raised is not None and result.raised[row]
        ]
        message = f"fails on this record: {'; '.join(raising)}"
        listed[row] = {"stage": stage, "error": "SqlFailed", "message": message, "line": None}
    return pa.array(listed, ERROR)


def _as(values: pa.Array, kind: pa.DataType) -> pa.Array:
    """Return values under a type that Spark has named: it calls the parts of lists and maps differently."""
    return values.cast(kind) if pa.types.is_nested(kind) and values.type != kind else values
