"""Delta tables that are hard on their readers: odd partitions, a column that came later, values at the edges."""

import datetime
import functools
import importlib
from pathlib import Path
from typing import Any

import pyarrow as pa

from penstock.record.positions import OffsetRange, SourcePartition
from penstock.record.schema import parse
from penstock.sinks.delta import Delta, DeltaSink
from penstock.sinks.sink import Staged

TP = SourcePartition("orders", "Ab-_9", 0)
AT = datetime.datetime(2026, 1, 31, 23, 59, 59, 1, tzinfo=datetime.UTC)
NAMES: list[str | None] = [
    "a/b",
    "..",
    "a=b",
    "a%2Fb",
    "a b",
    "ü€😀",
    "null",
    "'",
    "\\",
    "a:b?c#d",
    "%",
    " ",
    "x" * 200,
    None,
]
COLUMNS = ["n", "a", "at", "at_hour", "price", "city"]
_BEFORE = "a string, at timestamp, price double, n int"


def write_hostile(path: Path) -> None:
    """Write a row for each name, and as many again with a column that the first have not; compact what is there."""
    first = [
        {
            "a": name,
            "at": AT if number % 2 else None,
            "price": float("nan") if number == 3 else float(number),
            "n": number,
        }
        for number, name in enumerate(NAMES)
    ]
    _write(path, _BEFORE, first, 0)
    second = [{**row, "at": AT, "price": 1.0, "n": 100 + number, "city": "Köln"} for number, row in enumerate(first)]
    _write(path, f"{_BEFORE}, city string", second[:3], len(first))
    _write(path, f"{_BEFORE}, city string", second[3:], len(first) + 3)


def _write(path: Path, columns: str, rows: list[dict[str, Any]], start: int) -> None:
    spec = {"path": path, "partition_by": ["a", "hours(at)"], "coordinates": False, "compact": {"every": 2}}
    sink = DeltaSink(Delta.model_validate(spec), "delta", "orders")
    sink.open(parse(columns))
    offset_range = OffsetRange(TP, start, start + len(rows))
    stager = sink.stager()(offset_range)
    assert [] == stager.write(pa.RecordBatch.from_pylist(rows, parse(columns)), pa.array(range(len(rows))))
    sink.prepare([Staged(offset_range, len(rows), stager.finish())], {TP: start or None})
    sink.commit()
    sink.maintain()
    sink.close()


@functools.cache
def _duckdb() -> Any:
    """Open DuckDB with the extension that its package brings, from where it is: nothing is downloaded."""
    import duckdb

    connection = duckdb.connect(config={"autoinstall_known_extensions": False, "autoload_known_extensions": False})
    package = Path(importlib.import_module("duckdb_extension_delta").__path__[0])
    connection.execute(f"LOAD '{next(package.rglob('*.duckdb_extension'))}'")
    return connection


def rows_by_duckdb(path: Path, where: str = "true") -> pa.Table:
    """Return rows of a table, read by an engine that did not write it."""
    query = f"SELECT * FROM delta_scan(?) WHERE {where}"  # noqa: S608 - our own conditions
    return _duckdb().cursor().execute(query, [str(path)]).to_arrow_table()
