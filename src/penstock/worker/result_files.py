"""Results of a batch in files that its tasks write: the driver reads them in parts, however many there are."""

import uuid
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.dataset as ds
from pyarrow import ipc

from penstock.private import make_private, open_private

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def collect_as_files(rows: "DataFrame", folder: Path) -> ds.Dataset:
    """Run the batch, and return its rows from files in `folder`; only files of winning attempts are read."""
    from pyspark.sql.pandas.types import to_arrow_schema

    make_private(folder)
    schema = to_arrow_schema(rows.schema, timezone="UTC")

    def write(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        file = None
        for batch in batches:
            file = file or _File(folder, schema)
            file.write(batch)
        if file is not None:
            file.close()
            yield pa.record_batch({"file": [file.name]})

    names = [row["file"] for row in rows.mapInArrow(write, "file string").collect()]
    if not names:
        return ds.dataset(schema.empty_table())
    return ds.dataset([str(folder / name) for name in names], schema, format="ipc")


class _File:
    """One task's rows, in the form that is read without a copy."""

    def __init__(self, folder: Path, schema: pa.Schema) -> None:
        self.name = f"{uuid.uuid4().hex}.arrow"
        self._schema = schema
        self._file = open_private(folder / self.name)
        self._writer = ipc.new_file(self._file, schema)

    def write(self, batch: pa.RecordBatch) -> None:
        self._writer.write_batch(batch.cast(self._schema))

    def close(self) -> None:
        self._writer.close()
        self._file.close()
