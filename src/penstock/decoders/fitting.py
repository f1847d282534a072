"""Rows of one schema as the wanted columns; a row with a value that does not fit fails alone."""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from penstock.decoders.columns import REQUIRED, Column, fitted
from penstock.decoders.vectors import spread
from penstock.record.decoded import RecordError, leaves_the_calendar, record_error


def fit(
    own: Sequence[Column], found: Sequence[pa.Array], wanted: Sequence[Column], record_errors: list[RecordError | None]
) -> list[pa.Array]:
    """Return the wanted columns, null for rows that fail here, which is noted; those that have failed are null."""
    failed = len(record_errors) - record_errors.count(None)
    known = {column.name: column for column in own}
    by_name = dict(zip(known, found, strict=True))
    good: _Good | None = None
    arrays = list[pa.Array]()
    for column in wanted:
        array = by_name.get(column.name)
        if array is not None and _is_as_wanted(array, known[column.name], column, failed):
            arrays.append(array)
            continue
        good = good or _Good(by_name, record_errors)
        arrays.append(good.spread(_column(good.found, known, column, good.numbers, record_errors)))
    return arrays


def _is_as_wanted(array: pa.Array, own: Column, wanted: Column, failed: int) -> bool:
    """Return whether a column can be used as it is, like most: then nothing is copied."""
    is_same = array.type == wanted.type and own.is_choice == wanted.is_choice
    is_whole = wanted.default is not REQUIRED or array.null_count == failed
    return is_same and is_whole and not leaves_the_calendar(array)


class _Good:
    """The rows that had not failed before."""

    def __init__(self, found: dict[str, pa.Array], record_errors: list[RecordError | None]) -> None:
        self.numbers = [number for number, each in enumerate(record_errors) if each is None]
        self._count = len(record_errors)
        taken = pa.array(self.numbers, pa.int64())
        is_all = len(self.numbers) == self._count
        self.found = found if is_all else {name: each.take(taken) for name, each in found.items()}

    def spread(self, column: pa.Array) -> pa.Array:
        """Return a column of these rows spread over all rows; null for the others."""
        if len(self.numbers) == self._count:
            return column
        there = np.zeros(self._count, bool)
        there[self.numbers] = True
        return spread(column, there)


def _column(
    found: dict[str, pa.Array],
    own: dict[str, Column],
    wanted: Column,
    numbers: list[int],
    record_errors: list[RecordError | None],
) -> pa.Array:
    try:
        return _whole(found, own, wanted, len(numbers))
    except ValueError:
        alone = [_alone(found, own, wanted, row, number, record_errors) for row, number in enumerate(numbers)]
        return pa.concat_arrays(alone) if alone else pa.nulls(0, wanted.type)


def _whole(found: dict[str, pa.Array], own: dict[str, Column], wanted: Column, count: int) -> pa.Array:
    array = fitted(found, own, wanted, count)
    if leaves_the_calendar(array):
        raise ValueError(f"{wanted.name}: a time before the year 1 or after the year 9999")
    return array


def _alone(
    found: dict[str, pa.Array],
    own: dict[str, Column],
    wanted: Column,
    row: int,
    number: int,
    record_errors: list[RecordError | None],
) -> pa.Array:
    try:
        return _whole({name: array.take(pa.array([row])) for name, array in found.items()}, own, wanted, 1)
    except ValueError as error:
        record_errors[number] = record_errors[number] or record_error("SchemaMismatch", str(error))
        return pa.nulls(1, wanted.type)
