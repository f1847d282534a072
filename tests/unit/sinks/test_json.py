import gzip
import json
import os
import pickle
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from penstock.errors import BatchAborted, Conflict, PenstockError, PositionsMoved
from penstock.record.positions import OffsetRange, SourcePartition
from penstock.sinks.json import Json, JsonSink
from penstock.sinks.sink import Staged

A, B = SourcePartition("orders", "Ab-_9", 0), SourcePartition("orders", "Ab-_9", 1)
SCHEMA = pa.schema([("id", pa.int64()), ("text", pa.string())])


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "lines"


def opened(folder: Path, pipeline: str = "combat", **options: Any) -> JsonSink:
    sink = JsonSink(Json(path=folder, **options), "json", pipeline)
    sink.open(SCHEMA)
    return sink


def staged(sink: JsonSink, offset_range: OffsetRange, *ids: int) -> Staged:
    """Do what a task does; the factory travels there and must be picklable."""
    stager = pickle.loads(pickle.dumps(sink.stager()))(offset_range)  # noqa: S301 - our own bytes
    for number in ids:
        rows = pa.RecordBatch.from_pylist([{"id": number, "text": f"ü{number}\n"}], SCHEMA)
        assert [] == stager.write(rows, pa.array([number]))
    return Staged(offset_range, len(ids), stager.finish())


def staged_file(table: Path, name: str) -> Path:
    """Find a file that a task has staged."""
    (found,) = (table / ".staging").glob(f"*/{name}")
    return found


def left_aside(table: Path) -> list[str]:
    return [path.name for path in (table / ".staging").glob("*/*") if path.name != "lock"]


def commit(sink: JsonSink, expected: dict[SourcePartition, int | None], *parts: Staged) -> None:
    assert [] == sink.prepare(list(parts), expected)
    sink.commit()


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if not path.name.startswith("."))


def ids(folder: Path) -> list[int]:
    files = sorted(folder.glob("[!_.]*"))
    texts = [gzip.decompress(file.read_bytes()) if file.suffix == ".gz" else file.read_bytes() for file in files]
    return [json.loads(line)["id"] for text in texts for line in text.splitlines()]


def test_a_new_folder_has_no_positions(folder: Path) -> None:
    assert {} == opened(folder).positions([A, B])


def test_the_position_of_a_replay_is_read_back_by_another_driver(folder: Path) -> None:
    replayed = SourcePartition("orders.dead", "replay-0000aaaa-orders.dead", 0)
    sink = opened(folder)
    commit(sink, {replayed: None}, staged(sink, OffsetRange(replayed, 0, 3), 0, 1, 2))

    assert {replayed: 3} == opened(folder).positions([replayed])


def test_what_was_staged_is_not_there_before_the_commit(folder: Path) -> None:
    sink = opened(folder)

    sink.prepare([staged(sink, OffsetRange(A, 0, 3), 1, 2)], {A: None})

    assert ([], {}) == (names(folder), sink.positions([A]))


def test_a_commit_puts_a_file_in_place_whose_name_is_the_position(folder: Path) -> None:
    sink = opened(folder)

    commit(sink, {A: None}, staged(sink, OffsetRange(A, 5, 8), 5, 7))

    assert ["orders.Ab-_9.p0.00000000000000000005-00000000000000000008.jsonl.gz"] == names(folder)
    assert [b'{"id":5,"text":"\xc3\xbc5\\n"}', b'{"id":7,"text":"\xc3\xbc7\\n"}'] == gzip.decompress(
        (folder / names(folder)[0]).read_bytes()
    ).splitlines()
    assert {A: 8} == opened(folder).positions([A, B])


def test_nothing_is_left_aside_after_a_commit(folder: Path) -> None:
    sink = opened(folder)

    commit(sink, {A: None, B: None}, staged(sink, OffsetRange(A, 0, 3), 1), staged(sink, OffsetRange(B, 0, 3)))

    assert [] == left_aside(folder)


