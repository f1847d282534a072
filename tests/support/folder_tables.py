"""Sinks whose table is a folder, Delta's and Iceberg's, and readers that know nothing of positions."""

from pathlib import Path
from typing import Any

from deltalake import DeltaTable

from penstock.sinks.delta import Delta, DeltaSink
from penstock.sinks.iceberg import Iceberg, IcebergSink

from support.iceberg_tables import iceberg_rows

KINDS = ["delta", "iceberg"]


def sink_of(kind: str, path: Path, *key: str, name: str = "mirror") -> DeltaSink | IcebergSink:
    if kind == "delta":
        return DeltaSink(Delta(path=path, key=list(key)), name, "orders")
    return IcebergSink(Iceberg(path=path, key=list(key)), name, "orders")


def rows_of(kind: str, path: Path) -> list[dict[str, Any]]:
    """Read a table with a reader that knows nothing of positions."""
    if kind == "iceberg":
        return iceberg_rows(path)
    found: list[dict[str, Any]] = DeltaTable(str(path)).to_pyarrow_table().to_pylist()
    return found
