"""Merging the results of a stateful pipeline into a Delta table, in one commit with the position."""

from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds

from penstock.errors import Conflict, SinkUnavailable
from penstock.record.positions import require_unmoved
from penstock.sinks.changes import require_key
from penstock.sinks.delta import Delta
from penstock.sinks.delta_columns import holds, never
from penstock.sinks.delta_compaction import DeltaCompaction
from penstock.sinks.delta_demands import require_plain
from penstock.sinks.delta_format import mark_as_ours, require_understood
from penstock.sinks.delta_log import DeltaLog, load_table, require_newest_commit
from penstock.sinks.delta_partitions import require_named
from penstock.sinks.delta_restore import Restores
from penstock.sinks.delta_stats import library_settings
from penstock.sinks.delta_table import is_table, make_table, require_not_iceberg, table_lock
from penstock.sinks.delta_upsert import same_key
from penstock.sinks.merging import STATE, MergeContext, MergingSink, newest
from penstock.sinks.schema_change import SchemaChange, required_change

_ATTEMPTS = 10


class DeltaMerge(MergingSink):
    """Merges into a Delta table."""

    def __init__(self, spec: Delta, context: MergeContext) -> None:
        super().__init__(context.name)
        self._spec = spec
        self._pipeline = context.pipeline
        self._restores = Restores(spec.path, context.pipeline, context.name)
        self._compaction = DeltaCompaction(spec.path, context.name, spec.compact)
        self._app = self._restores.app(STATE.topic_id, STATE.partition)
        self._log: DeltaLog | None = None

    def _table(self) -> Any:
        if not is_table(self._spec.path):
            return None
        table = load_table(self._spec.path)
        self._compare(table)
        return table

    def _compare(self, table: Any) -> None:
        """Raise if somebody has put the log back: positions that were found before would not be true of it."""
        self._log = self._log or DeltaLog(self._spec.path, self.name, self._pipeline)
        self._log.compare(table)

    def require_fitting(self, schema: pa.Schema) -> SchemaChange | None:
        """Compare the columns of a table that is there."""
        require_key(self.name, self._spec.key, schema)
        table = self._table()
        if table is None:
            require_not_iceberg(self._spec.path)
            return None
        return self._fitting(table, schema)[1]

    def position(self) -> int | None:
        """Read it from the table's log."""
        table = self._table()
        return self._position(table) if table is not None else None

    def _position(self, table: Any) -> int | None:
        found = self._restores.positions(table, frozenset({self._app}))
        require_understood(table, self._spec.path, is_ours=bool(found))
        return found.get(self._app)

    def _fitting(self, table: Any, ours: pa.Schema) -> tuple[pa.Schema, SchemaChange]:
        """Return our columns in the table's types, and those that it lacks; raise `Conflict` if it has others.

        The library would cast whatever comes, cut off fractions, and pass over columns silently.
        """
        there = pa.schema(table.schema().to_arrow())
        what = f"the table {self._spec.path}"
        change = required_change(what, there, ours, new_columns=self._spec.new_columns, widens=never, holds=holds)
        known = {field.name: field.type for field in there}
        schema = pa.schema([field.with_type(known.get(field.name, field.type)) for field in ours])
        require_plain(table, self._spec.path, schema)
        return schema, change

    def _require_partitions(self, table: Any, rows: ds.Dataset) -> None:
        """Raise `Conflict` if a result has no partition of its own: it would be found under another value."""
        names = [each for each in table.metadata().partition_columns if each in rows.schema.names]
        for batch in rows.to_batches(columns=names) if names else ():
            for name in names:
                try:
                    require_named(name, batch.column(name))
                except ValueError as error:
                    raise Conflict(
                        f"a result cannot be merged into the table {self._spec.path}: {error}",
                        safe="Nothing of this batch was written",
                        fix="Turn such values into others in a step",
                    ) from None

    def merge(self, rows: ds.Dataset, expected: int | None, following: int) -> None:
        """Make one commit; another writer in between means comparing again."""
        from deltalake import CommitProperties, Transaction
        from deltalake.exceptions import CommitFailedError

        require_key(self.name, self._spec.key, rows.schema)
        is_empty = not rows.count_rows()
        make_table(self._spec.path, rows.schema, self._pipeline)
        with table_lock(self._spec.path):
            self.position()
            mark_as_ours(self._table())
            for _ in range(_ATTEMPTS):
                table = self._table()
                require_newest_commit(table, self._spec.path, self._pipeline)
                schema, change = self._fitting(table, rows.schema)
                self._require_partitions(table, rows)
                found = self._position(table)
                require_unmoved(self.name, {STATE: expected}, {} if found is None else {STATE: found})
                moves = {**self._restores.stale(table), self._app: following}
                properties = CommitProperties(
                    max_commit_retries=0,
                    app_transactions=[Transaction(app, version) for app, version in moves.items()],
                )
                try:
                    if not is_empty:
                        source = newest(rows, self._spec.key).cast(schema)
                        merger = table.merge(
                            source,
                            same_key(self._spec.key),
                            "source",
                            "target",
                            merge_schema=bool(change),
                            commit_properties=properties,
                            writer_properties=library_settings(schema),
                        )
                        merger.when_matched_update_all().when_not_matched_insert_all().execute()
                    else:  # a merge of nothing would make no commit, and so not move the position
                        table.create_write_transaction([], "append", table.schema(), commit_properties=properties)
                except CommitFailedError:
                    continue
                break
            else:
                raise SinkUnavailable(
                    f"the table {self._spec.path} is changed too often by others for a commit to succeed"
                )
        self._compare(table)
        self._compaction.open(table.version())
        if self._compaction.run_if_due(table):
            self._compare(table)

    def close(self) -> None:
        """Let go of the log's folder."""
        if self._log is not None:
            self._log.close()
            self._log = None
