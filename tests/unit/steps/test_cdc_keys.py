"""A row that gets another key: two records that belong together, and stay together."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from penstock.record.columns import CHANGE, HEADERS
from penstock.record.manifest import TaskSummary
from penstock.steps.cdc import Cdc
from penstock.steps.step import StepContext

from support.debezium import UNAVAILABLE, change
from support.events import batch

Record = tuple[bytes | None, str | None]
"""A value, and the header that it has."""
FIRST: Record = (change("c", {"id": 9, "name": "i"}, lsn=1), None)
GOES: Record = (change("d", before={"id": 1, "name": None}, lsn=7), "newkey")
COMES: Record = (change("c", {"id": 2, "name": UNAVAILABLE}, lsn=7), "oldkey")
TOMBSTONE: Record = (None, None)
NO_CHANGE: Record = (b"{}", None)


def chunks(*parts: list[Record], failed: tuple[int, ...] = ()) -> list[pa.RecordBatch]:
    """Make what a task reads, in several chunks, and what it says at the end; offsets begin at 100."""
    records = [each for part in parts for each in part]
    given = batch("value binary", [(value,) for value, _ in records], failed)
    named = [[] if name is None else [{"name": f"__debezium.{name}", "value": b"{}"}] for _, name in records]
    for name, column in {
        "_value": pa.array([value for value, _ in records], pa.binary()),
        "_headers": pa.array(named, HEADERS),
    }.items():
        at = given.schema.get_field_index(name)
        given = given.set_column(at, given.schema.field(at), column)
    starts = [sum(map(len, parts[:number])) for number in range(len(parts))]
    cut = [given.slice(start, len(part)) for start, part in zip(starts, parts, strict=True)]
    end = 100 + len(records)
    summary = TaskSummary(read={100: len(records), 102: max(0, len(records) - 2)}, end=end)
    return [*cut, summary.row(given.schema)]


def run(given: list[pa.RecordBatch], cdc: str = "state") -> tuple[list[dict[str, Any]], TaskSummary]:
    spec = Cdc.model_validate({"cdc": cdc, "schema": "id bigint NOT NULL, name string"})
    task = spec.open(StepContext(pa.schema([]), Path(), Path()))
    rows = pa.Table.from_batches(task(iter(given), 0), task.schema)
    rows.validate(full=True)
    summaries = rows.filter(pa.array([each is None for each in rows.column("_at").to_pylist()]))
    found = [each for each in rows.to_pylist() if each["_at"] is not None]
    return found, TaskSummary().with_rows(summaries.column("_error"))


@pytest.mark.parametrize(
    ("parts", "moved_from"),
    [
        ([[FIRST, GOES, TOMBSTONE, COMES]], 101),
        ([[FIRST, GOES], [TOMBSTONE], [COMES]], 101),
        ([[GOES, COMES]], 100),
        ([[GOES, (change("c", {"id": 2, "name": UNAVAILABLE}, lsn=8), "oldkey")]], None),
        ([[GOES, (COMES[0], None)]], None),
        ([[(GOES[0], None), COMES]], None),
        ([[GOES, FIRST, COMES]], None),
        ([[GOES, NO_CHANGE, COMES]], None),
        ([[FIRST, COMES]], None),
    ],
)
def test_a_row_that_gets_another_key_names_the_record_that_takes_the_old_one_out(
    parts: list[list[Record]], moved_from: int | None
) -> None:
    rows, summary = run(chunks(*parts))

    assert moved_from == rows[-1][CHANGE.name]["moved_from"]
    assert ["name"] == rows[-1][CHANGE.name]["unchanged"]
    assert sum(value is not None for part in parts for value, _ in part) == len(rows)
    assert 100 + sum(map(len, parts)) == summary.end


@pytest.mark.parametrize(
    ("parts", "end", "read"),
    [
        ([[FIRST, GOES]], 101, {100: 1, 102: 0}),
        ([[FIRST, FIRST, GOES, TOMBSTONE]], 102, {100: 2, 102: 0}),
        ([[FIRST], [GOES], [TOMBSTONE]], 101, {100: 1, 102: 0}),
        ([[TOMBSTONE, GOES]], 101, {100: 1, 102: 0}),
        ([[GOES, TOMBSTONE]], 102, {100: 2, 102: 0}),
        ([[GOES], [TOMBSTONE]], 102, {100: 2, 102: 0}),
        ([[FIRST, GOES, NO_CHANGE]], 103, {100: 3, 102: 1}),
    ],
)
def test_a_task_stops_before_half_of_a_changed_key_unless_it_begins_with_it(
    parts: list[list[Record]], end: int, read: dict[int, int]
) -> None:
    rows, summary = run(chunks(*parts))

    assert (end, read) == (summary.end, summary.read)
    assert all(row["_at"] < end for row in rows)
    kept = [value for part in parts for value, _ in part][: end - 100]
    assert sum(value is not None for value in kept) == len(rows)


def test_a_record_that_failed_before_lets_the_task_read_to_its_end() -> None:
    rows, summary = run(chunks([FIRST, GOES, FIRST], failed=(2,)))

    assert ([100, 101, 102], 103) == (sorted(row["_at"] for row in rows), summary.end)


def test_without_a_word_about_the_end_everything_is_given() -> None:
    rows, _ = run(chunks([FIRST, GOES])[:-1])

    assert [100, 101] == [row["_at"] for row in rows]


def test_a_history_has_both_halves_whatever_the_batch() -> None:
    rows, summary = run(chunks([FIRST, GOES]), "history")

    assert (2, 102) == (len(rows), summary.end)
