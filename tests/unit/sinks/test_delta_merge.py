"""Results of stateful pipelines in a Delta table: merged by key, together with the position."""

import math
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
import pytest
from deltalake import DeltaTable

from penstock.errors import Conflict
from penstock.record.schema import parse
from penstock.sinks.delta import Delta
from penstock.sinks.merging import MergeContext, newest


def rows(*listed: tuple[str, str | None, int]) -> ds.Dataset:
    columns = list(zip(*listed, strict=True))
    return ds.dataset(pa.table({"game": columns[0], "user": columns[1], "points": columns[2]}))


def test_rows_are_merged_by_all_columns_of_the_key_also_where_one_is_null(tmp_path: Path) -> None:
    sink = Delta(path=tmp_path / "table", key=["game", "user"]).open_merge(MergeContext("delta", "podium"))

    sink.merge(rows(("g1", "ada", 1), ("g1", None, 2), ("g2", "ada", 3)), None, 1)
    sink.merge(rows(("g1", "ada", 10), ("g1", None, 20), ("g2", "bob", 4)), 1, 2)

    found = DeltaTable(str(tmp_path / "table")).to_pyarrow_table().to_pylist()
    expected = {("g1", "ada", 10), ("g1", None, 20), ("g2", "ada", 3), ("g2", "bob", 4)}
    assert expected == {(row["game"], row["user"], row["points"]) for row in found}
    assert len(expected) == len(found)
    assert 2 == sink.position()


def test_of_a_key_that_changed_several_times_the_last_row_stays_whatever_piece_it_is_in() -> None:
    pieces = [pa.table({"k": ["a", "b", None], "v": [1, 2, 3]}), pa.table({"k": ["b", None, "c"], "v": [4, 5, 6]})]
    changes = ds.dataset([ds.dataset(each) for each in pieces])

    kept = newest(changes, ["k"])

    assert [("a", 1), ("b", 4), (None, 5), ("c", 6)] == [(row["k"], row["v"]) for row in kept.read_all().to_pylist()]


@pytest.mark.parametrize("name", ["a.b", ".", "..", ".a", "[0]", "row", "_row", "0", 'a"b', "a b", "ü"])
def test_a_key_may_have_any_name(tmp_path: Path, name: str) -> None:
    columns = {"a": pa.array([{"b": 7}] * 3), name: ["k", "l", "k"], "v": [1, 2, 3]}
    changes = ds.dataset(pa.table(columns))
    sink = Delta(path=tmp_path / "table", key=[name]).open_merge(MergeContext("delta", "podium"))

    kept = newest(changes, [name])
    sink.merge(changes, None, 1)
    sink.merge(changes, 1, 2)

    assert [("l", 2), ("k", 3)] == [(row[name], row["v"]) for row in kept.read_all().to_pylist()]
    found = DeltaTable(str(tmp_path / "table")).to_pyarrow_table().to_pylist()
    assert {("l", 2), ("k", 3)} == {(row[name], row["v"]) for row in found}
    assert 2 == len(found)


def test_ways_to_write_one_number_are_one_key_also_in_what_is_kept() -> None:
    changes = ds.dataset(pa.table({"k": [-0.0, math.nan, 0.0, -0.0], "v": [1, 2, 3, 4]}))

    kept = newest(changes, ["k"]).read_all().to_pylist()

    assert [("nan", 2), ("0.0", 4)] == [(str(row["k"]), row["v"]) for row in kept]


def merge(path: Path, schema: pa.Schema, rows: list[dict[str, Any]], position: int | None, **options: Any) -> None:
    spec = Delta.model_validate({"path": path, "key": ["k"], **options})
    dataset = ds.dataset(pa.Table.from_pylist(rows, schema))
    spec.open_merge(MergeContext("delta", "podium")).merge(dataset, position, (position or 0) + 1)


def merged(path: Path) -> list[dict[str, Any]]:
    return sorted(DeltaTable(str(path)).to_pyarrow_table().to_pylist(), key=lambda row: int(row["k"]))


@pytest.mark.parametrize(
    ("there", "ours", "row", "reason"),
    [
        ("k bigint, n bigint", "k bigint, n double", {"n": 2.75}, "has the column n int64, and the pipeline writes n"),
        ("k bigint, n int", "k bigint, n bigint", {"n": 2**40}, "has the column n int32, and the pipeline writes n"),
        ("k bigint, n string", "k bigint, n bigint", {"n": 2}, "has the column n string, and the pipeline writes n"),
        ("k bigint, n bigint", "k bigint", {}, "has the column 'n', which the pipeline does not write"),
    ],
)
def test_results_of_other_columns_are_refused_and_nothing_is_merged(
    tmp_path: Path, there: str, ours: str, row: dict[str, Any], reason: str
) -> None:
    merge(tmp_path, parse(there), [{"k": 1}], None)
    before = merged(tmp_path)

    with pytest.raises(Conflict, match=reason):
        merge(tmp_path, parse(ours), [{"k": 2, **row}], 1)

    assert before == merged(tmp_path)
    assert 1 == Delta(path=tmp_path, key=["k"]).open_merge(MergeContext("delta", "podium")).position()


