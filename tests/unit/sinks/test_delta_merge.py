"""Results of stateful pipelines in a Delta table: merged by key, together with the position."""

from pathlib import Path

import pyarrow as pa
import pyarrow.dataset as ds
from deltalake import DeltaTable

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
