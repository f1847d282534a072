"""Rows of a table in the bytes that PostgreSQL's COPY takes, made all at once or by tasks, and not one by one."""

import datetime
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Self
from uuid import UUID

import numpy as np
import numpy.typing as npt

from penstock.lineage.facts import Operation
from penstock.lineage.operation_rows import COLUMNS, unpacked
from penstock.lineage.store.columns import from_us

Array = npt.NDArray[Any]
_HEADER = b"PGCOPY\n\xff\r\n\0" + bytes(8)
_TRAILER = b"\xff\xff"
_EPOCH_US = 946_684_800_000_000
"""PostgreSQL counts from the year 2000."""
_ID_BYTES = 16
_TIME_BYTES = 6
_FIELDS = {"sql_query": "sql"}
"""What a fact calls a column that it has another name for."""


@dataclass(frozen=True)
class TimedRows(ABC):
    """Rows whose time of creation is that of their id."""

    created_us: Array
    """Since 1970."""
    ids: Array

    def __len__(self) -> int:
        return len(self.ids)

    @abstractmethod
    def take(self, which: Array) -> Self:
        """Return some of the rows, by their places or by a mask."""

    @abstractmethod
    def rows(self) -> list[tuple[Any, ...]]:
        """Return the rows as tuples."""

    @abstractmethod
    def as_copy(self) -> bytes:
        """Return the rows as COPY takes them in binary."""

    def by_month(self) -> list[Self]:
        """Return the rows of each month, in the order of time."""
        rows = self.take(np.argsort(self.created_us, kind="stable"))
        months = rows.created_us.astype("M8[us]").astype("M8[M]")
        borders = np.flatnonzero(months[1:] != months[:-1]) + 1
        return [rows.take(each) for each in np.split(np.arange(len(rows)), borders) if len(each)]

    def listed_ids(self) -> str:
        """Return the ids as PostgreSQL writes a list of these."""
        return "{" + self.ids.tobytes().hex(",", _ID_BYTES) + "}"

    def span(self) -> tuple[datetime.datetime, datetime.datetime]:
        """Return the first and the last time."""
        return from_us(int(self.created_us.min())), from_us(int(self.created_us.max()))


@dataclass(frozen=True)
class PackedRows(TimedRows):
    """Operations, each as `operation_rows` packs it."""

    packed: Array

    def take(self, which: Array) -> Self:
        """Return some of the rows, by their places or by a mask."""
        return replace(self, created_us=self.created_us[which], ids=self.ids[which], packed=self.packed[which])

    def rows(self) -> list[tuple[Any, ...]]:
        """Return the rows as tuples."""
        return [_operation_row(unpacked(each)) for each in self.packed.tolist()]

    def as_copy(self) -> bytes:
        """Return the rows as they are."""
        return b"".join([_HEADER, *self.packed.tolist(), _TRAILER])


def _operation_row(operation: Operation) -> tuple[Any, ...]:
    return tuple(getattr(operation, _FIELDS.get(each, each)) for each in COLUMNS)


@dataclass(frozen=True)
class RowColumns(TimedRows):
    """Columns of equal length: times of creation and ids first, then the others in the order of the table.

    An array has numbers in the size of its column, or UUIDs as 16 bytes; a mask says where there is no value.
    """

    others: Sequence[tuple[Array, Array | None]]

    def take(self, which: Array) -> Self:
        """Return some of the rows, by their places or by a mask."""
        others = [(values[which], None if missing is None else missing[which]) for values, missing in self.others]
        return replace(self, created_us=self.created_us[which], ids=self.ids[which], others=others)

    def rows(self) -> list[tuple[Any, ...]]:
        """Return the rows as tuples."""
        columns = [map(from_us, self.created_us.tolist()), map(_uuid, self.ids.tolist())]
        for values, missing in self.others:
            known = values.tolist() if values.dtype.kind != "V" else map(_uuid, values.tolist())
            gone = [False] * len(self) if missing is None else missing.tolist()
            columns.append(None if none else each for each, none in zip(known, gone, strict=True))
        return list(zip(*columns, strict=True))

    def as_copy(self) -> bytes:
        """Return the rows as COPY takes them in binary: for each value its length and its bytes, -1 for none."""
        columns = [(self.created_us - _EPOCH_US, None), (self.ids, None), *self.others]
        patterns = np.zeros(len(self), np.int64)
        for number, (_, missing) in enumerate(columns):
            if missing is not None:
                patterns |= missing.astype(np.int64) << number
        parts = [_HEADER]
        for pattern in np.unique(patterns).tolist():
            which = np.flatnonzero(patterns == pattern)
            parts.append(
                _of_one_pattern([(each[which], bool(pattern >> n & 1)) for n, (each, _) in enumerate(columns)])
            )
        return b"".join([*parts, _TRAILER])


def _of_one_pattern(columns: list[tuple[Array, bool]]) -> bytes:
    """Return rows that all lack the same values, and so have one size."""
    fields: list[tuple[str, Any]] = [("count", ">i2")]
    for number, (values, is_missing) in enumerate(columns):
        fields.append((f"length{number}", ">i4"))
        if not is_missing:
            fields.append((f"value{number}", values.dtype.newbyteorder(">")))
    made = np.empty(len(columns[0][0]), np.dtype(fields))
    made["count"] = len(columns)
    for number, (values, is_missing) in enumerate(columns):
        made[f"length{number}"] = -1 if is_missing else values.dtype.itemsize
        if not is_missing:
            made[f"value{number}"] = values
    return made.tobytes()


def created_us(ids: Array) -> Array:
    """Return the times in UUIDv7s."""
    digits = np.frombuffer(ids.tobytes(), np.uint8).reshape(-1, _ID_BYTES)[:, :_TIME_BYTES].astype(np.int64)
    return digits @ (256 ** np.arange(_TIME_BYTES - 1, -1, -1, dtype=np.int64)) * 1000


def _uuid(data: bytes) -> UUID:
    return UUID(bytes=data)
