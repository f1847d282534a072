"""Changes of a table with one row per key, as sinks get them, and what the table holds after them."""

import random
from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from penstock.record.columns import CHANGE, COORDINATES, RESERVED
from penstock.record.positions import OffsetRange, SourcePartition
from penstock.sinks.sink import Refusal, Sink, Staged

PARTITION = SourcePartition("orders", "id-of-orders", 0)
SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("part", pa.string()),
        ("doc", pa.string()),
        ("n", pa.int32()),
        *(RESERVED.field(name) for name in COORDINATES),
        CHANGE,
    ]
)
Row = tuple[Any, ...]
"""The four columns, the operation, the columns that it leaves out, and for a row that got another key how many rows
before it is the one that takes the old row out."""
Table = dict[tuple[int, str], tuple[str | None, int]]


def put(number: int, doc: str | None, n: int, *unchanged: str, part: str = "x") -> Row:
    return (number, part, doc, n, None, list(unchanged), None)


def moved(number: int, doc: str | None, n: int, *unchanged: str, part: str = "x", back: int = 1) -> Row:
    """Put a row in that had another key."""
    return (*put(number, doc, n, *unchanged, part=part)[:-1], back)


def delete(number: int | None, part: str = "x") -> Row:
    return (number, part, None, None, "delete", [], None)


TRUNCATE: Row = (None, None, None, None, "truncate", [], None)

WITH_UNKNOWN: dict[str, tuple[list[Row], list[Row], list[int]]] = {
    "no row": ([], [put(1, None, 1, "doc"), put(1, None, 2, "doc")], [0, 1]),
    "deleted in the batch": ([put(1, "a", 1)], [delete(1), put(1, None, 2, "doc")], [2]),
    "deleted between two": ([put(1, "a", 1)], [put(1, None, 2, "doc"), delete(1), put(1, None, 3, "doc")], [3]),
    "truncated in the batch": ([put(1, "a", 1)], [TRUNCATE, put(1, None, 2, "doc")], [2]),
    "null in the table": ([put(1, None, 1)], [put(1, None, 2, "doc")], [1]),
    "null in the batch": ([put(1, "a", 1)], [put(1, None, 2), put(1, None, 3, "doc")], [2]),
    "known later": ([], [put(1, None, 1, "doc"), put(1, "b", 2), put(1, None, 3, "doc")], []),
    "taken out later": ([], [put(1, None, 1, "doc"), delete(1)], []),
    "truncated later": ([], [put(1, None, 1, "doc"), TRUNCATE], []),
    "a row without a key is taken out": ([put(1, "a", 1)], [delete(None)], [1]),
}
"""What is in the table, the changes that come then, and the offsets of those that cannot be applied."""

A = put(1, "a", 1)
WITH_ANOTHER_KEY: dict[str, tuple[list[Row], list[Row], Table | list[int]]] = {
    "in the table": ([A], [delete(1), moved(2, None, 5, "doc")], {(2, "x"): ("a", 5)}),
    "in the batch": ([], [A, delete(1), moved(2, None, 5, "doc")], {(2, "x"): ("a", 5)}),
    "changed in the batch": ([A], [put(1, "b", 2), delete(1), moved(2, None, 5, "doc")], {(2, "x"): ("b", 5)}),
    "left out in the batch": ([A], [put(1, None, 2, "doc"), delete(1), moved(2, None, 5, "doc")], {(2, "x"): ("a", 5)}),
    "twice": (
        [A],
        [delete(1), moved(2, None, 5, "doc"), put(2, None, 6, "doc"), delete(2), moved(3, None, 7, "doc")],
        {(3, "x"): ("a", 7)},
    ),
    "there and back": (
        [A],
        [delete(1), moved(2, None, 5, "doc"), delete(2), moved(1, None, 6, "doc")],
        {(1, "x"): ("a", 6)},
    ),
    "both keys again": (
        [A, put(2, "z", 1)],
        [delete(2), delete(1), moved(2, None, 5, "doc"), put(1, "b", 1), put(2, None, 6, "doc")],
        {(1, "x"): ("b", 1), (2, "x"): ("a", 6)},
    ),
    "three swapped": (
        [A, put(2, "z", 1)],
        [
            *(delete(1), moved(9, None, 1, "doc"), delete(2), moved(1, None, 1, "doc")),
            *(delete(9), moved(2, None, 1, "doc")),
        ],
        {(1, "x"): ("z", 1), (2, "x"): ("a", 1)},
    ),
    "changed later": ([A], [delete(1), moved(2, None, 5, "doc"), put(2, "c", 6)], {(2, "x"): ("c", 6)}),
    "after a truncate": ([A], [TRUNCATE, put(1, "t", 1), delete(1), moved(2, None, 5, "doc")], {(2, "x"): ("t", 5)}),
    "come again": (
        [A, delete(1), moved(2, "a", 5), put(1, "b", 1)],
        [delete(1), moved(2, None, 5, "doc"), put(1, "b", 1)],
        {(1, "x"): ("b", 1), (2, "x"): ("a", 5)},
    ),
    "taken out in an earlier batch": ([A, delete(1)], [moved(2, None, 5, "doc")], [2]),
    "truncated": ([A], [TRUNCATE, delete(1), moved(2, None, 5, "doc")], [3]),
    "null in the table": ([put(1, None, 1)], [delete(1), moved(2, None, 5, "doc")], [2]),
    "no such row": ([], [delete(1), moved(2, None, 5, "doc"), put(2, None, 6, "doc")], [1, 2]),
}
"""What is in the table, the changes that come then, and the table after them, or offsets of those that are refused."""


