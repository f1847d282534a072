"""A Delta table.

Guarantee: exactly once. Tasks stage Parquet files; the driver puts those of winning attempts beside the table's
others and makes them visible in one commit of its log, together with one transaction action per topic partition, whose
version is the position. The commit is checked against the very snapshot whose positions were compared. Any reader of
Delta tables, Spark's included, sees whole batches only.

Needs a file system that all of Spark's workers share. One writer library per table: Penstock writes and compacts it,
under a lock file beside the log.
"""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import pyarrow as pa
import pyarrow.parquet as pq
from pydantic import Field

from penstock.config.problem import PipelineView, Problem
from penstock.delivery.crash_points import crash_point
from penstock.errors import BatchAborted, SinkUnavailable
from penstock.record.columns import CHANGE, COORDINATES
from penstock.record.positions import OffsetRange, Positions, SourcePartition, require_unmoved
from penstock.sinks.changes import refusals, require_key, without_change
from penstock.sinks.compaction import Compact
from penstock.sinks.delta_columns import holds, never
from penstock.sinks.delta_compaction import DeltaCompaction
from penstock.sinks.delta_demands import require_partitioned, require_plain
from penstock.sinks.delta_format import mark_as_ours, require_understood
from penstock.sinks.delta_log import UNSURE, DeltaLog, load_table, readable
from penstock.sinks.delta_offers import Offered, offer, withdraw
from penstock.sinks.delta_others import positions_of_others
from penstock.sinks.delta_partitions import Partitions
from penstock.sinks.delta_restore import Restores
from penstock.sinks.delta_stager import DeltaStagerFactory
from penstock.sinks.delta_table import is_table, make_table, require_not_iceberg, table_lock
from penstock.sinks.delta_upsert import refused_changes, upsert
from penstock.sinks.delta_write import append, append_with_columns, overwrite, place
from penstock.sinks.partitioning import PartitionBy
from penstock.sinks.schema_change import NewColumns, SchemaChange, require_kept, required_change
from penstock.sinks.sink import (
    NOTHING_KNOWN,
    Recovery,
    Refusal,
    Replaced,
    Sink,
    SinkContext,
    Staged,
    overlaps,
    require_alone,
    require_landed,
)
from penstock.sinks.staging import Staging
from penstock.sinks.table_folder import TableFolder, require_empty, require_no_rows

if TYPE_CHECKING:
    from penstock.sinks.merging import MergeContext, MergingSink

_ATTEMPTS = 10


class Delta(TableFolder, frozen=True):
    """A Delta table on a disk that all workers share. Exactly once."""

    type: Literal["delta"] = Field("delta", description="A Delta table.")
    partition_by: list[PartitionBy] = Field(
        default_factory=list,
        description="Columns that a table is partitioned by, and `months(at)`, `days(at)` or `hours(at)` of a time in"
        " UTC, which become the columns `at_month`, `at_day` and `at_hour`. A table that is there has to be so.",
    )
    new_columns: NewColumns = Field(
        "add",
        description="What happens to a column that the table does not have yet: it is added by the commit of the first"
        " rows that have it, and is null in those before, or the pipeline is refused.",
    )
    compact: Compact | None = Field(
        None, description="When small files are joined, by the pipeline itself; never if left out."
    )

    def problems(self, pipeline: PipelineView) -> Iterator[Problem]:
        """Return what is wrong with the key, by which results are merged, and with the partitions."""
        yield from super().problems(pipeline)
        if self.partition_by and pipeline.is_stateful:
            text = "only tables of landed events are made in partitions; results are merged into those that a table has"
            yield Problem.error(text, "partition_by")

    def open(self, context: SinkContext) -> "DeltaSink":
        """Make the driver's part."""
        return DeltaSink(self, context.name, context.pipeline)

    def open_here(self, name: str, pipeline: str) -> "Sink | None":
        """Make the driver's part if the folder is there."""
        return DeltaSink(self, name, pipeline) if self.path.exists() else None

    def open_merge(self, context: "MergeContext") -> "MergingSink":
        """Make the driver's part for results that change."""
        from penstock.sinks.delta_merge import DeltaMerge

        return DeltaMerge(self, context)


