"""Results of stateful pipelines in an Iceberg table, read back by DuckDB: merged by key, together with the position."""

import datetime
import math
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
import pytest

from penstock.errors import Conflict, PipelineHalted, PositionLost, PositionsMoved, SinkUnavailable
from penstock.record.schema import parse
from penstock.sinks import iceberg_commit
from penstock.sinks.iceberg import Iceberg
from penstock.sinks.merging import MergeContext, MergingSink

from support.iceberg_driver import loaded
from support.iceberg_tables import iceberg_rows

SCHEMA = parse("k bigint, n bigint")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "tables" / "results"


def opened(path: Path, **options: Any) -> MergingSink:
    return Iceberg.model_validate({"path": path, "key": ["k"], **options}).open_merge(MergeContext("iceberg", "podium"))


def results(schema: pa.Schema, rows: list[dict[str, Any]]) -> ds.Dataset:
    return ds.dataset(pa.Table.from_pylist(rows, schema))


def merge(
    path: Path, rows: list[dict[str, Any]], position: int | None, schema: pa.Schema = SCHEMA, **options: Any
) -> None:
    """Merge as a driver does that was started for this batch."""
    sink = opened(path, **options)
    try:
        assert position == sink.position()
        sink.merge(results(schema, rows), position, (position or 0) + 1)
    finally:
        sink.close()


def merged(path: Path) -> list[dict[str, Any]]:
    return sorted(iceberg_rows(path), key=lambda row: (row["k"] is None, row["k"]))


def test_rows_are_merged_by_all_columns_of_the_key_also_where_one_is_null(path: Path) -> None:
    schema, key = parse("game string, user string, points int"), ["game", "user"]
    first = [("g1", "ada", 1), ("g1", None, 2), ("g2", "ada", 3)]
    second = [("g1", "ada", 9), ("g1", None, 20), ("g2", "bob", 4), ("g1", "ada", 10)]

    for position, rows in enumerate([first, second]):
        merge(path, [dict(zip(schema.names, row, strict=True)) for row in rows], position or None, schema, key=key)

    expected = {("g1", "ada", 10), ("g1", None, 20), ("g2", "ada", 3), ("g2", "bob", 4)}
    found = iceberg_rows(path)
    assert expected == {(row["game"], row["user"], row["points"]) for row in found}
    assert len(expected) == len(found)
    assert 2 == opened(path).position()


def test_keys_of_every_comparable_type_are_found_again(path: Path) -> None:
    moment = datetime.datetime(2026, 1, 31, 12, tzinfo=datetime.UTC)
    values: dict[str, list[Any]] = {
        "double": [math.nan, 0.5],
        "decimal(10,2)": [Decimal("1.10"), Decimal("2.20")],
        "timestamp": [moment, moment.replace(year=1969)],
        "date": [moment.date()],
        "boolean": [True, False],
        "binary": [b"", b"\xff"],
        "string": ["", "é" * 40],
    }
    for number, (kind, keys) in enumerate(values.items()):
        table, schema = path.with_name(f"results{number}"), parse(f"k {kind}, n int")
        for position in range(2):
            merge(table, [{"k": key, "n": position} for key in [*keys, None]], position or None, schema)

        assert [1] * (len(keys) + 1) == [row["n"] for row in iceberg_rows(table)], kind


def test_a_batch_without_results_moves_the_position_alone(path: Path) -> None:
    merge(path, [{"k": 1, "n": 1}], None)
    merge(path, [], 1)

    assert ([{"k": 1, "n": 1}], 2) == (merged(path), opened(path).position())


@pytest.mark.parametrize("expected", [None, 7])
def test_results_of_a_driver_that_another_has_overtaken_are_refused(path: Path, expected: int | None) -> None:
    merge(path, [{"k": 1, "n": 1}], None)

    with pytest.raises(PositionsMoved, match="another driver has written to sink 'iceberg'"):
        opened(path).merge(results(SCHEMA, [{"k": 1, "n": 2}]), expected, 8)

    assert ([{"k": 1, "n": 1}], 1) == (merged(path), opened(path).position())


@pytest.mark.parametrize(
    ("ours", "row", "reason"),
    [
        ("k bigint, n double", {"n": 2.75}, "has the column n int64, and the pipeline writes n"),
        ("k bigint, n string", {"n": "2"}, "has the column n int64, and the pipeline writes n"),
        ("k bigint", {}, "has the column 'n', which the pipeline does not write"),
        ("n bigint", {}, "has the key column 'k', which the pipeline does not make"),
        ("k array<bigint>, n bigint", {}, r"key column 'k' of type list<.*rows cannot be told apart by lists"),
    ],
)
def test_results_of_other_columns_are_refused_before_a_batch_and_in_it_and_nothing_is_merged(
    path: Path, ours: str, row: dict[str, Any], reason: str
) -> None:
    merge(path, [{"k": 1, "n": 1}], None)
    schema = parse(ours)

    with pytest.raises(Conflict, match=reason):
        opened(path).require_fitting(schema)
    with pytest.raises(Conflict, match=reason):
        opened(path).merge(results(schema, [row]), 1, 2)

    assert ([{"k": 1, "n": 1}], 1) == (merged(path), opened(path).position())


