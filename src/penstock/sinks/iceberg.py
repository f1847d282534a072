"""An Iceberg table.

Guarantee: exactly once. Tasks stage Parquet files; the driver puts those of winning attempts into the table's
folder and makes them visible in one commit to the catalog, together with the positions, which are in the snapshot's
summary and in a property of the table. The commit is refused unless the very snapshot whose positions were compared is
still the newest. Expiring snapshots does not lose a position. Any reader of Iceberg tables sees whole batches only.
With a `key` there is one row per key, and a row never gives way to an older record of the same partition: files that
hold a row of the batch's keys are rewritten, in the same commit.

Needs `penstock[iceberg]` where the driver runs, and a file system that all of Spark's workers share.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Literal

import pyarrow as pa
import pyarrow.parquet as pq
from pydantic import Field

from penstock.config.problem import PipelineView, Problem
from penstock.delivery.crash_points import crash_point
from penstock.errors import BatchAborted, SinkUnavailable
from penstock.extras import require
from penstock.quantities import DurationMs
from penstock.record.columns import CHANGE, COORDINATES
from penstock.record.positions import Positions, SourcePartition, require_unmoved
from penstock.sinks.changes import refusals, require_key, without_change
from penstock.sinks.compaction import CompactFiles
from penstock.sinks.delta_table import table_lock
from penstock.sinks.iceberg_catalog import Catalog
from penstock.sinks.partitioning import PartitionBy
from penstock.sinks.schema_change import NewColumns, SchemaChange
from penstock.sinks.sink import (
    NOTHING_KNOWN,
    Position,
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
from penstock.sinks.table_files import all_readable
from penstock.sinks.table_folder import TableFolder, require_empty, require_no_rows

if TYPE_CHECKING:
    from penstock.sinks.iceberg_commit import Change
    from penstock.sinks.iceberg_stager import IcebergStagerFactory
    from penstock.sinks.merging import MergeContext, MergingSink

_ATTEMPTS = 10


class Iceberg(TableFolder, frozen=True):
    """An Iceberg table on a disk that all workers share. Exactly once."""

    needs_extra = "iceberg"

    type: Literal["iceberg"] = Field("iceberg", description="An Iceberg table.")
    table: str | None = Field(
        None,
        pattern=r"^\w+([.]\w+)+$",
        description="Name in the catalog, behind its namespace; `default.` and the folder's name if left out.",
    )
    catalog: Catalog = Field(
        default_factory=Catalog, description="The catalog; an SQLite file `iceberg.db` beside the folder if left out."
    )
    partition_by: list[PartitionBy] = Field(
        default_factory=list,
        description="What the table is partitioned by, if it is made: columns, and `months(at)`, `days(at)` or"
        " `hours(at)` of a time.",
    )
    new_columns: NewColumns = Field(
        "add", description="Whether columns that the table lacks are added to it, or refused; types, whether widened."
    )
    compact: CompactFiles | None = Field(
        None, description="When small files are joined, by the pipeline itself; never if left out."
    )
    keep: DurationMs = Field(
        604_800_000,
        ge=3_600_000,
        description="How long snapshots can be read that the table had before; the 1,000 newest at most.",
    )

    @property
    def identifier(self) -> str:
        """The table's name in the catalog."""
        return self.table or f"default.{self.path.resolve().name}"

    def problems(self, pipeline: PipelineView) -> Iterator[Problem]:
        """Return what lets a stranger read the rows, and what is wrong with the key."""
        yield from super().problems(pipeline)
        if self.catalog.is_open_to_strangers:
            text = "any server that answers gets the secret: use https, or `sslmode=verify-full` for PostgreSQL"
            yield Problem.warning(text, "catalog", "url")

    def open(self, context: SinkContext) -> "IcebergSink":
        """Make the driver's part."""
        require("iceberg", f"sink '{context.name}'")
        return IcebergSink(self, context.name, context.pipeline)

    def open_here(self, name: str, pipeline: str) -> "Sink | None":
        """Make the driver's part if the folder is there, and the catalog is a file."""
        return IcebergSink(self, name, pipeline) if self.catalog.url is None and self.path.exists() else None

    def open_merge(self, context: "MergeContext") -> "MergingSink":
        """Make the driver's part for results that change."""
        require("iceberg", f"sink '{context.name}'")
        from penstock.sinks.iceberg_merge import IcebergMerge

        return IcebergMerge(self, context)


