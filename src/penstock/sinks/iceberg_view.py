"""An Iceberg table to look at and to look after, by its folder: its catalog is the SQLite file beside it."""

import datetime
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pyarrow as pa

from penstock.errors import BadInput, NotFound, SinkUnavailable
from penstock.extras import require
from penstock.sinks.delta_table import table_lock
from penstock.sinks.iceberg_catalog import UNSURE, Catalog, asked, found_in, open_catalog
from penstock.sinks.staging import Staging
from penstock.sinks.table_files import all_readable


class IcebergView:
    """The table as of one snapshot, whose id stands for its version."""

    def __init__(self, path: Path, wanted: int | datetime.datetime | None = None) -> None:
        self.path = path.resolve()
        self._table = _loaded(self.path)
        self._snapshot = self._found(wanted)

    def _found(self, wanted: int | datetime.datetime | None) -> Any:
        if wanted is None:
            return self._table.current_snapshot()
        if isinstance(wanted, int):
            found = self._table.snapshot_by_id(wanted)
        else:
            found = self._table.snapshot_as_of_timestamp(int(wanted.timestamp() * 1000))
        if found is None:
            raise NotFound(
                f"the table {self.path} has no snapshot of {wanted}, or not any more",
                fix=f"See which there are with: penstock table history {self.path}",
            )
        return found

    def version(self) -> int:
        """Return the id of the snapshot; 0 if there is none yet."""
        return 0 if self._snapshot is None else int(self._snapshot.snapshot_id)

    def history(self, limit: int) -> list[dict[str, Any]]:
        """Return the snapshots that the table has had as its newest, newest first."""
        operations = {
            each.snapshot_id: each.summary and each.summary.operation.value for each in self._table.snapshots()
        }
        newest_first = sorted(self._table.history(), key=lambda each: each.timestamp_ms, reverse=True)
        return [
            {
                "version": each.snapshot_id,
                "timestamp": each.timestamp_ms,
                "operation": (operations.get(each.snapshot_id) or "").upper(),
            }
            for each in newest_first[:limit]
        ]

    def rows(self, columns: list[str], limit: int) -> pa.Table:
        """Return some rows."""
        names = [field.name for field in self._scan().projection().fields]
        unknown = next((each for each in columns if each not in names), None)
        if unknown is not None:
            raise BadInput(f"the query fails: No field named {unknown}. Valid fields are {', '.join(names)}")
        with self._readable():
            return self._scan(tuple(columns) or ("*",), limit).to_arrow()

    def count(self) -> int:
        """Count the rows."""
        with self._readable():
            return int(self._scan().count())

    def _scan(self, columns: tuple[str, ...] = ("*",), limit: int | None = None) -> Any:
        at = None if self._snapshot is None else self._snapshot.snapshot_id
        return self._table.scan(selected_fields=columns, snapshot_id=at, limit=limit)

    def as_delta(self, folder: Path) -> Any:
        """Return the same rows as SQL can ask them; the folder is made, and needed until the answer is read."""
        from penstock.sinks.iceberg_query import as_delta

        with self._readable():
            return as_delta(self._table, self._scan(), folder)

    def restore(self) -> None:
        """Make this snapshot the newest; a pipeline then goes on from its positions."""
        from pyiceberg.exceptions import CommitFailedException

        with table_lock(self.path), asked(Catalog(), self.path):
            newest = IcebergView(self.path, self.version())  # the pipeline may have written to it since
            try:
                newest._table.manage_snapshots().set_current_snapshot(self.version()).commit()
            except CommitFailedException:
                raise SinkUnavailable(
                    f"the table {self.path} was changed by another writer while a snapshot was brought back",
                    safe="The table is as that writer left it",
                    fix="Run it again",
                ) from None

    def compact(self, size: int) -> None:
        """Join small files; the table is held for it."""
        from penstock.sinks.iceberg_compaction import compact
        from penstock.sinks.iceberg_offers import Offers

        staging = Staging(self.path)
        offers = Offers(self.path, staging.path)
        staging.open(offers.inherit)
        try:
            offers.keep()
            with self._readable():
                self._table = compact(self._table, self, size, staging, offers)
            self._snapshot = self._table.current_snapshot()
        finally:
            staging.close(keep=offers.has_doubtful)

    def vacuum(self, keep_ms: int, *, dry_run: bool = False) -> list[str]:
        """Delete files that no snapshot of the time kept needs, or only return them; the table is held for it."""
        from penstock.sinks.iceberg_vacuum import vacuum

        with self._readable("Nothing was deleted"):
            return vacuum(self._table, self.path, keep_ms, self.committed(), dry_run=dry_run)

    def files(self) -> int:
        """Count the files with rows."""
        return len(self.file_sizes())

    def file_sizes(self) -> list[int]:
        """Return how many bytes each file with rows has."""
        with self._readable():
            return [int(each.file.file_size_in_bytes) for each in self._scan().plan_files()]

    def _readable(self, safe: str = "Nothing was written") -> AbstractContextManager[None]:
        return all_readable(f"the table {self.path}", safe)

    def changed(self, transaction: Any) -> Any:
        """Return the transaction unchanged: maintenance adds no columns."""
        return transaction

    def committed(self) -> AbstractContextManager[None]:
        """Turn the catalog's errors into ours."""
        return asked(Catalog(), self.path, UNSURE)


def _loaded(path: Path) -> Any:
    require("iceberg", "an Iceberg table")
    from pyiceberg.exceptions import NoSuchTableError

    spec = Catalog()
    if spec.is_there(path):
        with asked(spec, path):
            catalog = open_catalog(spec, path)
            names = [".".join(each) for space in catalog.list_namespaces() for each in catalog.list_tables(space)]
            for name in names:
                try:
                    table = found_in(catalog, name)
                except (NoSuchTableError, FileNotFoundError):
                    continue
                if table.location() == f"file://{path}":
                    return table
    raise BadInput(
        f"{path} holds an Iceberg table that the catalog {spec.file(path)} does not name",
        fix="Ask its own catalog for it, with an engine that reads Iceberg",
    )
