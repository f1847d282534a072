"""Reading Iceberg tables with DuckDB, which did not write them and knows nothing of positions."""

import functools
import importlib
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any


@functools.cache
def reader() -> Any:
    """Open DuckDB with the extensions that its packages bring, from where they are: nothing is downloaded."""
    import duckdb

    connection = duckdb.connect(config={"autoinstall_known_extensions": False, "autoload_known_extensions": False})
    for name in ("avro", "httpfs", "iceberg"):
        package = Path(importlib.import_module(f"duckdb_extension_{name}").__path__[0])
        connection.execute(f"LOAD '{next(package.rglob('*.duckdb_extension'))}'")
    return connection


def newest_metadata(path: Path) -> str | None:
    """Ask the SQLite catalog beside a table's folder for its metadata; None if it names none that are there."""
    catalog = path.parent / "iceberg.db"
    if not catalog.exists():
        return None
    with closing(sqlite3.connect(catalog)) as connection:
        rows = connection.execute("SELECT metadata_location FROM iceberg_tables WHERE table_name = ?", (path.name,))
        found = rows.fetchone()
    return found[0] if found and Path(found[0].removeprefix("file://")).exists() else None


def iceberg_rows(path: Path, columns: str = "*") -> list[dict[str, Any]]:
    """Return all rows of the table in this folder; none if it is not there."""
    metadata = newest_metadata(path)
    if metadata is None:
        return []
    query = f"SELECT {columns} FROM iceberg_scan(?)"  # noqa: S608 - our own columns
    found: list[dict[str, Any]] = reader().cursor().execute(query, [metadata]).to_arrow_table().to_pylist()
    return found
