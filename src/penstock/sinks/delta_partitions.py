"""Partitions of a Delta table: the columns that they add, the folder that a row belongs to, and its values in the log.

Months, days and hours of a time become columns of their own (`at_month`, `at_day`, `at_hour`), in UTC. They are plain
columns that every engine can filter by: one that the table computes itself would be computed in each reader's own time
zone. Hours and months are text, for how the log writes times differs from engine to engine.

A value that the log cannot tell from another is refused, and so is one that no folder can be named after.
"""

import datetime
import unicodedata
from collections.abc import Iterator, Sequence
from typing import Any
from urllib.parse import quote

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.errors import Conflict
from penstock.sinks.partitioning import PartitionField, require_possible

_NULL = "__HIVE_DEFAULT_PARTITION__"
_LONGEST_NAME = 255
_FORMATS = {"months": "%Y-%m", "hours": "%Y-%m-%d-%H"}
_FIRST, _LAST = datetime.date.min, datetime.date.max
Values = dict[str, str | None]
"""The partition of a file as the log has it: texts by column."""


class Partitions:
    """What of a table's rows goes where."""

    def __init__(self, fields: Sequence[PartitionField] = ()) -> None:
        self._fields = tuple(fields)

    @property
    def names(self) -> list[str]:
        """The partition columns of the table, in order."""
        return [field.name for field in self._fields]

    def __str__(self) -> str:
        """Return them as they are written in a pipeline file."""
        return f"[{', '.join(map(str, self._fields))}]"

    def schema_with_derived(self, schema: pa.Schema) -> pa.Schema:
        """Return the table's columns; raise `Conflict` if it cannot be partitioned like this."""
        require_possible(self._fields, schema)
        for name in self.names:
            _require_folder(name)
        derived = [
            pa.field(field.name, pa.date32() if field.transform == "days" else pa.string())
            for field in self._fields
            if field.transform != "identity"
        ]
        if self._fields and set(self.names) >= set(schema.names):
            raise _conflict("a Delta table needs a column that it is not partitioned by", "Add one in a step")
        return pa.schema([*schema, *derived])

    def with_derived(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """Return the rows with the columns that are made of times, and raise `ValueError` if one has no partition."""
        for field in self._fields:
            if field.transform != "identity":
                rows = rows.append_column(field.name, _rounded_down(rows.column(field.column), field.transform))
            require_named(field.name, rows.column(field.name))
        return rows

    def split(self, rows: pa.Table) -> Iterator[tuple[Values, pa.Table]]:
        """Return the rows of each partition, in their order, without the columns that its values are in."""
        if not rows.num_rows:
            return
        codes = np.zeros(rows.num_rows, np.int64)
        for name in self.names:
            encoded = rows.column(name).combine_chunks().dictionary_encode(null_encoding="encode")
            # Renumbered after each column, so that no number of columns can overflow.
            codes = codes * len(encoded.dictionary) + encoded.indices.to_numpy(zero_copy_only=False)
            codes = np.unique(codes, return_inverse=True)[1].reshape(-1)
        order = np.argsort(codes, kind="stable")
        starts = np.flatnonzero(np.diff(codes[order], prepend=-1))
        ordered = rows.take(pa.array(order)) if len(starts) > 1 else rows
        kept = [name for name in rows.column_names if name not in self.names]
        for start, end in zip(starts, [*starts[1:], rows.num_rows], strict=True):
            part = ordered.slice(start, end - start)
            values = {name: _text(part.column(name)[0].as_py()) for name in self.names}
            yield values, part.select(kept)


def folder(values: Values) -> str:
    """Return the folder of a partition as Hive names it: `country=DE/at_day=2026-01-31`; nothing if there is none."""
    return "/".join(f"{_escaped(name)}={_NULL if value is None else _escaped(value)}" for name, value in values.items())


def _require_folder(name: str) -> None:
    """Raise `Conflict` if folders cannot be named after a partition column so that the library finds them again."""
    is_hidden = name.startswith(".") or any(unicodedata.category(each) == "Cc" for each in name)
    if is_hidden or len(_escaped(name)) + 1 + len(_NULL) > _LONGEST_NAME:
        raise _conflict(
            f"a Delta table cannot be partitioned by the column '{name}': no folder can be named after it",
            "Give it another name in a step",
        )


def _escaped(text: str) -> str:
    """Escape all that is no plain letter, digit or one of `_.-`: what a disk or an engine would take for more.

    The library, too, escapes a tilde when it looks for a file to compact or to merge into.
    """
    return quote(text, safe="").replace("~", "%7E")


def _text(value: Any) -> str | None:
    if value is None:
        return None
    if isinstance(value, bool):
        return "true" if value else "false"
    return value.isoformat() if isinstance(value, datetime.date) else str(value)


def _rounded_down(times: pa.Array, transform: str) -> pa.Array:
    if pa.types.is_date(times.type):
        times = times.cast(pa.timestamp("s"))
    days = pc.floor_temporal(times, unit="day").cast(pa.timestamp("us", times.type.tz)).cast(pa.date32())
    _require_in_calendar("a time", days)
    if transform == "days":
        return days
    # Rounded down before the fractions go: a cast rounds towards 1970.
    whole = pc.floor_temporal(times, unit="hour").cast(pa.timestamp("s"))
    return pc.strftime(whole, _FORMATS[transform])


def require_named(name: str, values: pa.Array) -> None:
    """Raise if a value has no partition of its own; asked of whole columns first, which costs little."""
    if pa.types.is_date(values.type):
        _require_in_calendar(name, values)
    if not pa.types.is_string(values.type):
        return
    for text, shown in (("", "the empty text"), (_NULL, f"the text {_NULL}")):
        if pc.any(pc.equal(values, text)).as_py():
            raise ValueError(f"{shown} cannot be told from null in the partition column '{name}'")
    # At most three characters for each byte, so nothing shorter needs a closer look.
    longest = (_LONGEST_NAME - len(_escaped(name)) - 1) // 3
    if (pc.max(pc.binary_length(values)).as_py() or 0) > longest:
        for value in pc.unique(values).to_pylist():
            if value is not None and len(_escaped(name)) + 1 + len(_escaped(value)) > _LONGEST_NAME:
                raise ValueError(f"a value of the partition column '{name}' is too long to name a folder after")


def _require_in_calendar(name: str, days: pa.Array) -> None:
    bounds = pc.min_max(days.cast(pa.int32()))
    low, high = bounds["min"].as_py(), bounds["max"].as_py()
    epoch = datetime.date(1970, 1, 1)
    if low is not None and (low < (_FIRST - epoch).days or high > (_LAST - epoch).days):
        raise ValueError(f"{name} lies outside the years 1 to 9999, and has no partition")


def _conflict(what: str, fix: str) -> Conflict:
    return Conflict(what, safe="Nothing was written", fix=fix)