def test_files_need_not_be_compressed(folder: Path) -> None:
    sink = opened(folder, gzip=False)

    commit(sink, {A: None}, staged(sink, OffsetRange(A, 0, 3), 1, 2))

    assert [".jsonl"] == [Path(name).suffix for name in names(folder)]
    assert ([1, 2], {A: 3}) == (ids(folder), sink.positions([A]))


def test_the_same_rows_give_the_same_bytes(folder: Path) -> None:
    sink = opened(folder)
    one, other = (staged(sink, OffsetRange(A, 0, 3), 1, 2).detail["file"] for _ in range(2))

    assert one != other
    assert staged_file(folder, one).read_bytes() == staged_file(folder, other).read_bytes()


def test_an_offset_range_without_rows_leaves_a_marker_that_the_next_commit_takes_away(folder: Path) -> None:
    sink = opened(folder)

    commit(sink, {A: None, B: None}, staged(sink, OffsetRange(A, 0, 5)), staged(sink, OffsetRange(B, 0, 2)))
    first = names(folder)
    commit(sink, {A: 5}, staged(sink, OffsetRange(A, 5, 9)))
    second = names(folder)
    commit(sink, {A: 9}, staged(sink, OffsetRange(A, 9, 10), 9))

    core = "orders.Ab-_9.p{}.{:020d}-{:020d}"
    marker_b = f"_{core.format(1, 0, 2)}.empty"
    assert [f"_{core.format(0, 0, 5)}.empty", marker_b] == first
    assert [f"_{core.format(0, 5, 9)}.empty", marker_b] == second
    assert [marker_b, f"{core.format(0, 9, 10)}.jsonl.gz"] == names(folder)
    assert ({A: 10, B: 2}, [9]) == (sink.positions([A, B]), ids(folder))


def test_of_two_drivers_that_race_the_second_is_refused_and_writes_nothing(folder: Path) -> None:
    one, other = opened(folder), opened(folder)
    one.prepare([staged(one, OffsetRange(A, 0, 3), 1, 2)], {A: None})
    other.prepare(
        [staged(other, OffsetRange(A, 0, 5), 1, 2, 4), staged(other, OffsetRange(B, 0, 2), 1)], {A: None, B: None}
    )

    one.commit()
    with pytest.raises(PositionsMoved, match="orders/0 is at 3, and this driver expected None"):
        other.commit()

    assert ([1, 2], {A: 3}) == (ids(folder), other.positions([A, B]))


def test_a_commit_that_is_repeated_is_refused(folder: Path) -> None:
    sink = opened(folder)
    commit(sink, {A: None}, staged(sink, OffsetRange(A, 0, 3), 1))

    with pytest.raises(PositionsMoved):
        sink.commit()

    assert [1] == ids(folder)


def test_of_many_drivers_at_once_one_gets_through(folder: Path) -> None:
    sinks = [opened(folder) for _ in range(8)]
    for number, sink in enumerate(sinks):
        sink.prepare([staged(sink, OffsetRange(A, 0, 3 + number), number)], {A: None})

    def attempt(sink: JsonSink) -> bool:
        try:
            sink.commit()
        except PositionsMoved:
            return False
        return True

    with ThreadPoolExecutor(8) as threads:
        through = list(threads.map(attempt, sinks))

    assert [through.index(True)] == ids(folder)
    assert 1 == through.count(True)


def test_sources_that_share_a_topic_or_a_partition_do_not_mix_their_positions(folder: Path) -> None:
    recreated, eleven = SourcePartition("orders", "Zz", 0), SourcePartition("orders", "Ab-_9", 11)
    sink = opened(folder)

    commit(
        sink,
        dict.fromkeys((A, recreated, eleven)),
        *(staged(sink, OffsetRange(p, 0, n), n) for p, n in ((A, 3), (recreated, 7))),
    )

    assert {A: 3, recreated: 7} == sink.positions([A, B, recreated, eleven])


def test_other_files_in_the_folder_are_no_positions(folder: Path) -> None:
    sink = opened(folder)
    for name in ("orders.Ab-_9.p0.0-9.txt", "orders.Ab-_9.p0.jsonl", "notes.md", "orders.Ab-_9.p0.0-9.parquet"):
        (folder / name).touch()

    assert {} == sink.positions([A])