def test_columns_are_added_and_widened_in_the_commit_of_the_first_results_that_need_it(path: Path) -> None:
    merge(path, [{"k": 1, "n": 1}, {"k": 2, "n": 2}], None, parse("k int, n int"))
    now = parse("at array<date>, k int, n bigint, x string")
    said = str(opened(path).require_fitting(now))

    merge(path, [], 1, now)
    before = loaded(path).schema().column_names
    merge(path, [{"k": 2, "n": 2**40, "x": "new", "at": []}, {"k": 3, "n": 6, "x": None}], 2, now)

    assert ["k", "n"] == before
    assert "the column x string will be added, the column n int32 will become int64" in said
    assert [
        {"k": 1, "n": 1, "x": None, "at": None},
        {"k": 2, "n": 2**40, "x": "new", "at": []},
        {"k": 3, "n": 6, "x": None, "at": None},
    ] == merged(path)
    assert 3 == len(loaded(path).snapshots())


def test_results_go_to_their_partitions_also_when_they_move(path: Path) -> None:
    schema, options = parse("k bigint, n bigint, shop string"), {"partition_by": ["shop"]}
    merge(path, [{"k": 1, "n": 1, "shop": "a"}, {"k": 2, "n": 2, "shop": None}], None, schema, **options)
    merge(path, [{"k": 1, "n": 3, "shop": ""}], 1, schema, **options)

    assert [(1, 3, ""), (2, 2, None)] == [(row["k"], row["n"], row["shop"]) for row in merged(path)]


def test_what_others_write_meanwhile_stays_and_gives_way_to_results_of_its_key(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    merge(path, [{"k": 1, "n": 1}], None)
    commit = iceberg_commit.Change.commit

    def overtaken(change: Any) -> Any:
        monkeypatch.setattr(iceberg_commit.Change, "commit", commit)
        loaded(path).append(pa.table({"k": [2, 3], "n": [0, 0]}, SCHEMA))
        return commit(change)

    monkeypatch.setattr(iceberg_commit.Change, "commit", overtaken)
    merge(path, [{"k": 1, "n": 5}, {"k": 2, "n": 5}], 1)

    assert [{"k": 1, "n": 5}, {"k": 2, "n": 5}, {"k": 3, "n": 0}] == merged(path)
    assert 2 == opened(path).position()


def test_a_commit_without_an_answer_is_looked_for_and_its_files_go_if_it_did_not_get_through(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    merge(path, [{"k": 1, "n": 1}], None)

    def unanswered(_: Any) -> Any:
        raise SinkUnavailable("no answer")

    with monkeypatch.context() as patch:
        patch.setattr(iceberg_commit.Change, "commit", unanswered)
        with pytest.raises(SinkUnavailable):
            merge(path, [{"k": 1, "n": 2}], 1)
    left = len(list(path.glob("data/*")))
    merge(path, [{"k": 1, "n": 3}], 1)

    named = {task.file.file_path.removeprefix("file://") for task in loaded(path).scan().plan_files()}
    older = {str(each) for each in path.glob("data/*")} - named
    assert ([{"k": 1, "n": 3}], 2) == (merged(path), opened(path).position())
    assert (2, 1) == (left, len(older)), "the file of the snapshot before, and nothing of the commit that was lost"
    assert [] == [each for each in path.glob(".staging/*") if each.is_dir()]


def test_positions_stay_when_snapshots_are_expired_and_go_back_with_a_rollback(path: Path) -> None:
    for position in range(3):
        merge(path, [{"k": 1, "n": position}], position or None)
    second = loaded(path).snapshots()[1].snapshot_id
    loaded(path).manage_snapshots().rollback_to_snapshot(second).commit()
    rolled_back = opened(path).position()
    for each in [each.snapshot_id for each in loaded(path).snapshots() if each.snapshot_id != second]:
        loaded(path).maintenance.expire_snapshots().by_id(each).commit()

    assert (2, 2) == (rolled_back, opened(path).position())
    assert [{"k": 1, "n": 1}] == merged(path)


def test_a_table_that_is_dropped_between_two_batches_is_noticed(path: Path) -> None:
    sink = opened(path)
    sink.merge(results(SCHEMA, [{"k": 1, "n": 1}]), None, 1)
    loaded(path).catalog.drop_table("default.results")

    with pytest.raises(PositionLost, match="was dropped or replaced while the pipeline ran"):
        sink.merge(results(SCHEMA, [{"k": 1, "n": 2}]), 1, 2)
    sink.close()


def test_text_that_is_none_stops_the_pipeline_and_nothing_is_merged(path: Path) -> None:
    merge(path, [{"k": 1, "n": "a"}], None, parse("k bigint, n string"))
    broken = pa.table({"k": pa.array([1], pa.int64()), "n": pa.array([b"\xff"]).view(pa.string())})

    with pytest.raises(PipelineHalted, match="cannot take a row of the results"):
        opened(path).merge(ds.dataset(broken), 1, 2)

    assert ([{"k": 1, "n": "a"}], 1) == (merged(path), opened(path).position())


def test_small_files_of_results_are_joined_and_the_position_stays(path: Path) -> None:
    for position in range(4):
        merge(path, [{"k": position, "n": 1}], position or None, compact={"every": "3 batches"})

    assert [0, 1, 2, 3] == [row["k"] for row in merged(path)]
    assert 4 == opened(path).position()
    assert 2 == len(list(loaded(path).scan().plan_files()))
