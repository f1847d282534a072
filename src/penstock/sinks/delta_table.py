"""A Delta table on disk: whether it is there, making it, and holding it for one writer."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pyarrow as pa

from penstock.delivery.durable import locked, make_folder
from penstock.errors import BatchAborted, Conflict
from penstock.record.formats import DELTA_TABLE
from penstock.sinks.delta_format import FORMAT_PROPERTY
from penstock.sinks.delta_partitions import Partitions
from penstock.sinks.table_folders import is_iceberg


def is_table(path: Path) -> bool:
    """Return whether there is a table; a file is none."""
    from deltalake import DeltaTable

    return path.is_dir() and DeltaTable.is_deltatable(str(path))


def require_not_iceberg(path: Path) -> None:
    """Raise `Conflict` if an Iceberg table is in this place: each would delete the other's files."""
    if is_iceberg(path):
        raise Conflict(
            f"{path} is an Iceberg table",
            safe="Nothing was written",
            fix="Write to another path, or say `type: iceberg`",
        )


def make_table(path: Path, schema: pa.Schema, name: str, partitions: Partitions | None = None) -> None:
    """Make a table, unless it is there; raise `Conflict` if there can be none of these columns in this place."""
    from deltalake import DeltaTable, Field

    for field in schema:
        try:
            Field.from_arrow(field)
        except Exception:  # noqa: BLE001 - the library raises nothing narrower
            raise Conflict(
                f"a Delta table cannot hold the column '{field.name}' of type {field.type}",
                safe="Nothing was written",
                fix="Turn it into another type in a step",
            ) from None
    require_not_iceberg(path)
    make_folder(path)
    if not is_table(path):
        configuration = {FORMAT_PROPERTY: str(DELTA_TABLE)}
        DeltaTable.create(
            str(path),
            schema,
            mode="ignore",
            name=name,
            partition_by=partitions.names if partitions else None,
            configuration=configuration,
            raise_if_key_not_exists=False,
        )


@contextmanager
def table_lock(path: Path) -> Iterator[None]:
    """Hold the table for one writer of this machine: a batch's commit, or a compaction."""
    with ExitStack() as stack:
        try:
            stack.enter_context(locked(path / ".penstock.lock"))
        except FileNotFoundError:
            raise BatchAborted(f"the table {path} is gone") from None
        yield
