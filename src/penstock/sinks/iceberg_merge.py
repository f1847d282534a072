"""Merging the results of a stateful pipeline into an Iceberg table, in one commit with the position."""

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.dataset as ds

from penstock.errors import PipelineHalted, SinkUnavailable
from penstock.record.positions import require_unmoved
from penstock.sinks.changes import require_key
from penstock.sinks.delta_table import table_lock
from penstock.sinks.iceberg_commit import Change
from penstock.sinks.iceberg_compaction import IcebergCompaction
from penstock.sinks.iceberg_offers import Offers
from penstock.sinks.iceberg_positions import position_key, recorded_positions
from penstock.sinks.iceberg_rewrite import Rewrite
from penstock.sinks.iceberg_table import IcebergTable
from penstock.sinks.merging import STATE, MergeContext, MergingSink, newest
from penstock.sinks.schema_change import SchemaChange
from penstock.sinks.staging import Staging
from penstock.sinks.table_files import all_readable

if TYPE_CHECKING:
    from penstock.sinks.iceberg import Iceberg

_ATTEMPTS = 10


class IcebergMerge(MergingSink):
    """Merges into an Iceberg table."""

    def __init__(self, spec: "Iceberg", context: MergeContext) -> None:
        super().__init__(context.name)
        self._spec = spec
        self._pipeline = context.pipeline
        self._table = IcebergTable(spec, context.pipeline)
        self._staging = Staging(spec.path)
        self._offers = Offers(spec.path, self._staging.path)
        self._compaction = IcebergCompaction(self._table, context.name, spec.compact, spec.keep)
        self._position_key = position_key(context.pipeline, context.name, STATE)
        self._is_open = False

    def position(self) -> int | None:
        """Read it from the newest snapshot."""
        self._table.reach()
        table = self._table.find()
        return None if table is None else self._positions(table).get(self._position_key)

    def _positions(self, table: Any) -> dict[str, int]:
        return recorded_positions(table, f"the table {self._spec.path} of sink '{self.name}'", self._pipeline)

    def require_fitting(self, schema: pa.Schema) -> SchemaChange | None:
        """Compare the columns of a table that is there."""
        require_key(self.name, self._spec.key, schema)
        return self._table.require_fitting(lambda: schema)

    def _open(self, schema: pa.Schema) -> None:
        """Make the table, or check that it takes these columns; settle what a driver that is gone has left."""
        if self._is_open:
            return
        require_key(self.name, self._spec.key, schema)
        self._table.make(schema)
        self._staging.open(self._offers.inherit)
        self._offers.keep()
        self._compaction.open(self._table.load)
        self._is_open = True

    def merge(self, rows: ds.Dataset, expected: int | None, following: int) -> None:
        """Make one commit; another writer in between means comparing again."""
        from pyiceberg.exceptions import CommitFailedException

        self._open(rows.schema)
        with table_lock(self._spec.path):
            for _ in range(_ATTEMPTS):
                # What is committed is checked against the snapshot that is looked at here, and nothing else is read.
                table = self._table.load()
                there = self._positions(table)
                found = there.get(self._position_key)
                require_unmoved(self.name, {STATE: expected}, {} if found is None else {STATE: found})
                with all_readable(f"the table {self._spec.path}"):
                    change = self._offered(table, rows, {**there, self._position_key: following})
                try:
                    committed = change.commit()
                except CommitFailedException:
                    self._offers.withdraw()
                    continue
                self._offers.settle(committed)
                self._staging.clear()
                self._compaction.count()
                break
            else:
                raise SinkUnavailable(
                    f"the table {self._spec.path} is changed too often by others for a commit to succeed"
                )
        self._compaction.run_if_due(self._table.load, self._staging, self._offers)

    def _offered(self, table: Any, rows: ds.Dataset, positions: dict[str, int]) -> Change:
        """Return the change, with everything in place that the catalog needs for it."""
        results = self._in_types_of_table(rows)
        files, replaced = list[dict[str, Any]](), list[Any]()
        # Columns come with the first rows that have them.
        change = Change(table, self._table, positions, self._table.file_schema if results.num_rows else None)
        if results.num_rows:
            columns = self._table.changed(table.transaction()).table_metadata.schema()
            rewrite = Rewrite(results, self._spec.key)
            rewrite.look_at(table, columns)
            replaced = rewrite.replaced
            files = rewrite.written(self._staging.path, self._table.file_schema, tuple(self._spec.partition_by))
        change.begin(replaced)
        self._offers.offer([each["file"] for each in files], change.snapshot_id, change.commit_id)
        change.put_in(files)
        change.expire(self._spec.keep)
        return change

    def _in_types_of_table(self, rows: ds.Dataset) -> pa.Table:
        """Return the last row of each key. SQL can make text that is not UTF-8, on which readers would fail."""
        results = newest(rows, self._spec.key).read_all()
        try:
            results.validate(full=True)
            return results.cast(self._table.file_schema)
        except pa.ArrowInvalid as error:
            raise PipelineHalted(
                f"the table {self._spec.path} cannot take a row of the results: {error}",
                safe="Nothing of this batch was written to it, and its position stays",
                fix="Change the query, then run the pipeline again",
            ) from None

    def close(self) -> None:
        """Remove what was staged, and close the catalog. Files in doubt are recorded for the next driver."""
        self._staging.close(keep=self._offers.has_doubtful)
        self._table.close()
