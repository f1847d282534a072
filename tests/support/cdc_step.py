"""Changes sent through the step `cdc`, as a task does it, and the rows that come out."""

from pathlib import Path
from typing import Any

import pyarrow as pa

from penstock.record.columns import HEADERS
from penstock.steps.cdc import Cdc
from penstock.steps.step import StepContext

from support.events import batch

SCHEMA = "id bigint NOT NULL, name string"
INT = {"type": "int64", "field": "id"}
"""What a record says of the column `id`."""


def run(
    *values: bytes | None,
    schema: str = SCHEMA,
    cdc: str = "state",
    keys: list[bytes | None] | None = None,
    headers: list[dict[str, Any]] | None = None,
    failed: tuple[int, ...] = (),
) -> list[dict[str, Any]]:
    """Send values through the step; give the rows in the order of their offsets."""
    task = Cdc.model_validate({"cdc": cdc, "schema": schema}).open(StepContext(pa.schema([]), Path(), Path()))
    given = batch("value binary", [(each,) for each in values], failed)
    for name, column in {"_value": values, "_key": keys or [b"k"] * len(values)}.items():
        given = given.set_column(given.schema.get_field_index(name), name, pa.array(column, pa.binary()))
    at = given.schema.get_field_index("_headers")
    given = given.set_column(at, given.schema.field(at), pa.array([headers or []] * len(values), HEADERS))
    out = pa.Table.from_batches(task(iter([given]), 0), task.schema)
    out.validate(full=True)
    return sorted(out.to_pylist(maps_as_pydicts="strict"), key=lambda row: int(row["_offset"]))


def table(rows: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    return [tuple(value for name, value in row.items() if not name.startswith("_")) for row in rows]
