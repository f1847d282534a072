"""Rows of an Iceberg table that give way to others of the same records, whatever it is partitioned by."""

import datetime
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from penstock.errors import Conflict
from penstock.record.positions import OffsetRange, SourcePartition
from penstock.sinks.iceberg import Iceberg, IcebergSink
from penstock.sinks.sink import Staged

from support.iceberg_driver import loaded
from support.iceberg_tables import iceberg_rows

LIVE = SourcePartition("orders", "Ab-_9", 0)
AGAIN = SourcePartition("orders", "range-0a1b2c3d-Ab-_9", 0)
COORDINATES = [("_topic_id", pa.string()), ("_partition", pa.int32()), ("_offset", pa.int64())]
COLUMNS = [("name", pa.string()), ("at", pa.timestamp("us", "UTC"))]
TIMES = [
    None,
    datetime.datetime(1969, 12, 31, 23, 59, 59, tzinfo=datetime.UTC),
    datetime.datetime(2026, 1, 31, 5, tzinfo=datetime.UTC),
]


def write(sink: IcebergSink, at: SourcePartition, end: int, offsets: Iterable[int], name: str, **more: Any) -> None:
    """Write a row for each of the offsets, as one batch from where the sink stands to an end."""
    found = (sink.positions([at]) or {}).get(at)
    offset_range = OffsetRange(at, found or 0, end)
    rows = [
        {"name": name, "at": TIMES[each % 3], **more, "_topic_id": LIVE.topic_id, "_partition": 0, "_offset": each}
        for each in offsets
    ]
    stager = sink.stager()(offset_range)
    schema = pa.schema([each.remove_metadata() for each in sink._table.file_schema])
    assert [] == stager.write(
        pa.RecordBatch.from_pylist(rows, schema),
        pa.array([row["_offset"] for row in rows], pa.int64()),
    )
    sink.prepare([Staged(offset_range, len(rows), stager.finish())], {at: found})
    sink.commit()


@pytest.mark.parametrize("partition_by", [[], ["days(at)"], ["months(at)", "name"], ["hours(at)"]])
def test_rows_of_a_range_give_way_in_every_partition_and_all_others_stay(
    tmp_path: Path, partition_by: list[str]
) -> None:
    path = tmp_path / "orders"
    model = Iceberg.model_validate({"path": path, "partition_by": partition_by})
    live = IcebergSink(model, "iceberg", "orders")
    live.open(pa.schema([*COLUMNS, *COORDINATES]))
    write(live, LIVE, 6, range(6), "old")
    write(live, LIVE, 9, range(6, 9), "old")
    table, theirs = loaded(path), [("theirs", None, None)] if not partition_by else []
    if theirs:  # which the library cannot put into partitions
        table.append(pa.Table.from_pylist([{"name": "theirs"}], table.schema().as_arrow()))

    again = IcebergSink(model, "iceberg", "orders")
    again.replace({AGAIN: [OffsetRange(LIVE, 1, 8)]})
    again.open(pa.schema([*COLUMNS, ("more", pa.int32()), *COORDINATES]))
    write(again, AGAIN, 4, [2, 3], "new", more=1)  # the record of 1 gives no row any more
    write(again, AGAIN, 8, [], "new")
    expected = [*theirs, ("old", 0, None), ("new", 2, 1), ("new", 3, 1), ("old", 8, None)]

    for rows in (iceberg_rows(path), loaded(path).scan().to_arrow().to_pylist()):
        found = sorted(
            ((row["name"], row["_offset"], row["more"]) for row in rows),
            key=lambda row: -1 if row[1] is None else row[1],
        )
        assert expected == found
        assert {row["_offset"]: TIMES[row["_offset"] % 3] for row in rows if row["_offset"]} == {
            row["_offset"]: row["at"] for row in rows if row["_offset"]
        }
    assert {LIVE: 9, AGAIN: 8} == again.positions([LIVE, AGAIN])


def test_rows_of_the_same_records_that_another_pipeline_has_written_there_are_not_taken_out(tmp_path: Path) -> None:
    path = tmp_path / "orders"
    model = Iceberg.model_validate({"path": path})
    for pipeline, end in (("orders", 9), ("large-orders", 4)):
        live = IcebergSink(model, "iceberg", pipeline)
        live.open(pa.schema([*COLUMNS, *COORDINATES]))
        write(live, LIVE, end, range(end), pipeline)

    def again(start: int) -> IcebergSink:
        sink = IcebergSink(model, "iceberg", "orders")
        sink.replace({AGAIN: [OffsetRange(LIVE, start, 8)]})
        sink.open(pa.schema([*COLUMNS, *COORDINATES]))
        return sink

    with pytest.raises(Conflict, match="sink 'iceberg' of pipeline 'large-orders' has written rows of orders/0"):
        again(3).positions([AGAIN])
    behind = again(4)
    write(behind, AGAIN, 8, range(4, 8), "new")

    theirs = [("large-orders", offset) for offset in range(4)]
    ours = [("new" if 4 <= offset < 8 else "orders", offset) for offset in range(9)]
    assert sorted([*theirs, *ours]) == sorted((row["name"], row["_offset"]) for row in iceberg_rows(path))
