"""DuckDB, which did not write it, reads the same rows of a partitioned table with a column that came later."""

from pathlib import Path

import pyarrow as pa
from deltalake import DeltaTable

from support.delta_tables import COLUMNS, NAMES, rows_by_duckdb, write_hostile


def listed(rows: pa.Table) -> list[str]:
    """Return rows that can be compared, NaN included."""
    at = rows.column("at").cast(pa.timestamp("us", "UTC")).cast(pa.int64())
    plain = rows.set_column(rows.schema.get_field_index("at"), "at", at)
    return sorted(str(tuple(row[name] for name in COLUMNS)) for row in plain.to_pylist())


def test_duckdb_reads_the_same_rows_and_passes_over_none(tmp_path: Path) -> None:
    write_hostile(tmp_path)

    assert listed(DeltaTable(str(tmp_path)).to_pyarrow_table()) == listed(rows_by_duckdb(tmp_path))
    for number, name in enumerate(NAMES):
        condition = "a IS NULL" if name is None else "a = '{}'".format(name.replace("'", "''"))
        found = rows_by_duckdb(tmp_path, condition).column("n").to_pylist()
        assert [number, 100 + number] == sorted(found), name
    assert [3] == rows_by_duckdb(tmp_path, "price > 1000").column("n").to_pylist()
    assert [3] == rows_by_duckdb(tmp_path, "price > 1000 AND at_hour = '2026-01-31-23'").column("n").to_pylist()
