"""What is staged beside a table: private, and gone when nobody needs it any more, also after a kill."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from penstock.errors import Conflict
from penstock.record.positions import OffsetRange, SourcePartition
from penstock.sinks.delta import Delta, DeltaSink
from penstock.sinks.json import Json, JsonSink
from penstock.sinks.sink import Staged

A, B = SourcePartition("orders", "Ab-_9", 0), SourcePartition("orders", "Ab-_9", 1)
SCHEMA = pa.schema([("id", pa.int64())])
KINDS = ("delta", "json")
# Two attempts at one offset range, of which one wins; then a commit.
DRIVER = """
import sys
from pathlib import Path
sys.path.insert(0, sys.argv[3])
from test_staging import A, B, opened, staged
sink = opened(sys.argv[1], Path(sys.argv[2]))
staged(sink, A, 1)
sink.prepare([staged(sink, A, 1), staged(sink, B, 2)], {A: None, B: None})
sink.commit()
"""


def opened(kind: str, table: Path) -> DeltaSink | JsonSink:
    is_delta = kind == "delta"
    sink = DeltaSink(Delta(path=table), kind, "combat") if is_delta else JsonSink(Json(path=table), kind, "combat")
    sink.open(SCHEMA)
    return sink


def staged(sink: DeltaSink | JsonSink, source_partition: SourcePartition, number: int) -> Staged:
    stager = sink.stager()(OffsetRange(source_partition, 0, 3))
    stager.write(pa.RecordBatch.from_pylist([{"id": number}], SCHEMA), pa.array([0]))
    return Staged(OffsetRange(source_partition, 0, 3), 1, stager.finish())


def staged_files(table: Path) -> list[Path]:
    return [path for path in (table / ".staging").glob("*/*") if path.name != "lock"]


def strays(table: Path) -> set[str]:
    """Name the files of rows that the table does not know of."""
    known = {Path(uri).name for uri in DeltaTable(str(table)).file_uris()}
    return {path.name for path in table.glob("*.parquet")} - known


def kill_a_driver(kind: str, table: Path, at: str) -> None:
    died = subprocess.run(
        [sys.executable, "-c", DRIVER, kind, str(table), str(Path(__file__).parent)],
        env={**os.environ, "PENSTOCK_CRASH_AT": at},
        timeout=60,
        check=False,
    )
    assert -signal.SIGKILL == died.returncode


@pytest.mark.parametrize("kind", KINDS)
def test_what_an_attempt_that_lost_has_written_goes_with_the_commit(kind: str, tmp_path: Path) -> None:
    sink = opened(kind, tmp_path)
    staged(sink, A, 1)
    sink.prepare([staged(sink, A, 1)], {A: None})
    before = len(staged_files(tmp_path))

    sink.commit()

    assert (2, []) == (before, staged_files(tmp_path))
    assert {A: 3} == sink.positions([A])


@pytest.mark.parametrize("kind", KINDS)
def test_nobody_else_can_read_what_is_staged(kind: str, tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        sink = opened(kind, tmp_path)
        staged(sink, A, 1)
    finally:
        os.umask(before)

    folders = [tmp_path / ".staging", *(tmp_path / ".staging").glob("*/")]
    assert [0o700, 0o700] == [folder.stat().st_mode & 0o777 for folder in folders]


@pytest.mark.parametrize("kind", KINDS)
def test_a_driver_that_ends_leaves_nothing_aside_and_one_that_runs_keeps_its_own(kind: str, tmp_path: Path) -> None:
    live = opened(kind, tmp_path)
    part = staged(live, A, 1)

    other = opened(kind, tmp_path)
    staged(other, B, 2)
    other.close()
    live.prepare([part], {A: None})
    live.commit()

    assert {A: 3} == live.positions([A, B])
    live.close()
    assert [] == list((tmp_path / ".staging").glob("*/"))


@pytest.mark.parametrize("kind", KINDS)
def test_what_a_killed_driver_has_left_is_gone_when_the_next_one_opens(kind: str, tmp_path: Path) -> None:
    kill_a_driver(kind, tmp_path, f"in_commit:{kind}")
    left = staged_files(tmp_path)

    opened(kind, tmp_path).close()

    assert left
    assert [] == list((tmp_path / ".staging").glob("*/"))


def test_files_that_a_killed_driver_had_offered_to_the_table_go_if_they_were_never_committed(tmp_path: Path) -> None:
    kept = opened("delta", tmp_path)
    source_partition = SourcePartition("orders", "Ab-_9", 7)
    kept.prepare([staged(kept, source_partition, 7)], {source_partition: None})
    kept.commit()
    kill_a_driver("delta", tmp_path, "in_commit:delta")
    left = strays(tmp_path)

    sink = opened("delta", tmp_path)

    assert (2, set()) == (len(left), strays(tmp_path))
    assert ({source_partition: 3}, [7]) == (
        sink.positions([A, B, source_partition]),
        DeltaTable(str(tmp_path)).to_pyarrow_table().column("id").to_pylist(),
    )


def test_files_that_the_tables_log_names_stay_even_if_their_position_is_lost(tmp_path: Path) -> None:
    sink = opened("delta", tmp_path)
    sink.prepare([staged(sink, A, 1)], {A: None})
    sink.commit()
    (kept,) = tmp_path.glob("*.parquet")
    left = tmp_path / ".staging" / ("0" * 32)
    left.mkdir()
    (left / "offered.json").write_text(json.dumps([{"file": kept.name, "app": "a position that is lost", "end": 3}]))

    opened("delta", tmp_path)

    assert ([1], False) == (DeltaTable(str(tmp_path)).to_pyarrow_table().column("id").to_pylist(), left.exists())


@pytest.mark.parametrize("kind", KINDS)
def test_a_link_where_files_are_staged_is_refused_and_nothing_behind_it_is_touched(kind: str, tmp_path: Path) -> None:
    victim, table = tmp_path / "victim", tmp_path / "table"
    kept = victim / ("0" * 32)
    kept.mkdir(parents=True)
    victim.chmod(0o755)
    table.mkdir()
    (table / ".staging").symlink_to(victim)

    with pytest.raises(Conflict, match="is not a folder of yours"):
        opened(kind, table)

    assert (True, 0o755) == (kept.is_dir(), victim.stat().st_mode & 0o777)
