"""Changes of one batch, folded: one row for each key, with its last change.

The last change of a key counts. Values that it leaves out because they stayed the same are those of the change before
it; what no change of the batch knows, the table has. A database leaves out large values only, and never a null. So what
is null there, or of a row that was taken out, is not the value that is left out, and the change is refused.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.errors import Conflict, PipelineHalted
from penstock.record.columns import CHANGE, COORDINATES, DELETE, TRUNCATE
from penstock.record.decoded import RecordError, record_error
from penstock.sinks.key_values import last_of_each, with_plain_keys
from penstock.sinks.moved import Key, Rows, with_values
from penstock.sinks.sink import Refusal, Staged

RecordId = tuple[str, int, int]
"""The id of a topic, the partition and the offset of a record."""


@dataclass
class LeftOut:
    """A value that the last change of a key leaves out, and where it may be."""

    may_be_in_table: bool
    """Whether no change of the batch has said anything else of it."""
    known_at: int | None = None
    """The row of the batch that has it."""
    lacked_by: list[RecordId] = field(default_factory=list)
    """The changes that leave it out, since it was last known."""


@dataclass(frozen=True)
class Folded:
    """What one batch does to a table."""

    rows: pa.Table
    """The last row of each key, with `_change`: `unchanged` names what only the table knows."""
    truncated: dict[str, tuple[int, int]]
    """For each topic's id the partition and the offset of its last truncate: rows before it are to go."""
    unknown: dict[Key, dict[str, LeftOut]]
    """By key and column what no change of the batch knows."""


def fold(rows: pa.Table, key: list[str], what: str, rows_of_table: Rows) -> Folded:
    """Fold the changes of a batch, in the order of their offsets, for the table `what`."""
    rows = with_plain_keys(rows.take(pc.sort_indices(rows.column("_offset"))), key)
    truncated = dict[str, tuple[int, int]]()
    operations = pc.struct_field(rows.column(CHANGE.name).combine_chunks(), "op") if rows.num_rows else None
    if operations is not None:
        for row in rows.filter(pc.equal(operations, TRUNCATE)).to_pylist():
            truncated[row["_topic_id"]] = (row["_partition"], row["_offset"])
    for topic_id, (partition, offset) in truncated.items():
        of_topic = pc.equal(rows.column("_topic_id"), topic_id)
        if pc.any(pc.and_(of_topic, pc.not_equal(rows.column("_partition"), partition))).as_py():
            raise several_partitions(what, partition, offset)
        rows = rows.filter(pc.invert(pc.and_(of_topic, pc.less_equal(rows.column("_offset"), offset))))
    if rows.num_rows:
        rows = with_values(rows, key, truncated, rows_of_table)
    last = last_of_each(rows, key)
    if not len(last):
        return Folded(rows.slice(0, 0), truncated, {})
    left_out = _left_out(rows, last, key, truncated)
    unknown = {
        tuple(rows.column(each)[number].as_py() for each in key): {
            name: each for name, each in columns.items() if each.known_at is None
        }
        for number, columns in left_out.items()
    }
    return Folded(
        _with_known_values(rows, last, left_out), truncated, {at: each for at, each in unknown.items() if each}
    )


def _left_out(rows: pa.Table, last: Any, key: list[str], truncated: Iterable[str]) -> dict[int, dict[str, LeftOut]]:
    """Return what last rows leave out, by their numbers and by column; of a truncated topic the table has nothing."""
    changes = rows.column(CHANGE.name).to_pylist()
    wanted = {number: set(changes[number]["unchanged"] or ()) for number in last.tolist()}
    wanted = {number: names for number, names in wanted.items() if names}
    if not wanted:
        return {}
    keys = list(zip(*(rows.column(name).to_pylist() for name in key), strict=True))
    places = list(zip(*(rows.column(name).to_pylist() for name in COORDINATES), strict=True))
    is_null = {name: pc.is_null(rows.column(name)).to_pylist() for name in set().union(*wanted.values())}
    of_key = {
        keys[number]: {name: LeftOut(places[number][0] not in truncated) for name in names}
        for number, names in wanted.items()
    }
    for number, change in enumerate(changes):
        for name, each in of_key.get(keys[number], {}).items():
            if change["op"] is None and name in (change["unchanged"] or ()):
                each.lacked_by.append(places[number])
                continue
            each.may_be_in_table = False
            each.known_at = None if change["op"] is not None or is_null[name][number] else number
            each.lacked_by.clear()
    return {number: of_key[keys[number]] for number in wanted}


def _with_known_values(rows: pa.Table, last: Any, left_out: dict[int, dict[str, LeftOut]]) -> pa.Table:
    """Take the last rows, with values that earlier ones of the batch have where these leave them out."""
    found = rows.take(pa.array(last))
    places: dict[str, Any] = {}
    for number, columns in left_out.items():
        for name, each in columns.items():
            if each.known_at is not None:
                places.setdefault(name, last.copy())[np.searchsorted(last, number)] = each.known_at
    for name, places_of in places.items():
        at = found.schema.get_field_index(name)
        found = found.set_column(at, found.schema.field(at), rows.column(name).take(pa.array(places_of)))
    if not left_out:
        return found
    changes = found.column(CHANGE.name).to_pylist()
    for number, columns in left_out.items():
        at = int(np.searchsorted(last, number))
        changes[at] = {**changes[at], "unchanged": sorted(name for name in columns if columns[name].known_at is None)}
    return found.set_column(found.schema.get_field_index(CHANGE.name), CHANGE, pa.array(changes, CHANGE.type))


