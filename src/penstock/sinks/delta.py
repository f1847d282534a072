"""A Delta table.

Guarantee: exactly once. Tasks write Parquet files aside; the driver puts those of winning attempts beside the table's
others and makes them visible in one commit of its log, together with one transaction action per topic partition, whose
version is the position. The commit is checked against the very snapshot whose positions were compared. Any reader of
Delta tables, Spark's included, sees whole batches only.

Needs a file system that all of Spark's workers share. One writer library per table: Penstock writes and compacts it,
under a lock file beside the log.
"""

import os
import time
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import orjson
import pyarrow as pa
import pyarrow.parquet as pq
from pydantic import Field

from penstock.config.problem import PipelineView, Problem
from penstock.delivery.crash_points import crash_point
from penstock.delivery.durable import locked, make_folder, read_versioned, sync, write_versioned
from penstock.errors import BatchAborted, Conflict, PositionLost, SinkUnavailable
from penstock.record.columns import COORDINATES
from penstock.record.formats import DELTA_TABLE
from penstock.record.positions import OffsetRange, Positions, SourcePartition, require_unmoved
from penstock.record.target import Target
from penstock.secret import PathFromFile
from penstock.sinks.delta_demands import require_plain
from penstock.sinks.delta_format import FORMAT_PROPERTY, mark_as_ours, require_understood
from penstock.sinks.delta_restore import Restores
from penstock.sinks.delta_stager import DeltaStagerFactory
from penstock.sinks.sink import Replaced, Sink, SinkContext, SinkModel, Staged, overlaps, require_landed
from penstock.sinks.staging import Staging

if TYPE_CHECKING:
    from penstock.sinks.merging import MergeContext, MergingSink

_ATTEMPTS = 10
_OFFERED = "offered.json"


class Delta(SinkModel, frozen=True):
    """A Delta table on a disk that all workers share. Exactly once."""

    can_replace = True
    can_merge = True
    target_key = "path"

    type: Literal["delta"] = Field("delta", description="A Delta table.")
    path: PathFromFile = Field(description="Folder of the table; made if it is not there.")
    key: list[str] = Field(
        default_factory=list, description="Only in a stateful pipeline: columns that results are merged by."
    )
    coordinates: bool = Field(
        default=True, description="Also write _topic_id, _partition and _offset, which name the record of each row."
    )

    @property
    def reserved_columns(self) -> tuple[str, ...]:
        """The columns of Penstock that go into the table."""
        return COORDINATES if self.coordinates else ()

    def target(self) -> Target:
        """Return its folder."""
        return Target("folder", str(self.path.resolve()), is_shared=False)

    def problems(self, pipeline: PipelineView) -> Iterator[Problem]:
        """Return what is wrong with the key: results are merged by one, events have none."""
        if pipeline.is_stateful and not self.key:
            yield Problem.error("results that change need a `key` to be merged by")
        if self.key and not pipeline.is_stateful:
            yield Problem.error("`key` is for stateful pipelines: landed events are appended", "key")

    def open(self, context: SinkContext) -> "DeltaSink":
        """Make the driver's part."""
        return DeltaSink(self, context.name, context.pipeline)

    def open_merge(self, context: "MergeContext") -> "MergingSink":
        """Make the driver's part for results that change."""
        from penstock.sinks.delta_merge import DeltaMerge

        return DeltaMerge(self, context)


