"""A partitioned Delta table with a column that came later: Spark reads what delta-rs reads, and passes over no row."""

from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from support.delta_tables import COLUMNS, NAMES, write_hostile

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def listed(rows: pa.Table) -> list[str]:
    """Return rows that can be compared, NaN included."""
    at = rows.column("at").cast(pa.int64())
    plain = rows.set_column(rows.schema.get_field_index("at"), "at", at)
    return sorted(str(tuple(row[name] for name in COLUMNS)) for row in plain.to_pylist())


@pytest.mark.soak
def test_spark_reads_every_partition_and_every_value_as_it_was(spark: "SparkSession", tmp_path: Path) -> None:
    write_hostile(tmp_path / "t")
    table = spark.read.format("delta").load(str(tmp_path / "t"))

    def found(where: str) -> list[int]:
        return sorted(row.n for row in table.where(where).select("n").collect())

    by_delta_rs = DeltaTable(str(tmp_path / "t")).to_pyarrow_table()
    assert listed(by_delta_rs) == listed(table.toArrow())
    for name, condition in {"a%2Fb": "a = 'a%2Fb'", "ü€😀": "a = 'ü€😀'", None: "a IS NULL"}.items():
        assert [NAMES.index(name), 100 + NAMES.index(name)] == found(condition)
    numbers = range(len(NAMES))
    assert [*(each for each in numbers if each % 2), *(100 + each for each in numbers)] == found(
        "at_hour = '2026-01-31-23'"
    )
    # Statistics decide which files are read: neither the NaN nor the microsecond may be passed over for them.
    assert [3] == found("price > 1000")
    assert [1] == found("at = TIMESTAMP '2026-01-31 23:59:59.000001 UTC' AND n = 1")
    assert [] == found("city = 'Ulm'")