def batch(rows: list[Row], start: int, source_partition: SourcePartition = PARTITION) -> pa.RecordBatch:
    """Make what a task hands to a stager, one row per offset."""
    place = (source_partition.topic_id, source_partition.partition)
    filled = [(*row[:4], *place, start + number, _said(row, start + number)) for number, row in enumerate(rows)]
    columns = [pa.array([row[number] for row in filled], each.type) for number, each in enumerate(SCHEMA)]
    return pa.RecordBatch.from_arrays(columns, schema=SCHEMA)


def _said(row: Row, offset: int) -> dict[str, Any]:
    return {"op": row[4], "unchanged": row[5], "moved_from": None if row[6] is None else offset - row[6]}


def random_changes(seed: int) -> Iterator[tuple[list[Row], Table]]:
    """Yield batches of changes that a database could make, each with the table that it has then."""
    dice = random.Random(seed)
    table: Table = {}
    for _ in range(12):
        rows = list[Row]()
        for _ in range(dice.randrange(1, 15)):
            key = (dice.randrange(5), dice.choice("xy"))
            other = (dice.randrange(5), dice.choice("xy"))
            kind = dice.choices(["put", "unchanged", "delete", "key", "truncate"], [5, 5, 3, 3, 0.5])[0]
            if kind == "truncate":
                table = {}
                rows.append(TRUNCATE)
            elif kind == "delete" and key in table:
                del table[key]
                rows.append(delete(key[0], key[1]))
            elif kind == "key" and other not in table and table.get(key, (None,))[0]:
                table[other] = (table.pop(key)[0], dice.randrange(1000))
                rows += [delete(*key), moved(other[0], None, table[other][1], "doc", part=other[1])]
            elif kind == "unchanged" and table.get(key, (None,))[0] is not None:  # what is left out is large
                table[key] = (table[key][0], dice.randrange(1000))
                rows.append(put(key[0], None, table[key][1], "doc", part=key[1]))
            else:
                table[key] = (dice.choice([None, "", f"doc {dice.random()}"]), dice.randrange(1000))
                rows.append(put(key[0], *table[key], part=key[1]))
        yield rows, dict(table)


def write_changes(sink: Sink, rows: list[Row], start: int, source_partition: SourcePartition) -> list[Refusal]:
    """Write a batch of changes from this offset on, as a driver does it; nothing is committed if some are refused."""
    expected = {source_partition: (sink.positions([source_partition]) or {}).get(source_partition)}
    offset_range = OffsetRange(source_partition, start, start + len(rows))
    stager = sink.stager()(offset_range)
    assert [] == stager.write(batch(rows, start, source_partition), pa.array(range(start, offset_range.end)))
    refusals = sink.prepare([Staged(offset_range, len(rows), stager.finish())], expected)
    if not refusals:
        sink.commit()
    return refusals