@pytest.mark.parametrize(
    "topic",
    [
        pytest.param("a.b.c", id="dots"),
        pytest.param("a.p3.00-11.jsonl", id="like a name of ours"),
        pytest.param("_hidden", id="an underscore first, which readers skip"),
        pytest.param(".hidden", id="a dot first, which readers skip"),
        pytest.param("/some/folder/file one.jsonl", id="a path"),
        pytest.param("ünï", id="not ASCII"),
        pytest.param("a" * 249, id="as long as Kafka allows"),
        pytest.param("/" + "long/" * 80, id="a long path"),
    ],
)
def test_any_topic_or_path_can_be_in_a_name_that_readers_of_folders_do_not_skip(folder: Path, topic: str) -> None:
    source_partition = SourcePartition(topic, "file-0123456789abcdef", 0)
    sink = opened(folder)

    commit(sink, {source_partition: None}, staged(sink, OffsetRange(source_partition, 0, 3), 1))
    commit(sink, {source_partition: 3}, staged(sink, OffsetRange(source_partition, 3, 9)))

    assert ({source_partition: 9}, [1]) == (sink.positions([source_partition]), ids(folder))


def test_a_staged_file_that_is_gone_is_work_lost_and_moves_no_position(folder: Path) -> None:
    sink = opened(folder)
    part = staged(sink, OffsetRange(A, 0, 3), 1)
    staged_file(folder, part.detail["file"]).unlink()
    sink.prepare([part], {A: None})

    with pytest.raises(BatchAborted):
        sink.commit()

    assert ([], {}) == (names(folder), sink.positions([A]))


def test_a_file_in_place_of_the_folder_is_said_in_words(tmp_path: Path) -> None:
    (tmp_path / "file").touch()

    with pytest.raises(PenstockError):
        opened(tmp_path / "file")


CRASH = """
import sys
from pathlib import Path
import pyarrow as pa
from penstock.record.positions import SourcePartition, OffsetRange
from penstock.sinks.json import Json, JsonSink
from penstock.sinks.sink import Staged
sink = JsonSink(Json(path=Path(sys.argv[1])), "json", "combat")
schema = pa.schema([("id", pa.int64())])
sink.open(schema)
parts = []
for number in range(2):
    offset_range = OffsetRange(SourcePartition("orders", "Ab-_9", number), 0, 3)
    stager = sink.stager()(offset_range)
    stager.write(pa.RecordBatch.from_pylist([{"id": number}], schema), pa.array([0]))
    parts.append(Staged(offset_range, 1, stager.finish()))
sink.prepare(parts, {part.offset_range.source_partition: None for part in parts})
sink.commit()
"""


def test_a_driver_that_dies_between_two_files_has_written_the_first_one_whole(folder: Path) -> None:
    env = {**os.environ, "PENSTOCK_CRASH_AT": "in_commit:json"}

    died = subprocess.run([sys.executable, "-c", CRASH, str(folder)], env=env, timeout=60, check=False)

    sink = opened(folder)
    assert -signal.SIGKILL == died.returncode
    assert ({A: 3}, [0]) == (sink.positions([A, B]), ids(folder))
    commit(sink, {A: 3, B: None}, staged(sink, OffsetRange(A, 3, 5)), staged(sink, OffsetRange(B, 0, 3), 1))
    assert ({A: 5, B: 3}, [0, 1]) == (sink.positions([A, B]), ids(folder))


@pytest.mark.parametrize(("wanted", "expected"), [(True, ("_topic_id", "_partition", "_offset")), (False, ())])
def test_coordinates_go_along_if_they_are_wanted(wanted: bool, expected: tuple[str, ...]) -> None:  # noqa: FBT001
    assert expected == Json(path=Path("x"), coordinates=wanted).reserved_columns


