"""Rows of the past that are replaced in a Delta table: only those of records that are read again, and have landed."""

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from penstock.errors import Conflict
from penstock.record.positions import OffsetRange, SourcePartition
from penstock.sinks.delta import Delta, DeltaSink
from penstock.sinks.sink import Staged

LIVE = SourcePartition("orders", "Ab-_9", 0)
REPLAY = SourcePartition("orders", "range-0badcafe-Ab-_9", 0)
SCHEMA = pa.schema(
    [("text", pa.string()), ("_topic_id", pa.string()), ("_partition", pa.int32()), ("_offset", pa.int64())]
)


def opened(path: Path, *replaced: tuple[int, int], pipeline: str = "orders", name: str = "delta") -> DeltaSink:
    sink = DeltaSink(Delta(path=path), name, pipeline)
    if replaced:
        sink.replace({REPLAY: [OffsetRange(LIVE, *bounds) for bounds in replaced]})
    sink.open(SCHEMA)
    return sink


def write(sink: DeltaSink, offset_range: OffsetRange, text: str, offsets: Sequence[int]) -> None:
    """Land a row for each of these records of the live topic."""
    expected = (sink.positions([offset_range.source_partition]) or {}).get(offset_range.source_partition)
    stager = sink.stager()(offset_range)
    rows = [{"text": text, "_topic_id": LIVE.topic_id, "_partition": 0, "_offset": offset} for offset in offsets]
    stager.write(pa.RecordBatch.from_pylist(rows, SCHEMA), pa.array(offsets))
    sink.prepare([Staged(offset_range, len(rows), stager.finish())], {offset_range.source_partition: expected})
    sink.commit()


def live(path: Path, start: int, end: int) -> int:
    """Land records as the live driver does; give the version that this made."""
    write(opened(path), OffsetRange(LIVE, start, end), "old", range(start, end))
    return int(DeltaTable(str(path)).version())


def texts(path: Path) -> list[tuple[int, str]]:
    rows = DeltaTable(str(path)).to_pyarrow_table().to_pylist()
    return sorted((row["_offset"], row["text"]) for row in rows)


def test_nothing_is_replaced_that_the_pipeline_will_write_again_after_a_restore(tmp_path: Path) -> None:
    version = live(tmp_path, 0, 4)
    live(tmp_path, 4, 10)
    DeltaTable(str(tmp_path)).restore(version)
    replay = opened(tmp_path, (2, 8))

    with pytest.raises(Conflict, match="is at offset 4, and orders/0 offsets 2 to 7 would be replaced"):
        replay.positions([REPLAY])
    live(tmp_path, 4, 10)
    write(replay, OffsetRange(REPLAY, 2, 8), "new", range(2, 8))

    assert [(offset, "new" if 2 <= offset < 8 else "old") for offset in range(10)] == texts(tmp_path)
    assert {LIVE: 10} == opened(tmp_path).positions([LIVE])


def test_a_table_restored_while_a_batch_runs_is_noticed_at_the_commit(tmp_path: Path) -> None:
    version = live(tmp_path, 0, 4)
    live(tmp_path, 4, 10)
    replay = opened(tmp_path, (2, 8))
    offset_range = OffsetRange(REPLAY, 2, 8)
    assert {} == replay.positions([REPLAY])
    replay.prepare([Staged(offset_range, 0, replay.stager()(offset_range).finish())], {REPLAY: None})
    DeltaTable(str(tmp_path)).restore(version)

    with pytest.raises(Conflict, match="is at offset 4"):
        replay.commit()

    assert [(offset, "old") for offset in range(4)] == texts(tmp_path)


def test_nothing_is_replaced_in_a_table_that_the_pipeline_has_not_written_to(tmp_path: Path) -> None:
    with pytest.raises(Conflict, match="has no position there"):
        opened(tmp_path, (2, 8)).positions([REPLAY])


def test_rows_of_records_that_are_not_read_again_stay(tmp_path: Path) -> None:
    live(tmp_path, 0, 10)
    replay = opened(tmp_path, (0, 5), (8, 10))

    write(replay, OffsetRange(REPLAY, 0, 5), "new", [0, 1, 2, 3, 4])
    write(replay, OffsetRange(REPLAY, 5, 8), "new", [])
    write(replay, OffsetRange(REPLAY, 8, 10), "new", [8])

    assert [*((offset, "new") for offset in range(5)), (5, "old"), (6, "old"), (7, "old"), (8, "new")] == texts(
        tmp_path
    )
    assert {REPLAY: 10} == replay.positions([REPLAY])


@pytest.mark.parametrize("at", [LIVE, SourcePartition("orders", "range-0a1b2c3d-Ab-_9", 0)], ids=["live", "a replay"])
@pytest.mark.parametrize("is_checkpointed", [False, True])
def test_rows_of_the_same_records_that_another_pipeline_has_written_there_are_not_taken_out(
    tmp_path: Path, at: SourcePartition, *, is_checkpointed: bool
) -> None:
    live(tmp_path, 0, 10)
    write(opened(tmp_path, pipeline="large-orders"), OffsetRange(at, 0, 4), "theirs", [1, 3])
    if is_checkpointed:
        DeltaTable(str(tmp_path)).create_checkpoint()
        for commit in (tmp_path / "_delta_log").glob("*[01].json"):
            commit.unlink()

    with pytest.raises(Conflict, match="sink 'delta' of pipeline 'large-orders' has written rows of orders/0"):
        opened(tmp_path, (2, 8)).positions([REPLAY])
    behind = opened(tmp_path, (4, 8))
    write(behind, OffsetRange(REPLAY, 4, 8), "new", range(4, 8))

    kept = [(1, "theirs"), (3, "theirs")]
    assert sorted([*kept, *((n, "new" if 4 <= n < 8 else "old") for n in range(10))]) == texts(tmp_path)


def test_what_the_sink_has_written_under_a_former_name_is_replaced(tmp_path: Path) -> None:
    write(opened(tmp_path, name="former"), OffsetRange(LIVE, 0, 4), "old", range(4))
    write(opened(tmp_path), OffsetRange(LIVE, 0, 4), "old", [])

    write(opened(tmp_path, (1, 3)), OffsetRange(REPLAY, 1, 3), "new", [1, 2])

    assert [(0, "old"), (1, "new"), (2, "new"), (3, "old")] == texts(tmp_path)
