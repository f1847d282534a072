"""Merging the changes of a batch into an Iceberg table by key.

Guarantee: that of `iceberg_rewrite`; and a row never gives way to an older record of the same partition.
"""

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from penstock.record.columns import CHANGE, COORDINATES
from penstock.record.decoded import RecordError
from penstock.sinks.changes import RecordId, fold, is_deleted, refused, several_partitions, unknown_values
from penstock.sinks.iceberg_rewrite import Rewrite, file_table, files_with
from penstock.sinks.moved import Key


class Upsert(Rewrite):
    """What one batch of changes does to one snapshot of a table."""

    def __init__(self, table: Any, columns: Any, rows: pa.Table, key: list[str], what: str) -> None:
        """Look at the table's files; `columns` are Iceberg's columns that it will have after the commit."""
        if CHANGE.name not in rows.schema.names:
            nothing: dict[str, Any] = {"op": None, "unchanged": [], "moved_from": None}
            rows = rows.append_column(CHANGE, pa.array([nothing] * rows.num_rows, CHANGE.type))
        folded = fold(rows, key, what, lambda keys, names: _rows_of(table, rows, key, keys, names))
        super().__init__(folded.rows, key)
        self._what = what
        self._truncated = folded.truncated
        self._ours = list(_coordinates(folded.rows))
        self._unchanged = [each["unchanged"] or [] for each in folded.rows.column(CHANGE.name).to_pylist()]
        self._outdated = set[int]()
        """Numbers of rows that are older than what the table has."""
        self._before: dict[int, dict[str, Any]] = {}
        """What the table has of the keys whose rows leave out a value."""
        self.look_at(table, columns, is_whole=bool(folded.truncated))

    def _going(self, there: pa.Table) -> set[int]:
        going = self._emptied(there)
        matches = list(self._matches(there))
        rows = there.select(COORDINATES).take(pa.array([place for place, _ in matches], pa.int64()))
        for (place, number), row in zip(matches, _coordinates(rows), strict=True):
            if self._is_newer(row, number):
                self._outdated.add(number)
                going.discard(place)
                continue
            going.add(place)
            if self._unchanged[number]:
                self._before[number] = there.select(self._unchanged[number]).slice(place, 1).to_pylist()[0]
        return going

    def _emptied(self, there: pa.Table) -> set[int]:
        """Return the places of the rows that came before a truncate."""
        found = set[int]()
        for place, (topic_id, partition, offset) in enumerate(_coordinates(there) if self._truncated else ()):
            if topic_id not in self._truncated:
                continue
            of_truncate, before = self._truncated[topic_id]
            if partition != of_truncate:
                raise several_partitions(self._what, of_truncate, before)
            if offset < before:
                found.add(place)
        return found

    def _is_newer(self, there: Key, number: int) -> bool:
        """Return whether what the table has is of a later record of the same partition, or of the very same one."""
        ours = self._ours[number]
        return bool(ours[:2] == there[:2] and there[2] >= ours[2])

    def _new_rows(self) -> pa.Table:
        """Return the rows that come in, with the values that only the table has had."""
        deleted = is_deleted(self._rows).to_pylist() if self._rows.num_rows else []
        stays = [not gone and number not in self._outdated for number, gone in enumerate(deleted)]
        rows = self._rows
        for name in {name for number in self._before for name in self._unchanged[number]}:
            values = {number: row[name] for number, row in self._before.items() if name in self._unchanged[number]}
            filled = [values.get(number, value) for number, value in enumerate(rows.column(name).to_pylist())]
            at = rows.schema.get_field_index(name)
            rows = rows.set_column(at, rows.schema.field(at), pa.array(filled, rows.schema.field(at).type))
        return rows.drop_columns([CHANGE.name]).filter(pa.array(stays, pa.bool_()))


def refused_changes(table: Any, rows: pa.Table, key: list[str], what: str) -> dict[RecordId, RecordError]:
    """Return the changes that the table cannot take: their key is not known, or a value that they leave out."""
    unknown = unknown_values(rows, key, what, lambda keys, names: _rows_of(table, rows, key, keys, names))
    wanted = {name for each in unknown.values() for name in each}
    return refused(rows, unknown, key, _rows_of(table, rows, key, list(unknown), wanted) if unknown else ())


def _rows_of(table: Any, rows: pa.Table, key: list[str], keys: list[Key], names: set[str]) -> list[dict[str, Any]]:
    """Read the rows of the table with these keys, and some others, with the columns that it has of these."""
    known = {column.name for column in table.schema().columns}
    columns = table.schema().select(*{*key, *COORDINATES, *(names & known)})
    asked = [
        pa.array(values, rows.schema.field(name).type)
        for name, values in zip(key, zip(*keys, strict=True), strict=True)
    ]
    found = list[dict[str, Any]]()
    for task in files_with(table, rows, key):
        there = file_table(table, task, columns)
        for name, values in zip(key, asked, strict=True):
            there = there.filter(pc.is_in(there.column(name), value_set=values))
        found += there.to_pylist()
    return found


def _coordinates(rows: pa.Table) -> Iterator[Key]:
    return zip(*(rows.column(name).to_pylist() for name in COORDINATES), strict=True)
