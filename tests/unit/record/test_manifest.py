from typing import Any

import msgspec
import pyarrow as pa
import pytest

from penstock.record.columns import whole_schema
from penstock.record.manifest import COLUMN, Manifest, SinkPart, TaskSummary, added_up

SCHEMA = whole_schema(pa.schema([("id", pa.int64())]))


def manifest(summary: TaskSummary) -> Manifest:
    part = SinkPart(rows=2, dead=1, dropped=0, detail={"files": ["a.parquet"]})
    return Manifest(0, summary, {"table": part}, {"file": None}, {"positive": 1}, ("positive", 7))


def test_a_manifest_arrives_as_the_task_wrote_it() -> None:
    sent = manifest(TaskSummary(read={0: 3, 2: 1}, end=3, handlers={"messages": 3}, stopped=(2, "ValueError: no")))

    arrived = Manifest.read(sent.row().column(COLUMN)[0].as_py())

    assert sent == arrived


def test_what_the_parts_of_a_task_tell_comes_together() -> None:
    rows = [TaskSummary(read={0: 3}, end=3).row(SCHEMA), TaskSummary(handlers={"failed": 1}).row(SCHEMA)]

    summary = TaskSummary()
    for row in rows:
        summary = summary.with_rows(row.column("_error"))

    assert TaskSummary(read={0: 3}, end=3, handlers={"failed": 1}) == summary


def test_a_task_that_did_not_say_how_far_it_got_moves_no_position() -> None:
    with pytest.raises(ValueError, match="how far it got"):
        _ = manifest(TaskSummary(stopped=(2, "no"))).end


def test_a_manifest_with_a_part_missing_is_not_taken_for_a_whole_one() -> None:
    with pytest.raises(msgspec.ValidationError, match="sinks"):
        Manifest.read('{"index": 0, "summary": {}}')


def test_counts_of_several_tasks_are_added_up_however_deep_they_lie() -> None:
    parts: list[dict[str, Any]] = [
        {"failed": 1, "batches": {"default": {"size": 2}}},
        {},
        {"batches": {"default": {"size": 1, "flush": 1}}},
    ]

    assert {"failed": 1, "batches": {"default": {"size": 3, "flush": 1}}} == added_up(parts)