class IcebergSink(Sink):
    """Commits batches to the catalog."""

    def __init__(self, spec: Iceberg, name: str, pipeline: str) -> None:
        super().__init__(name)
        from penstock.sinks.iceberg_compaction import IcebergCompaction
        from penstock.sinks.iceberg_offers import Offers
        from penstock.sinks.iceberg_table import IcebergTable

        self._pipeline = pipeline
        self._spec = spec
        self._what = f"the table {spec.path}"
        self._table = IcebergTable(spec, pipeline)
        self._staging = Staging(spec.path)
        self._offers = Offers(spec.path, self._staging.path)
        self._compaction = IcebergCompaction(self._table, name, spec.compact, spec.keep)
        self._replaced: Replaced | None = None
        self._files: pa.Schema | None = None
        """The columns of the files that tasks write, with the ids that these have or will have in the table."""
        self._has_changes = False
        """Whether rows are changes, which say what they do to the row with their key."""
        self._is_open = False

    def reach(self) -> None:
        """Connect to the catalog."""
        self._table.reach()

    def open(self, schema: pa.Schema) -> None:
        """Create the table, or check that it accepts these columns."""
        require_key(self.name, self._spec.key, schema)
        self._has_changes = CHANGE.name in schema.names
        self._table.make(without_change(schema))
        self._staging.open(self._offers.inherit)
        self._offers.keep()
        self._compaction.open(self._table.load)
        self._is_open = True

    def require_fitting(self, schema: Callable[[], pa.Schema]) -> SchemaChange | None:
        """Compare the columns of a table that is there."""
        if self._spec.key:
            require_key(self.name, self._spec.key, schema())
        return self._table.require_fitting(lambda: without_change(schema()))

    def positions(self, source_partitions: Iterable[SourcePartition]) -> Positions | None:
        """Read the positions from the newest snapshot."""
        return self._found(self._table.load(), source_partitions) if self._is_open else {}

    def _found(self, table: Any, source_partitions: Iterable[SourcePartition]) -> Positions:
        wanted = set(source_partitions)
        live = {part.source_partition for parts in (self._replaced or {}).values() for part in parts}
        there = self._all(table)
        keys = {each: self._key(each) for each in wanted | live}
        found = {each: there[key] for each, key in keys.items() if key in there}
        require_landed(self.name, self._replaced or {}, found)
        if self._replaced:
            require_alone(self.name, self._replaced, Position.of_others(there, self._pipeline))
        return {each: at for each, at in found.items() if each in wanted}

    def recover(self, source_partitions: Iterable[SourcePartition], recovery: Recovery = NOTHING_KNOWN) -> bool:
        """Raise if rows of the table would be written twice; with a key they would replace the existing ones."""
        table = self._table.load()
        if self._spec.key or recovery.may_repeat:
            return False
        asked, what = list(source_partitions), f"the table {self._spec.path} of sink '{self.name}'"
        there = self._found(table, asked)
        with all_readable(self._what):
            if not set(COORDINATES) <= set(self._table.file_schema.names):
                ours = [each for each in self._all(table) if each.startswith(f"{self._pipeline}/{self.name}/")]
                require_empty(what, self._pipeline, has_rows=not ours and table.scan().count() > 0)
                return False
            missing = [each for each in asked if each not in there]
            require_no_rows(what, self._pipeline, missing, lambda each: _has_rows(table, each))
        return False

    def _all(self, table: Any) -> dict[str, int]:
        from penstock.sinks.iceberg_positions import recorded_positions

        return recorded_positions(table, f"the table {self._spec.path} of sink '{self.name}'", self._pipeline)

    def _key(self, source_partition: SourcePartition) -> str:
        from penstock.sinks.iceberg_positions import position_key

        return position_key(self._pipeline, self.name, source_partition)

    def replace(self, replaced: Replaced) -> None:
        """Let rows replace those with the same coordinates."""
        if self._spec.key:
            super().replace(replaced)  # of a key there is the newest row only: what came before it is not known
        self._replaced = replaced

    def stager(self) -> "IcebergStagerFactory":
        """Return the stager of Parquet files, which is sent to tasks."""
        from penstock.sinks.iceberg_stager import IcebergStagerFactory

        self._files = self._table.file_schema
        if self._spec.key:
            return IcebergStagerFactory(self._staging.path, self._staged_with, ())
        return IcebergStagerFactory(self._staging.path, self._files, tuple(self._spec.partition_by))

    @property
    def _staged_with(self) -> pa.Schema:
        """The columns of staged files: those of the table, and the kind of change."""
        files = self._table.file_schema if self._files is None else self._files
        return files.append(CHANGE) if self._has_changes else files

    def prepare(self, staged: list[Staged], expected: Mapping[SourcePartition, int | None]) -> list[Refusal]:
        """Refuse changes without a key, or without a value that is not known from elsewhere."""
        from penstock.sinks.iceberg_upsert import refused_changes

        super().prepare(staged, expected)
        if not self._has_changes or not any(each.rows for each in staged):
            return []
        self._require_all_staged()
        table = self._table.load()
        with all_readable(self._what):
            errors = refused_changes(table, self._staged_rows(), self._spec.key, self._what)
        return refusals(staged, errors)

    def _staged_rows(self) -> pa.Table:
        files = [self._staging.path / each["file"] for each in self._staged_files()]
        return pa.concat_tables(pq.read_table(file, schema=self._staged_with) for file in files)

    def _staged_files(self) -> list[dict[str, Any]]:
        return [each for staged in self._staged if staged.rows for each in staged.detail["files"]]

    def commit(self) -> None:
        """Make one commit with the files and the positions."""
        from pyiceberg.exceptions import CommitFailedException

        with table_lock(self._spec.path):
            self._require_all_staged()
            for _ in range(_ATTEMPTS):
                # What is committed is checked against the snapshot that is looked at here, and nothing else is read.
                table = self._table.load()
                require_unmoved(self.name, self._expected, self._found(table, self._expected))
                with all_readable(self._what):
                    change = self._offered(table)
                crash_point("in_commit", self.name)
                try:
                    committed = change.commit()
                except CommitFailedException:
                    self._offers.withdraw()  # another writer was faster: compare again
                else:
                    self._offers.settle(committed)
                    self._staging.clear()
                    self._compaction.count()
                    return
        raise SinkUnavailable(f"the table {self._spec.path} is changed too often by others for a commit to succeed")

    def _offered(self, table: Any) -> "Change":
        """Return the change, with everything in place that the catalog needs for it."""
        from penstock.sinks.iceberg_commit import Change

        moved = {self._key(each.offset_range.source_partition): each.offset_range.end for each in self._staged}
        files, replaced = self._staged_files(), list[Any]()
        if self._spec.key and files:
            files, replaced = self._merged(table)
        elif self._replaced is not None:
            left, replaced = self._left(table, self._replaced)
            files += left
        # Columns come with the first rows that have them.
        change = Change(table, self._table, {**self._all(table), **moved}, self._files if files else None)
        change.begin(replaced)
        self._offers.offer([each["file"] for each in files], change.snapshot_id, change.commit_id)
        change.put_in(files)
        change.expire(self._spec.keep)
        return change

    def _merged(self, table: Any) -> tuple[list[dict[str, Any]], list[Any]]:
        """Return the new files, and those of the table that they replace."""
        from penstock.sinks.iceberg_upsert import Upsert

        columns = self._table.changed(table.transaction()).table_metadata.schema()
        upsert = Upsert(table, columns, self._staged_rows(), self._spec.key, self._what)
        written = upsert.written(self._staging.path, self._table.file_schema, tuple(self._spec.partition_by))
        return written, upsert.replaced

    def _left(self, table: Any, replaced: Replaced) -> tuple[list[dict[str, Any]], list[Any]]:
        """Return files with the rows that stay, and those of the table that they take the place of."""
        from penstock.sinks.iceberg_rewrite import Rest

        ranges = [each.offset_range for each in self._staged]
        records = [part for each in ranges for part in overlaps(replaced[each.source_partition], each)]
        rest = Rest(table, self._table.changed(table.transaction()).table_metadata.schema(), records)
        written = rest.written(self._staging.path, self._table.file_schema, tuple(self._spec.partition_by))
        return written, rest.replaced

    def _require_all_staged(self) -> None:
        """Raise if files are gone: a table that names them could no longer be read."""
        for each in self._staged_files():
            if not (self._staging.path / each["file"]).exists():
                raise BatchAborted(f"the file {each['file']}, staged for sink '{self.name}', is gone")

    def maintain(self) -> None:
        """Compact the table, if that is due."""
        self._compaction.run_if_due(self._table.load, self._staging, self._offers)

    def close(self) -> None:
        """Remove what was staged, and close the catalog. Files in doubt are recorded for the next driver."""
        self._staging.close(keep=self._offers.has_doubtful)
        self._table.close()


def _has_rows(table: Any, source_partition: SourcePartition) -> bool:
    from pyiceberg.expressions import And, EqualTo

    is_of_it = And(EqualTo("_topic_id", source_partition.topic_id), EqualTo("_partition", source_partition.partition))
    return bool(table.scan(is_of_it, ("_offset",), limit=1).to_arrow().num_rows)
