"""An Iceberg table as SQL can ask it: a Delta table for the time of a query, over the very files that there are."""

import uuid
from pathlib import Path
from typing import Any

import orjson
import pyarrow.parquet as pq

from penstock.errors import BadInput
from penstock.sinks.iceberg_compaction import has_columns, rows_of_file
from penstock.sinks.iceberg_files import local_path
from penstock.sinks.iceberg_schema import arrow_schema, plain


def as_delta(table: Any, scan: Any, folder: Path) -> Any:
    """Return a Delta table with the rows of a scan, in this folder, which is nobody's yet.

    Files are only named, unless they have other columns than the table has now, or rows that were deleted since: those
    are rewritten.
    """
    from deltalake import DeltaTable
    from deltalake.exceptions import DeltaError
    from deltalake.transaction import AddAction

    columns = scan.projection()
    schema = arrow_schema(columns)
    folder.mkdir()
    try:
        made = DeltaTable.create(str(folder), plain(schema))
    except (DeltaError, ValueError, TypeError) as error:
        reason = str(error).splitlines()[0]
        raise BadInput(f"the Iceberg table {'.'.join(table.name())} cannot be asked by SQL: {reason}") from None
    files = []
    for task in scan.plan_files():
        file = folder / f"{uuid.uuid4()}.parquet"
        if has_columns(task, schema):
            file.symlink_to(local_path(task.file.file_path))
        else:
            with pq.ParquetWriter(file, schema) as writer:
                for rows in rows_of_file(table, task, columns):
                    writer.write_batch(rows.cast(schema))
        stats = orjson.dumps({"numRecords": pq.read_metadata(file).num_rows}).decode()
        files.append(AddAction(file.name, file.stat().st_size, {}, 0, True, stats))  # noqa: FBT003
    made.create_write_transaction(files, "append", made.schema())
    return DeltaTable(str(folder))