def test_nulls_inside_of_a_list_that_takes_none_are_refused(tmp_path: Path) -> None:
    strict = pa.list_(pa.field("element", pa.int64(), nullable=False))
    merge(tmp_path, pa.schema([("k", pa.int64()), ("n", strict)]), [{"k": 1, "n": [1]}], None)

    with pytest.raises(Conflict, match="has the column n list<element: int64 not null>"):
        merge(tmp_path, pa.schema([("k", pa.int64()), ("n", pa.list_(pa.int64()))]), [{"k": 1, "n": [None]}], 1)

    assert [{"k": 1, "n": [1]}] == merged(tmp_path)


def test_a_new_column_comes_in_the_commit_of_the_first_results_that_have_it(tmp_path: Path) -> None:
    merge(tmp_path, parse("k bigint, n bigint"), [{"k": 1, "n": 1}, {"k": 2, "n": 2}], None)
    before, now = DeltaTable(str(tmp_path)).version(), parse("at array<date>, k bigint, n int, x string")

    merge(tmp_path, now, [], 1)
    columns_before = [field.name for field in DeltaTable(str(tmp_path)).schema().fields]
    merge(tmp_path, now, [{"k": 2, "n": 5, "x": "new", "at": []}, {"k": 3, "n": 6, "x": None}], 2)

    assert ["k", "n"] == columns_before
    assert [
        {"k": 1, "n": 1, "x": None, "at": None},
        {"k": 2, "n": 5, "x": "new", "at": []},
        {"k": 3, "n": 6, "x": None, "at": None},
    ] == merged(tmp_path)
    assert before + 2 == DeltaTable(str(tmp_path)).version()


def test_a_new_column_of_results_can_be_refused(tmp_path: Path) -> None:
    merge(tmp_path, parse("k bigint"), [{"k": 1}], None)

    with pytest.raises(Conflict, match="does not have the column 'x', and `new_columns` is `refuse`"):
        merge(tmp_path, parse("k bigint, x string"), [{"k": 1, "x": "new"}], 1, new_columns="refuse")

    assert [{"k": 1}] == merged(tmp_path)


@pytest.mark.parametrize(
    ("there", "ours", "value"),
    [
        (pa.int64(), pa.int32(), 7),
        (pa.float64(), pa.float32(), 0.5),
        (pa.decimal128(12, 4), pa.decimal128(10, 2), 3),
        (pa.list_(pa.int64()), pa.list_(pa.field("element", pa.int64(), nullable=False)), [1]),
        (
            pa.struct([("a", pa.list_(pa.int64()))]),
            pa.struct([pa.field("a", pa.list_(pa.int64()), nullable=False)]),
            {"a": [1]},
        ),
        (
            pa.map_(pa.string(), pa.int64()),
            pa.map_(pa.string(), pa.field("value", pa.int64(), nullable=False)),
            [("a", 1)],
        ),
    ],
    ids=str,
)
def test_results_of_a_narrower_type_are_merged_as_the_table_s_own(
    tmp_path: Path, there: pa.DataType, ours: pa.DataType, value: object
) -> None:
    made = pa.schema([("k", pa.int64()), ("n", there)])
    merge(tmp_path, made, [{"k": 1}], None)

    merge(tmp_path, pa.schema([("k", pa.int32()), ("n", ours)]), [{"k": 1, "n": value}, {"k": 2}], 1)

    assert [{"k": 1, "n": value}, {"k": 2, "n": None}] == merged(tmp_path)
    assert made == pa.schema(DeltaTable(str(tmp_path)).schema().to_arrow())


@pytest.mark.parametrize("odd", ["", "__HIVE_DEFAULT_PARTITION__", "x" * 300], ids=["empty", "null's own", "long"])
def test_a_result_that_has_no_partition_of_its_own_is_refused(tmp_path: Path, odd: str) -> None:
    schema = parse("k bigint, shop string")
    DeltaTable.create(str(tmp_path), schema, partition_by=["shop"])
    merge(tmp_path, schema, [{"k": 1, "shop": "a"}, {"k": 2, "shop": None}], None)

    with pytest.raises(Conflict, match=r"partition column 'shop'.* Nothing of this batch was written"):
        merge(tmp_path, schema, [{"k": 3, "shop": odd}], 1)
    assert [{"k": 1, "shop": "a"}, {"k": 2, "shop": None}] == merged(tmp_path)