def test_a_batch_costs_the_same_however_many_files_there_are(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sink = opened(folder)
    commit(sink, {A: None}, staged(sink, OffsetRange(A, 0, 1), 0))
    looks: list[str] = []
    scandir = os.scandir

    def look(path: Path | str) -> Any:
        looks.append(str(path))
        return scandir(path)

    monkeypatch.setattr(os, "scandir", look)

    for number in range(1, 5):
        assert {A: number} == sink.positions([A, B])
        commit(sink, {A: number, B: None}, staged(sink, OffsetRange(A, number, number + 1), number))

    assert str(folder) not in looks
    assert {A: 5} == opened(folder).positions([A, B])
    assert 1 == looks.count(str(folder))


def test_an_older_copy_of_the_folder_laid_over_it_takes_no_position_back(folder: Path, tmp_path: Path) -> None:
    sink = opened(folder)
    commit(sink, {A: None}, staged(sink, OffsetRange(A, 0, 1), 0))
    shutil.copytree(folder, tmp_path / "copy", ignore=shutil.ignore_patterns(".staging"))
    commit(sink, {A: 1, B: None}, staged(sink, OffsetRange(A, 1, 2), 1), staged(sink, OffsetRange(B, 0, 4)))

    shutil.copytree(tmp_path / "copy", folder, dirs_exist_ok=True)

    assert {A: 2, B: 4} == sink.positions([A, B])
    assert {A: 2, B: 4} == opened(folder).positions([A, B])


def test_a_file_that_is_there_already_is_left_and_told_in_words(folder: Path) -> None:
    sink = opened(folder)
    commit(sink, {A: None}, staged(sink, OffsetRange(A, 0, 1), 0))
    strange = folder / names(folder)[0].replace("0-00000000000000000001", "1-00000000000000000002")
    strange.write_bytes(b"kept")

    sink.prepare([staged(sink, OffsetRange(A, 1, 2), 1)], {A: 1})
    with pytest.raises(PositionsMoved, match="already has a file of these offsets") as told:
        sink.commit()

    assert (b"kept", True) == (strange.read_bytes(), strange.name in str(told.value))
    assert {A: 2} == opened(folder).positions([A])


@pytest.mark.parametrize("damage", [Path.unlink, lambda path: path.write_bytes(b"{")])
def test_without_the_note_of_the_newest_files_the_folder_is_looked_through(
    folder: Path, damage: Callable[[Path], object]
) -> None:
    sink = opened(folder)
    for number in range(3):
        commit(sink, {A: number or None}, staged(sink, OffsetRange(A, number, number + 1), number))
    commit(sink, {B: None}, staged(sink, OffsetRange(B, 0, 4)))

    damage(folder / ".newest.json")

    assert {A: 3, B: 4} == sink.positions([A, B])
    commit(sink, {A: 3, B: 4}, staged(sink, OffsetRange(A, 3, 7)), staged(sink, OffsetRange(B, 4, 5), 9))
    assert ({A: 7, B: 5}, [0, 1, 2, 9]) == (sink.positions([A, B]), ids(folder))


def test_files_that_somebody_removes_are_no_positions_any_more(folder: Path) -> None:
    sink = opened(folder)
    for number in range(3):
        commit(sink, {A: number or None}, staged(sink, OffsetRange(A, number, number + 1), number))
    files = sorted(folder.glob("orders*"))

    files[0].unlink()
    without_the_oldest = sink.positions([A])
    files[2].unlink()
    without_the_newest = sink.positions([A])
    files[1].unlink()

    assert ({A: 3}, {A: 2}, {}) == (without_the_oldest, without_the_newest, sink.positions([A]))


def test_the_folder_of_another_pipeline_is_refused_once_it_has_files(folder: Path) -> None:
    commit(opened(folder), {A: None})
    other = opened(folder, "levels")
    commit(other, {A: None}, staged(other, OffsetRange(A, 0, 2), 0, 1))

    with pytest.raises(Conflict, match="has the files of pipeline 'levels'"):
        opened(folder)
    (folder / ".newest.json").unlink()  # as the error says, for a pipeline that is called otherwise now

    assert {A: 2} == opened(folder).positions([A])
