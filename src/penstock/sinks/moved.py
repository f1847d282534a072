"""Large values of rows that got another key: the change leaves them out, and the row with the old key has them.

A changed key is two changes: one takes the old row out, the next one puts the new row in. The value is what the old row
had just before it was taken out, in a change of the batch or in the table. It is looked for only where both changes are
in the batch, and not where a row with the new key is there already: then the changes have come twice, and that row has
the value. What is not found stays left out, and is judged like any other value that a change leaves out.
"""

from collections.abc import Callable, Container, Hashable, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.record.columns import CHANGE, COORDINATES, DELETE

Key = tuple[Any, ...]
Rows = Callable[[list[Key], set[str]], Iterable[dict[str, Any]]]
"""Reads the rows of a table with these keys, with their coordinates and the columns that it has of these."""


class Move(NamedTuple):
    """One change of a batch, without its values."""

    key: Hashable
    op: str | None
    unchanged: Sequence[str]
    known: Container[str]
    """The columns in which it has a value."""
    taken_out: int | None
    """For a row that got another key the number of the change that took the old one out."""


def origins(changes: Sequence[Move], is_in_table: Callable[[int], bool]) -> dict[tuple[int, str], int]:
    """Return where the values are that rows with another key leave out, by their numbers and the column.

    That is the number of the change that has the value; or `~number`: the table has it, in the row with the key of that
    change. `is_in_table` says whether there was a row with the key of a change before the batch.
    """
    names = {name for each in changes if each.taken_out is not None for name in each.unchanged}
    rows = dict[Hashable, dict[str, int | None]]()
    """By key where each value of the row is, after the changes so far; of a row that was taken out, nothing."""
    gone = dict[int, dict[str, int | None]]()
    found = dict[tuple[int, str], int]()
    for number, change in enumerate(changes if names else ()):
        row = rows.get(change.key)
        if change.op == DELETE:
            gone[number] = dict.fromkeys(names, ~number) if row is None else row
            rows[change.key] = {}
            continue
        before = dict.fromkeys(names, ~number) if row is None else row
        is_moved = change.taken_out in gone and not (is_in_table(number) if row is None else row)
        if is_moved and change.taken_out is not None:
            before = gone[change.taken_out]
            found |= {(number, name): at for name in change.unchanged if (at := before.get(name)) is not None}
        rows[change.key] = {
            name: before.get(name) if name in change.unchanged else number if name in change.known else None
            for name in names
        }
    return found


def with_values(rows: pa.Table, key: list[str], truncated: Container[str], rows_of_table: Rows) -> pa.Table:
    """Return the rows, those with a changed key filled with the values that their old rows had.

    Rows are in the order of their offsets. Of the topics that were truncated the table has no row.
    """
    changes = rows.column(CHANGE.name).combine_chunks()
    if not pc.any(pc.is_valid(pc.struct_field(changes, "moved_from"))).as_py():
        return rows
    said = changes.to_pylist()
    names = {name for each in said if each["moved_from"] is not None for name in each["unchanged"]}
    keys = list(zip(*(rows.column(name).to_pylist() for name in key), strict=True))
    places = list(zip(*(rows.column(name).to_pylist() for name in COORDINATES), strict=True))
    at = {place: number for number, place in enumerate(places)}
    has_value = {name: pc.is_valid(rows.column(name)).to_pylist() for name in names}
    moves = [
        Move(
            keys[number],
            each["op"],
            each["unchanged"] or (),
            {name for name in names if has_value[name][number]},
            None if each["moved_from"] is None else at.get((*places[number][:2], each["moved_from"])),
        )
        for number, each in enumerate(said)
    ]
    both = ((number, each.taken_out) for number, each in enumerate(moves) if each.taken_out is not None)
    asked = {keys[number] for pair in both for number in pair if places[number][0] not in truncated}
    there = {tuple(row[name] for name in key): row for row in (rows_of_table(list(asked), names) if asked else ())}

    def in_table(number: int) -> dict[str, Any]:
        return {} if places[number][0] in truncated else there.get(keys[number], {})

    found = origins(moves, lambda number: bool(in_table(number)))
    taken, values = dict[str, Any](), {name: list[Any]() for name in names}
    for (number, name), origin in found.items():
        numbers = taken.setdefault(name, np.arange(rows.num_rows))
        if origin >= 0:
            numbers[number] = origin
        else:
            row = in_table(~origin)
            value = row.get(name) if _is_before(row, places[~origin]) else None
            if value is None:
                continue
            numbers[number] = rows.num_rows + len(values[name])
            values[name].append(value)
        said[number] = {**said[number], "unchanged": [each for each in said[number]["unchanged"] if each != name]}
    for name, numbers in taken.items():
        place = rows.schema.get_field_index(name)
        column = pa.chunked_array([*rows.column(name).chunks, pa.array(values[name], rows.schema.field(place).type)])
        rows = rows.set_column(place, rows.schema.field(place), column.take(pa.array(numbers)))
    return rows.set_column(rows.schema.get_field_index(CHANGE.name), CHANGE, pa.array(said, CHANGE.type))


def _is_before(row: dict[str, Any], place: tuple[str, int, int]) -> bool:
    """Return whether a row of the table came from an earlier record of the same partition."""
    return bool(row) and (row["_topic_id"], row["_partition"]) == place[:2] and row["_offset"] < place[2]