class DeltaSink(Sink):
    """Commits batches to the table's log."""

    def __init__(self, spec: Delta, name: str, pipeline: str) -> None:
        super().__init__(name)
        self.path = spec.path
        self._pipeline = pipeline
        self._table: Any = None
        self._schema: pa.Schema = None
        self._staging = Staging(spec.path)
        self._restores = Restores(spec.path, pipeline, name)
        self._replaced: Replaced | None = None
        self._log: int | None = None
        """The folder of the table's log, held open: no other folder can be mistaken for it."""

    def open(self, schema: pa.Schema) -> None:
        """Make the table, or check that it has these columns and asks for nothing that is not kept."""
        from deltalake import DeltaTable
        from deltalake.exceptions import DeltaError

        self._schema = schema
        make_table(self.path, schema, self._pipeline)
        try:
            self._table = DeltaTable(str(self.path))
        except DeltaError as error:
            reason = str(error).splitlines()[0]
            raise Conflict(f"the table {self.path} cannot be read: {reason}", safe="Nothing was written") from None
        self._log = os.open(self.path / "_delta_log", os.O_RDONLY)
        self._require_fitting()
        self._staging.open(self._withdraw)

    def positions(self, source_partitions: Iterable[SourcePartition]) -> Positions | None:
        """Read the positions from the newest snapshot."""
        if self._log is None:
            return {}
        self._require_same_table(self._log)
        self._table.update_incremental()
        self._require_fitting()
        wanted = set(source_partitions)
        live = {part.source_partition for parts in (self._replaced or {}).values() for part in parts}
        apps = {self._app(source_partition): source_partition for source_partition in wanted | live}
        there = self._restores.positions(self._table, frozenset(apps))
        require_understood(self._table, self.path, is_ours=bool(there))
        found = {apps[app]: version for app, version in there.items()}
        require_landed(self.name, self._replaced or {}, found)
        return {source_partition: at for source_partition, at in found.items() if source_partition in wanted}

    def _require_fitting(self) -> None:
        """Raise if the table does not have the pipeline's columns, or asks for what is not kept."""
        require_understood(self._table, self.path)
        there = pa.schema(self._table.schema().to_arrow())
        if [(each.name, each.type) for each in there] != [(each.name, each.type) for each in self._schema]:
            raise Conflict(
                f"the table {self.path} has the columns {_columns(there)}, and the pipeline writes"
                f" {_columns(self._schema)}",
                safe="Nothing was written",
                fix="Write to another path, or change the pipeline back",
            )
        require_plain(self._table, self.path, self._schema, replaces=self._replaced is not None)

    def _require_same_table(self, log: int) -> None:
        """Notice that the table was dropped: the library would go on from what it remembers of it."""
        try:
            same = os.path.samestat(os.fstat(log), (self.path / "_delta_log").stat())
        except (FileNotFoundError, NotADirectoryError):
            same = False
        if not same:
            raise PositionLost(
                f"the table {self.path} of sink '{self.name}' was dropped or replaced while the pipeline ran",
                safe="Nothing was written",
                fix=f"To fill it again from the source's start, run: penstock pipeline rebuild {self._pipeline}",
            )

    def _app(self, source_partition: SourcePartition) -> str:
        return self._restores.app(source_partition.topic_id, source_partition.partition)

    def replace(self, replaced: Replaced) -> None:
        """Let rows take the place of those with the same coordinates."""
        self._replaced = replaced

    def stager(self) -> DeltaStagerFactory:
        """Return what tasks write Parquet with."""
        return DeltaStagerFactory(self._staging.path, self._schema)

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
            if self._replaced is None:
                self._offer()
            for _ in range(_ATTEMPTS):
                # What is committed is checked against the snapshot that is looked at here, and nothing else is read.
                require_unmoved(self.name, self._expected, self.positions(self._expected) or {})
                moves = {**self._restores.stale(self._table), **moved}
                # No retries inside: a commit on top of a snapshot that was not compared would not be compare-and-set.
                properties = CommitProperties(
                    max_commit_retries=0,
                    app_transactions=[Transaction(app, version, now_ms) for app, version in moves.items()],
                )
                crash_point("in_commit", self.name)
                try:
                    self._append(properties, now_ms) if self._replaced is None else self._overwrite(properties)
                except CommitFailedError:
                    continue  # another writer, such as a compaction elsewhere, was faster: compare anew
                else:
                    self._staging.clear()
                    return
        raise SinkUnavailable(f"the table {self.path} is being changed too often for a commit to get in between")

    def _append(self, properties: Any, now_ms: int) -> None:
        """Make the staged files part of the table."""
        from deltalake.transaction import AddAction

        files = [
            AddAction(each.detail["file"], each.detail["bytes"], {}, now_ms, True, _stats(each))  # noqa: FBT003
            for each in self._staged
            if each.rows
        ]
        self._table.create_write_transaction(files, "append", self._schema, commit_properties=properties)

    def _offer(self) -> None:
        """Put the staged files where the table's log can name them; which these are is on record before."""
        self._withdraw(self._staging.path)
        offered = [
            {
                "file": each.detail["file"],
                "app": self._app(each.offset_range.source_partition),
                "end": each.offset_range.end,
            }
            for each in self._staged
            if each.rows
        ]
        write_versioned(self._staging.path / _OFFERED, DELTA_TABLE, {"files": offered})
        for each in offered:
            os.link(self._staging.path / each["file"], self.path / each["file"])
        sync(self.path)

    def _withdraw(self, staging: Path) -> None:
        """Remove the files that a driver had put into the table's folder and that its log has never named.

        A position that was reached says this of files, too, that a compaction has replaced since. One that was not
        says nothing: it may have been lost, and without a file that the log names nobody could read the table.
        """
        try:
            offered = read_versioned(staging / _OFFERED, DELTA_TABLE)["files"]
        except (FileNotFoundError, KeyError, ValueError):
            return
        self._table.update_incremental()
        doubtful = [each for each in offered if (self._table.transaction_version(each["app"]) or 0) < each["end"]]
        named = {Path(uri).name for uri in self._table.file_uris()} if doubtful else set()
        for each in doubtful:
            if each["file"] not in named:
                (self.path / each["file"]).unlink(missing_ok=True)

    def _overwrite(self, properties: Any) -> None:
        """Take out the rows of the offset ranges' records and put in the staged ones, in one commit."""
        from deltalake import write_deltalake

        files = [self._staging.path / each.detail["file"] for each in self._staged if each.rows]
        tables = [pq.read_table(file, schema=self._schema) for file in files]
        rows = pa.concat_tables([self._schema.empty_table(), *tables])
        replaced = self._replaced or {}
        conditions = [
            _within(part)
            for each in self._staged
            for part in overlaps(replaced[each.offset_range.source_partition], each.offset_range)
        ]
        if not conditions:  # all of it was given up: the position moves, and nothing else
            self._table.create_write_transaction([], "append", self._schema, commit_properties=properties)
            return
        condition = " OR ".join(conditions)
        write_deltalake(self._table, rows, mode="overwrite", predicate=condition, commit_properties=properties)

    def _require_all_staged(self) -> None:
        """Notice files that are gone: a table whose log names them could not be read any more."""
        for each in self._staged:
            if each.rows and not (self._staging.path / each.detail["file"]).exists():
                raise BatchAborted(f"the file {each.detail['file']}, staged for sink '{self.name}', is gone")

    def close(self) -> None:
        """Remove what was staged, and let go of the log's folder."""
        if self._table is not None and (self.path / "_delta_log").is_dir():
            self._withdraw(self._staging.path)
        self._staging.close()
        if self._log is not None:
            os.close(self._log)
            self._log = None


