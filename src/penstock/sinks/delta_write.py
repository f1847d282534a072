"""The ways in which staged files get into a Delta table, each in one commit on the snapshot that `table` is at.

Files are made part of the log as they are, if they can be. Columns are added, and rows taken out, only by the library,
which writes the rows again for that.
"""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Literal

import orjson
import pyarrow as pa
import pyarrow.parquet as pq

from penstock.record.positions import OffsetRange
from penstock.sinks.delta_stats import library_settings


def append(table: Any, files: Iterable[dict[str, Any]], partitions: list[str], properties: Any, now_ms: int) -> None:
    """Make files part of the table that lie in its folder; without any, the commit moves positions alone."""
    from deltalake.transaction import AddAction

    added = [
        AddAction(place(file), file["bytes"], file["values"], now_ms, True, orjson.dumps(file["stats"]).decode())  # noqa: FBT003
        for file in files
    ]
    table.create_write_transaction(added, "append", table.schema(), partitions, commit_properties=properties)


def append_with_columns(table: Any, files: Sequence[Path], schema: pa.Schema, properties: Any) -> None:
    """Write the rows of files, and the columns that the table lacks."""
    import pyarrow.dataset as ds  # which imports pandas: most drivers have no use for either
    from deltalake import write_deltalake

    write_deltalake(
        table,
        ds.dataset(files, schema=schema, format="parquet").scanner().to_reader(),
        mode="append",
        schema_mode="merge",
        commit_properties=properties,
        writer_properties=library_settings(schema),
    )


def overwrite(
    table: Any,
    files: Iterable[Path],
    replaced: Iterable[OffsetRange],
    schema: pa.Schema,
    properties: Any,
    *,
    adds_columns: bool,
) -> None:
    """Take out the rows of these records, and put in those of the files."""
    from deltalake import write_deltalake

    tables = [pq.read_table(file, schema=schema) for file in files]
    schema_mode: Literal["merge"] | None = "merge" if adds_columns else None
    write_deltalake(
        table,
        pa.concat_tables([schema.empty_table(), *tables]),
        mode="overwrite",
        predicate=" OR ".join(map(_within, replaced)),
        schema_mode=schema_mode,
        commit_properties=properties,
        writer_properties=library_settings(schema),
    )


def _within(part: OffsetRange) -> str:
    return (
        f"(_topic_id = '{part.source_partition.topic_id}' AND _partition = {part.source_partition.partition}"
        f" AND _offset >= {part.start} AND _offset < {part.end})"
    )


def place(file: dict[str, Any]) -> str:
    """Return where a staged file belongs in the table's folder."""
    return f"{file['folder']}/{file['file']}" if file["folder"] else file["file"]
