"""One commit to an Iceberg table: rows taken out, files put in, columns added and positions moved, or none of it.

It gets through only if the table's newest snapshot is the one that it was made on. Otherwise the library would rebuild
the snapshot on top of what another writer has committed since, and try again with positions that nobody has compared.
"""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.parquet as pq

from penstock.errors import BatchAborted, SinkUnavailable
from penstock.record.formats import ICEBERG_TABLE
from penstock.sinks.iceberg_catalog import UNSURE
from penstock.sinks.iceberg_offers import DATA
from penstock.sinks.iceberg_positions import in_property, in_summary
from penstock.sinks.iceberg_schema import arrow_schema
from penstock.sinks.iceberg_stats import statistics_of
from penstock.sinks.iceberg_table import FORMAT_PROPERTY
from penstock.sinks.iceberg_vacuum import outdated

_RETRIES = "commit.retry.num-retries"
_MOST_SNAPSHOTS = 1000


class CommitTarget(Protocol):
    """The table that is committed to."""

    path: Path

    def changed(self, transaction: Any) -> Any:
        """Let a transaction add and widen the columns that have to be; return it."""

    def committed(self) -> AbstractContextManager[None]:
        """Turn the catalog's errors into ours, which do not tell whether a commit got through."""


class Change:
    """What becomes of one snapshot; `files` are the columns, with their ids, of the files put in, if these may be new.

    Without positions those that the table has stay as they are.
    """

    def __init__(
        self, table: Any, target: CommitTarget, positions: Mapping[str, int] | None, files: pa.Schema | None
    ) -> None:
        self._target = target
        self._positions = positions
        transaction = _without_retries(table).transaction()
        self._transaction = transaction if files is None else target.changed(transaction)
        self._append: Any = None
        if files is not None and not files.equals(self._columns(files.names), check_metadata=True):
            raise BatchAborted(f"the columns of the table {target.path} were changed while its files were written")

    def _columns(self, names: list[str]) -> pa.Schema:
        there = arrow_schema(self._transaction.table_metadata.schema())
        return pa.schema([there.field(name) for name in names])

    def begin(self, instead_of: Sequence[Any] = (), *, same_rows: bool = False) -> None:
        """Begin the snapshot that files are put into, instead of some of the table's: with the same rows, or others.

        From here on it has an id.
        """
        properties = {} if self._positions is None else in_summary(self._positions)
        update = self._transaction.update_snapshot(snapshot_properties=properties)
        if not instead_of:
            self._append = update.merge_append()
            return
        self._append = _same_rows(self._transaction, properties) if same_rows else update.overwrite()
        for each in instead_of:
            self._append.delete_data_file(each)

    @property
    def snapshot_id(self) -> int:
        """The id of the snapshot that this makes."""
        return int(self._append.snapshot_id)

    @property
    def commit_id(self) -> str:
        """What the names of its manifests have in them."""
        return str(self._append.commit_uuid)

    def put_in(self, files: Iterable[Mapping[str, Any]]) -> None:
        """Name the files, which are in the table's folder by now, and what is in them."""
        metadata = self._transaction.table_metadata
        with self._append as append:
            for each in files:
                append.append_data_file(_data_file(self._target, metadata, each))
        if self._positions is not None:
            self._transaction.set_properties(
                {FORMAT_PROPERTY: str(ICEBERG_TABLE), **in_property(self._positions, self.snapshot_id)}
            )

    def expire(self, keep_ms: int) -> None:
        """Let go of old snapshots, for every commit writes those that there are once more; no row goes with them."""
        from pyiceberg.table.update.snapshot import ExpireSnapshots

        old = outdated(self._transaction.table_metadata, keep_ms, _MOST_SNAPSHOTS)
        if old:
            with ExpireSnapshots(self._transaction) as expire:
                expire.by_ids(old)

    def commit(self) -> Any:
        """Let the catalog make it the newest; return the table after it. Raise if another writer was faster."""
        try:
            with self._target.committed():
                return self._transaction.commit_transaction()
        except ValueError as error:  # such as a snapshot to expire that somebody has expired meanwhile
            raise SinkUnavailable(
                f"the table {self._target.path} was changed meanwhile: {error}", safe=UNSURE
            ) from None


def _without_retries(table: Any) -> Any:
    """Return the table as if its own setting said that no commit is tried twice."""
    from pyiceberg.table import Table

    properties = {**table.metadata.properties, _RETRIES: "0"}
    metadata = table.metadata.model_copy(update={"properties": properties})
    return Table(table.name(), metadata, table.metadata_location, table.io, table.catalog)


def _same_rows(transaction: Any, properties: dict[str, str]) -> Any:
    """Return a snapshot of which readers of changes know that nothing has changed: files were rewritten, no rows."""
    from pyiceberg.table.snapshots import Operation, Summary
    from pyiceberg.table.update.snapshot import _OverwriteFiles

    class ReplaceFiles(_OverwriteFiles):  # type: ignore[misc]  # its types are not looked at
        def _summary(self, snapshot_properties: dict[str, str]) -> Any:
            found = super()._summary(snapshot_properties)
            return Summary(Operation.REPLACE, **found.additional_properties)

    update = transaction.update_snapshot(snapshot_properties=properties)
    return ReplaceFiles(Operation.OVERWRITE, transaction, update._io, snapshot_properties=properties)  # noqa: SLF001 - as it does


def _data_file(target: CommitTarget, metadata: Any, each: Mapping[str, Any]) -> Any:
    from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
    from pyiceberg.typedef import Record

    path = target.path / DATA / each["file"]
    return DataFile.from_args(
        content=DataFileContent.DATA,
        file_path=f"file://{path}",
        file_format=FileFormat.PARQUET,
        partition=Record(*each["partition"]),
        file_size_in_bytes=path.stat().st_size,
        sort_order_id=None,
        spec_id=metadata.default_spec_id,
        equality_ids=None,
        key_metadata=None,
        **statistics_of(pq.read_metadata(path), metadata),
    )