def is_table(path: Path) -> bool:
    """Return whether there is a table; a file is none."""
    from deltalake import DeltaTable

    return path.is_dir() and DeltaTable.is_deltatable(str(path))


def make_table(path: Path, schema: pa.Schema, name: str) -> None:
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
    make_folder(path)
    if not is_table(path):
        configuration = {FORMAT_PROPERTY: str(DELTA_TABLE)}
        DeltaTable.create(
            str(path), schema, mode="ignore", name=name, configuration=configuration, raise_if_key_not_exists=False
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


def _within(part: OffsetRange) -> str:
    return (
        f"(_topic_id = '{part.source_partition.topic_id}' AND _partition = {part.source_partition.partition}"
        f" AND _offset >= {part.start} AND _offset < {part.end})"
    )


def _stats(staged: Staged) -> str:
    """Say for readers what a file holds: rows, and the coordinates between which they lie, so that they can skip it."""
    stats: dict[str, Any] = {"numRecords": staged.rows}
    if bounds := staged.detail.get("bounds"):
        stats |= {"minValues": bounds[0], "maxValues": bounds[1], "nullCount": dict.fromkeys(bounds[0], 0)}
    return orjson.dumps(stats).decode()


def _columns(schema: pa.Schema) -> str:
    return ", ".join(f"{field.name} {field.type}" for field in schema)