def is_deleted(rows: pa.Table) -> pa.Array:
    """Return for each folded row whether it deletes the row with its key."""
    operations = pc.struct_field(rows.column(CHANGE.name).combine_chunks(), "op")
    return pc.fill_null(pc.equal(operations, DELETE), False)  # noqa: FBT003


def unchanged_columns(rows: pa.Table) -> Iterator[tuple[str, pa.Array]]:
    """Return each column that some folded row leaves to the table, and which rows those are."""
    lists = [each["unchanged"] or () for each in rows.column(CHANGE.name).to_pylist()]
    for name in sorted({name for each in lists for name in each}):
        yield name, pa.array([name in each for each in lists])


def unknown_values(rows: pa.Table, key: list[str], what: str, rows_of_table: Rows) -> dict[Key, dict[str, LeftOut]]:
    """Return by key and column what no change of a batch knows."""
    lists = pc.struct_field(rows.column(CHANGE.name).combine_chunks(), "unchanged")
    has_some = pc.any(pc.greater(pc.list_value_length(lists), 0)).as_py()
    return fold(rows, key, what, rows_of_table).unknown if has_some else {}


def refused(
    rows: pa.Table, unknown: dict[Key, dict[str, LeftOut]], key: list[str], there: Iterable[dict[str, Any]]
) -> dict[RecordId, RecordError]:
    """Return the changes that cannot be applied: without a key, or without a value that nobody has.

    `there` are the rows of the table with the keys of what is unknown, with their coordinates and the columns.
    """
    found = dict(_without_key(rows, key))
    in_table = {tuple(row[name] for name in key): row for row in there}
    for its_key, columns in unknown.items():
        row = in_table.get(its_key)
        for name, left_out in columns.items():
            if left_out.may_be_in_table and row is not None and row.get(name) is not None:
                continue
            for record in left_out.lacked_by:
                # A change that is older than what the table has changes nothing.
                if row is None or (row["_topic_id"], row["_partition"]) != record[:2] or row["_offset"] < record[2]:
                    found.setdefault(record, value_unknown(name))
    return found


def refusals(staged: Iterable[Staged], errors: Mapping[RecordId, RecordError]) -> list[Refusal]:
    """Return the refusals of records that were staged, in the order of their ids."""
    named = [each.offset_range.source_partition for each in staged]
    partitions = {(each.topic_id, each.partition): each for each in named}
    return [Refusal(partitions[record[:2]], record[2], error) for record, error in sorted(errors.items())]


def _without_key(rows: pa.Table, key: list[str]) -> Iterator[tuple[RecordId, RecordError]]:
    """Return the changes that do not say which row they are of."""
    operations = pc.struct_field(rows.column(CHANGE.name).combine_chunks(), "op")
    rows = rows.filter(pc.fill_null(pc.not_equal(operations, TRUNCATE), True))  # noqa: FBT003
    for name in key:
        without = rows.filter(pc.is_null(rows.column(name))).select(COORDINATES)
        yield from ((tuple(row.values()), key_unknown(name)) for row in without.to_pylist())


def without_change(schema: pa.Schema) -> pa.Schema:
    """Return the columns that belong to the table."""
    return pa.schema([each for each in schema if each.name != CHANGE.name])


def require_key(sink: str, key: list[str], schema: pa.Schema, *, is_compared_here: bool = True) -> None:
    """Raise `Conflict` if the pipeline does not make a column of the key, or one that cannot be compared.

    A database that is to compare keys itself knows whether it can.
    """
    missing = [name for name in key if name not in schema.names]
    if missing:
        raise Conflict(f"sink '{sink}' has the key column '{missing[0]}', which the pipeline does not make")
    nested = [schema.field(name) for name in key if pa.types.is_nested(schema.field(name).type)]
    if nested and is_compared_here:
        raise Conflict(
            f"sink '{sink}' has the key column '{nested[0].name}' of type {nested[0].type}: rows cannot be told"
            " apart by lists, maps or structs",
            safe="Nothing was written",
            fix="Name other columns as `key`, such as a field of it that a step makes a column of",
        )


def several_partitions(what: str, partition: int, offset: int) -> PipelineHalted:
    """Return what is wrong with a truncate in a topic of several partitions."""
    return PipelineHalted(
        f"the source of {what} was truncated (partition {partition}, offset {offset}), and its topic has several"
        " partitions: which changes of the others came before that is not known",
        safe="Nothing of this batch was written to it",
        fix="Capture a table that is truncated in a topic of one partition",
    )


def value_unknown(name: str) -> RecordError:
    """Return what is wrong with a change whose row the table does not have, or not with the value."""
    text = (
        f"{name}: the change leaves the value out because it stayed the same, and neither the table nor a change before"
        " it has the value. Run in the source: ALTER TABLE ... REPLICA IDENTITY FULL; then change the row once more"
    )
    return record_error("ValueUnknown", text, stage="sink")


def key_unknown(name: str) -> RecordError:
    """Return what is wrong with a change that leaves out a column of the sink's key."""
    text = (
        f"{name}: the change does not say which row it is of, for this column of the sink's key is null. Let the key be"
        " the primary key of the source, or run there: ALTER TABLE ... REPLICA IDENTITY FULL"
    )
    return record_error("KeyUnknown", text, stage="sink")
