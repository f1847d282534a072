import os
import re
from pathlib import Path

import pytest

from penstock.delivery import gaps
from penstock.delivery.gaps import Gap
from penstock.driver.paths import PipelinePaths
from penstock.errors import Conflict
from penstock.kafka.connection import Connection
from penstock.operate import repair
from penstock.pipeline.spec import PipelineSpec
from penstock.record.positions import SourcePartition

FIRST = Gap(
    at="2026-01-31T12:00:00+00:00",
    pipeline="combat",
    topic="orders",
    topic_id="id-1",
    partition=0,
    start=5,
    end=9,
    reason="retention",
    by="skip-gap",
)
SECOND = FIRST.model_copy(update={"partition": 1, "end": None, "reason": "topic recreated", "topic": "ünï\n😀"})

THIRD = FIRST.model_copy(update={"start": 9, "end": 12})


def test_nothing_was_skipped_where_nothing_is_recorded(tmp_path: Path) -> None:
    assert [] == gaps.read(tmp_path / "none")


def test_what_is_recorded_is_read_back_in_order(tmp_path: Path) -> None:
    gaps.record(tmp_path / "new", [FIRST, SECOND])
    gaps.record(tmp_path / "new", [])
    gaps.record(tmp_path / "new", [THIRD])

    assert [FIRST, SECOND, THIRD] == gaps.read(tmp_path / "new")


def test_a_gap_that_a_command_had_recorded_before_it_died_is_not_recorded_again(tmp_path: Path) -> None:
    gaps.record(tmp_path, [FIRST, SECOND])
    gaps.record(tmp_path, [FIRST.model_copy(update={"at": "2026-01-31T12:05:00+00:00"}), SECOND, THIRD])

    assert [FIRST, SECOND, THIRD] == gaps.read(tmp_path)


@pytest.mark.parametrize(
    ("offsets", "added"),
    [
        ((5, 12), [(9, 12)]),
        ((3, 7), [(3, 5)]),
        ((6, 8), []),
        ((0, 30), [(0, 5), (9, 20), (21, 30)]),
        ((0, None), [(0, 5), (9, 20), (21, None)]),
    ],
)
def test_where_retention_has_moved_between_two_tries_each_offset_is_recorded_once(
    tmp_path: Path, offsets: tuple[int, int | None], added: list[tuple[int, int | None]]
) -> None:
    lone = FIRST.model_copy(update={"start": 20, "end": 21, "by": "skip"})
    gaps.record(tmp_path, [FIRST, lone])

    gaps.record(tmp_path, [FIRST.model_copy(update={"start": offsets[0], "end": offsets[1]})])

    assert [(5, 9), (20, 21), *added] == [(gap.start, gap.end) for gap in gaps.read(tmp_path)]


def test_only_what_somebody_gave_up_is_never_read_whatever_else_is_recorded(tmp_path: Path) -> None:
    found = FIRST.model_copy(update={"end": 30, "reason": "topic deleted", "by": "driver"})
    lone = FIRST.model_copy(update={"start": 20, "end": 21, "reason": "topic deleted", "by": "skip"})
    left = SECOND.model_copy(update={"end": 7, "by": "rebuild"})

    gaps.record(tmp_path, [found, left])
    gaps.record(tmp_path, [lone, FIRST])

    assert {("id-1", 0): [(20, 21), (5, 9)]} == gaps.ranges(tmp_path)


def test_the_record_is_on_the_disk_before_anything_moves_past_the_gap(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes: list[int] = []
    really = os.fsync

    def watched(descriptor: int) -> None:
        sizes.append(os.fstat(descriptor).st_size)
        really(descriptor)

    monkeypatch.setattr(os, "fsync", watched)
    gaps.record(tmp_path, [FIRST])

    assert (tmp_path / "gaps.jsonl").stat().st_size in sizes


def test_a_line_that_a_crash_cut_short_hides_no_other(tmp_path: Path) -> None:
    gaps.record(tmp_path, [FIRST, SECOND])
    path = tmp_path / "gaps.jsonl"
    path.write_bytes(path.read_bytes()[:-20])

    gaps.record(tmp_path, [SECOND])

    assert [FIRST, SECOND] == gaps.read(tmp_path)


def test_the_time_has_seconds_and_a_zone() -> None:
    assert re.fullmatch(
        r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\+00:00", Gap.of("p", SourcePartition("t", "id", 0), (0, 1), "why", "skip").at
    )


def test_a_record_of_a_pipeline_that_never_ran_is_not_skipped_and_the_way_on_is_to_run_it(tmp_path: Path) -> None:
    parts = {"source": {"topics": ["orders"]}, "decode": {"type": "raw"}, "sinks": [{"type": "console"}]}
    spec = PipelineSpec.model_validate({"name": "combat", **parts})

    with pytest.raises(Conflict, match=r"it has not begun, or lost it\. Nothing was changed\. Run it") as caught:
        repair.skip(spec, Connection(bootstrap_servers="127.0.0.1:1"), PipelinePaths(tmp_path), "orders:0:1", "why")

    assert "rebuild" not in str(caught.value)
    assert [] == gaps.read(tmp_path)