class DeltaSink(Sink):
    """Commits batches to the table's log."""

    def __init__(self, spec: Delta, name: str, pipeline: str) -> None:
        super().__init__(name)
        self.path = spec.path
        self._key = spec.key
        self._has_changes = False
        """Whether rows are changes, which say what they do to the row with their key."""
        self._pipeline = pipeline
        self._table: Any = None
        self._partitions = Partitions(spec.partition_by)
        self._new_columns = spec.new_columns
        self._ours: pa.Schema = None
        """The columns of the pipeline, and those that partitions add."""
        self._schema: pa.Schema = None
        """The same in the table's types, as they are written."""
        self._change: SchemaChange | None = None
        self._staged_as: pa.Schema = None
        self._rewrites = False
        """Whether the library rewrites the staged rows, which it takes to replace rows or add columns."""
        self._staging = Staging(spec.path)
        self._restores = Restores(spec.path, pipeline, name)
        self._compaction = DeltaCompaction(spec.path, name, spec.compact)
        self._replaced: Replaced | None = None
        self._log: DeltaLog | None = None

    def open(self, schema: pa.Schema) -> None:
        """Create the table, or check that it has these columns and requires nothing that Penstock does not support."""
        require_key(self.name, self._key, schema)
        self._has_changes = CHANGE.name in schema.names
        make_table(self.path, self._columns_of(schema), self._pipeline, self._partitions)
        self._look(schema)
        self._log = DeltaLog(self.path, self.name, self._pipeline)
        self._staging.open(self._withdraw)
        self._compaction.open(self._table.version())

    def require_fitting(self, schema: Callable[[], pa.Schema]) -> SchemaChange | None:
        """Compare the columns of a table that is there; one that is not can be made in its partitions."""
        is_there = is_table(self.path)
        if not is_there:
            require_not_iceberg(self.path)
        if is_there or self._key or self._partitions.names:
            columns = schema()
            require_key(self.name, self._key, columns)
            if is_there:
                self._look(columns)
                return self._change
            self._partitions.schema_with_derived(columns)
        return None

    def _look(self, schema: pa.Schema) -> None:
        self._ours = self._columns_of(schema)
        self._table = load_table(self.path)
        self._require_fitting()

    def _columns_of(self, schema: pa.Schema) -> pa.Schema:
        """Return the columns of the table for rows of this schema."""
        return self._partitions.schema_with_derived(without_change(schema))

    def positions(self, source_partitions: Iterable[SourcePartition]) -> Positions | None:
        """Read the positions from the newest snapshot."""
        if self._log is None:
            return {}
        self._log.update(self._table)
        self._require_fitting()
        wanted = set(source_partitions)
        live = {part.source_partition for parts in (self._replaced or {}).values() for part in parts}
        apps = {self._app(source_partition): source_partition for source_partition in wanted | live}
        there = self._restores.positions(self._table, frozenset(apps))
        require_understood(self._table, self.path, is_ours=bool(there))
        found = {apps[app]: version for app, version in there.items()}
        require_landed(self.name, self._replaced or {}, found)
        if self._replaced:
            require_alone(self.name, self._replaced, positions_of_others(self.path, self._pipeline))
        return {source_partition: at for source_partition, at in found.items() if source_partition in wanted}

    def recover(self, source_partitions: Iterable[SourcePartition], recovery: Recovery = NOTHING_KNOWN) -> bool:
        """Raise if rows of the table would be written twice; with a key they would replace the existing ones."""
        if self._key or recovery.may_repeat:
            return False
        asked, what = list(source_partitions), f"the table {self.path} of sink '{self.name}'"
        there = self.positions([*asked, *recovery.committed]) or {}
        if not set(COORDINATES) <= set(self._schema.names):
            has_rows = not there and self._table.to_pyarrow_dataset().count_rows() > 0
            require_empty(what, self._pipeline, has_rows=has_rows)
            return False
        missing = [each for each in asked if each not in there]
        require_no_rows(what, self._pipeline, missing, self._has_rows)
        return False

    def _has_rows(self, source_partition: SourcePartition) -> bool:
        import pyarrow.dataset as ds  # which imports pandas: most drivers have no use for either

        is_of_it = (ds.field("_topic_id") == source_partition.topic_id) & (
            ds.field("_partition") == source_partition.partition
        )
        return bool(self._table.to_pyarrow_dataset().count_rows(filter=is_of_it))

    def _require_fitting(self) -> None:
        """Raise if the table cannot take the pipeline's columns, or requires what Penstock does not support."""
        require_understood(self._table, self.path)
        what = f"the table {self.path}"
        require_partitioned(self._table, what, self._partitions)
        there = pa.schema(self._table.schema().to_arrow())
        change = required_change(what, there, self._ours, new_columns=self._new_columns, widens=never, holds=holds)
        if self._change is not None and not self._restores.is_restored(self._table):
            require_kept(what, self._change, change)
        self._change = change
        known = {field.name: field.type for field in there}
        self._schema = pa.schema([field.with_type(known.get(field.name, field.type)) for field in self._ours])
        replaces = self._replaced is not None or bool(self._key)
        require_plain(self._table, self.path, self._schema, replaces=replaces)

    def _app(self, source_partition: SourcePartition) -> str:
        return self._restores.app(source_partition.topic_id, source_partition.partition)

    def replace(self, replaced: Replaced) -> None:
        """Let rows replace those with the same coordinates."""
        if self._key:
            super().replace(replaced)  # of a key there is the newest row only: what came before it is not known
        self._replaced = replaced

    def stager(self) -> DeltaStagerFactory:
        """Return the stager of Parquet files, which is sent to tasks."""
        self._staged_as, self._rewrites = self._schema, self._must_rewrite
        in_partitions = not self._rewrites
        return DeltaStagerFactory(self._staging.path, self._staged_with, self._partitions, in_partitions=in_partitions)

    @property
    def _staged_with(self) -> pa.Schema:
        """The columns of staged files: those of the table, and the kind of change."""
        return self._schema.append(CHANGE) if self._has_changes else self._schema

    @property
    def _must_rewrite(self) -> bool:
        return self._replaced is not None or bool(self._change) or bool(self._key)

    def prepare(self, staged: list[Staged], expected: Mapping[SourcePartition, int | None]) -> list[Refusal]:
        """Refuse changes without a key, or without a value that is not known from elsewhere."""
        super().prepare(staged, expected)
        if not self._has_changes or not any(each.rows for each in staged):
            return []
        self._require_all_staged()
        what = f"the table {self.path}"
        return refusals(staged, refused_changes(self._table, self._staged_rows(), self._key, what))

    def _staged_rows(self) -> pa.Table:
        files = [self._staging.path / file["file"] for _, file in self._files()]
        return pa.concat_tables(pq.read_table(file, schema=self._staged_with) for file in files)

    def commit(self) -> None:
        """Make one commit with the files and the positions."""
        from deltalake import CommitProperties, Transaction
        from deltalake.exceptions import CommitFailedError

        now_ms = int(time.time() * 1000)
        moved = {self._app(each.offset_range.source_partition): each.offset_range.end for each in self._staged}
        with table_lock(self.path):
            require_unmoved(self.name, self._expected, self.positions(self._expected) or {})
            self._require_all_staged()
            mark_as_ours(self._table)
            if not self._rewrites:
                self._offer()
            for _ in range(_ATTEMPTS):
                # What is committed is checked against the snapshot that is looked at here, and nothing else is read.
                require_unmoved(self.name, self._expected, self.positions(self._expected) or {})
                self._require_as_staged()
                moves = {**self._restores.stale(self._table), **moved}
                # No retries inside: a commit on top of a snapshot that was not compared would not be compare-and-set.
                properties = CommitProperties(
                    max_commit_retries=0,
                    app_transactions=[Transaction(app, version, now_ms) for app, version in moves.items()],
                )
                crash_point("in_commit", self.name)
                try:
                    with readable(self.path, UNSURE):
                        self._write(properties, now_ms)
                except CommitFailedError:
                    continue  # another writer, such as a compaction elsewhere, was faster: compare again
                else:
                    self._staging.clear()
                    self._compaction.count()
                    self._know_newest()
                    return
        raise SinkUnavailable(f"the table {self.path} is changed too often by others for a commit to succeed")

    def _write(self, properties: Any, now_ms: int) -> None:
        has_rows = any(each.rows for each in self._staged)
        paths = [self._staging.path / file["file"] for _, file in self._files()]
        if parts := self._parts_replaced():
            adds_columns = bool(self._change)
            overwrite(self._table, paths, parts, self._schema, properties, adds_columns=adds_columns)
        elif self._key and has_rows:
            upsert(self._table, self._staged_rows(), self._key, f"the table {self.path}", properties)
        elif self._rewrites and has_rows and self._replaced is None:
            append_with_columns(self._table, paths, self._schema, properties)
        else:
            append(self._table, (file for _, file in self._files()), self._partitions.names, properties, now_ms)

    def _parts_replaced(self) -> list[OffsetRange]:
        """Return the parts of the batch that replace other rows; empty if all of it was given up."""
        if self._replaced is None:
            return []
        ranges = [each.offset_range for each in self._staged]
        return [part for each in ranges for part in overlaps(self._replaced[each.source_partition], each)]

    def _files(self) -> Iterator[tuple[Staged, dict[str, Any]]]:
        """Return every staged file, and the offset range that it is of."""
        return ((each, file) for each in self._staged if each.rows for file in each.detail["files"])

    def _offer(self) -> None:
        files = [
            Offered(file["file"], place(file), self._app(each.offset_range.source_partition), each.offset_range.end)
            for each, file in self._files()
        ]
        offer(self._table, self.path, self._staging.path, files)

    def _withdraw(self, staging: Path) -> None:
        withdraw(self._table, self.path, staging)

    def _require_all_staged(self) -> None:
        """Raise if files are gone: a table whose log names them could no longer be read."""
        for _, file in self._files():
            if not (self._staging.path / file["file"]).exists():
                raise BatchAborted(f"the file {file['file']}, staged for sink '{self.name}', is gone")

    def _require_as_staged(self) -> None:
        """Raise if the table's columns have changed since: the batch is then staged again for the new ones."""
        if not any(each.rows for each in self._staged):
            return
        if self._schema != self._staged_as or (self._must_rewrite and not self._rewrites):
            raise BatchAborted(f"the columns of the table {self.path} have changed while a batch was running")

    def maintain(self) -> None:
        """Compact the table, if that is due."""
        if self._compaction.run_if_due(self._table):
            self._know_newest()

    def _know_newest(self) -> None:
        """Take note of what was committed here: put back by somebody later on, the log is known not to be the same."""
        if self._log is not None:
            self._log.update(self._table)

    def close(self) -> None:
        """Remove what was staged, and close the log's folder."""
        if self._table is not None and (self.path / "_delta_log").is_dir():
            self._withdraw(self._staging.path)
        self._staging.close()
        if self._log is not None:
            self._log.close()
            self._log = None
