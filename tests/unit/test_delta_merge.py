"""Results of stateful pipelines in a Delta table: merged by key, together with the position."""

from pathlib import Path

import pyarrow as pa
from deltalake import DeltaTable

from penstock.sinks.delta import Delta
from penstock.sinks.merging import DeltaMerge


def rows(*listed: tuple[str, str | None, int]) -> pa.Table:
    columns = list(zip(*listed, strict=True))
    return pa.table({"game": columns[0], "user": columns[1], "points": columns[2]})


def test_rows_are_merged_by_all_columns_of_the_key_also_where_one_is_null(tmp_path: Path) -> None:
    sink = DeltaMerge(Delta(path=tmp_path / "table", key=["game", "user"]), "delta", "podium")

    sink.merge(rows(("g1", "ada", 1), ("g1", None, 2), ("g2", "ada", 3)), None, 1)
    sink.merge(rows(("g1", "ada", 10), ("g1", None, 20), ("g2", "bob", 4)), 1, 2)

    found = DeltaTable(str(tmp_path / "table")).to_pyarrow_table().to_pylist()
    expected = {("g1", "ada", 10), ("g1", None, 20), ("g2", "ada", 3), ("g2", "bob", 4)}
    assert expected == {(row["game"], row["user"], row["points"]) for row in found}
    assert len(expected) == len(found)
    assert 2 == sink.position()
