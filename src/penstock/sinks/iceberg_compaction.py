"""Joining the small files of an Iceberg table, under the lock that commits take: rows and positions stay as they are.

Guarantee: files take the place of others in one commit, on the very snapshot whose files were read. One that is killed
or loses against another writer leaves the table as it was. A later commit deletes what it has written by then.
"""

import uuid
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from itertools import groupby
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from penstock.delivery.crash_points import crash_point
from penstock.delivery.durable import sync_all
from penstock.errors import Conflict, SinkUnavailable
from penstock.sinks.compaction import CompactFiles
from penstock.sinks.delta_table import table_lock
from penstock.sinks.iceberg_commit import Change, CommitTarget
from penstock.sinks.iceberg_files import local_path
from penstock.sinks.iceberg_offers import Offers
from penstock.sinks.iceberg_positions import PositionsUnknown, positions_in
from penstock.sinks.iceberg_schema import arrow_schema
from penstock.sinks.iceberg_vacuum import keeps_all, vacuum
from penstock.sinks.staging import Staging
from penstock.sinks.table_files import all_readable

COMPACTED = "replace"
_ROWS_AT_ONCE = 50_000
_SAFE = "Rows and positions are as they were"


class IcebergCompaction:
    """Compacts the table of one sink every so many batches, between two of them."""

    def __init__(self, target: CommitTarget, sink: str, wanted: CompactFiles | None, keep_ms: int) -> None:
        self._target = target
        self._sink = sink
        self._wanted = wanted
        self._keep_ms = keep_ms
        self._batches = 0

    def open(self, load: Callable[[], Any]) -> None:
        """Count the commits since the last compaction, which may have been another driver's."""
        if self._wanted is not None:
            self._batches = sum(1 for _ in _since_compaction(load()))

    def count(self) -> None:
        """Take note of a batch that was committed."""
        self._batches += 1

    def run_if_due(self, load: Callable[[], Any], staging: Staging, offers: Offers) -> None:
        """Compact the table if it has had enough batches since the last time.

        After a failure it waits for as many more: events come first.
        """
        if self._wanted is None or self._batches < self._wanted.every:
            return
        self._batches = 0
        crash_point("compacting", self._sink)
        with table_lock(self._target.path):
            table = load()
            with self._reported(), all_readable(f"the table {self._target.path}", _SAFE):
                table = compact(table, self._target, self._wanted.target, staging, offers)
                crash_point("compacted", self._sink)
                if not keeps_all(table.metadata):
                    vacuum(table, self._target.path, self._keep_ms, self._target.committed())

    @contextmanager
    def _reported(self) -> Iterator[None]:
        """Let a table that others have made one which cannot be compacted take events all the same."""
        from pyiceberg.exceptions import CommitFailedException

        try:
            yield
        except Conflict as error:
            raise SinkUnavailable(error.what, safe=error.safe, fix=error.fix) from None
        except CommitFailedException:
            what = f"the table {self._target.path} was changed by another writer while old snapshots were expired"
            raise SinkUnavailable(what, safe=_SAFE) from None


def _since_compaction(table: Any) -> Iterator[int]:
    by_id = {each.snapshot_id: each for each in table.metadata.snapshots}
    at = table.metadata.current_snapshot_id
    while at is not None and (snapshot := by_id.get(at)) is not None:
        if snapshot.summary is not None and snapshot.summary.operation.value == COMPACTED:
            return
        yield at
        at = snapshot.parent_snapshot_id


def compact(table: Any, target: CommitTarget, size: int, staging: Staging, offers: Offers) -> Any:
    """Join files up to a size, in one commit; raise `SinkUnavailable` if another writer commits meanwhile."""
    from pyiceberg.exceptions import CommitFailedException

    joined = [(tasks, _written(table, tasks, staging.path)) for tasks in _small_files(table, size)]
    if not joined:
        return table
    sync_all([staging.path / each["file"] for _, each in joined])
    change = Change(table, target, _known_positions(table), None)
    change.begin([task.file for tasks, _ in joined for task in tasks], same_rows=True)
    offers.offer([each["file"] for _, each in joined], change.snapshot_id, change.commit_id)
    change.put_in([each for _, each in joined])
    try:
        committed = change.commit()
    except CommitFailedException:
        offers.withdraw()
        raise SinkUnavailable(
            f"the table {target.path} was changed by another writer while it was compacted",
            safe=_SAFE,
            fix="Try again, when nobody else writes to it",
        ) from None
    finally:
        for _, each in joined:
            (staging.path / each["file"]).unlink(missing_ok=True)
    offers.settle(committed)
    return committed


def _known_positions(table: Any) -> dict[str, int] | None:
    """Return the positions to carry on; None if there are none, or none that can be told."""
    with suppress(PositionsUnknown):
        return positions_in(table) or None
    return None


def _small_files(table: Any, size: int) -> Iterator[list[Any]]:
    """Return what becomes one file each: small ones of one partition. Those that others have deleted rows from stay."""
    try:
        planned = list(table.scan().plan_files())
    except ValueError as error:
        raise Conflict(f"the table {'.'.join(table.name())} cannot be compacted: {error}", safe=_SAFE) from None
    small = [
        each
        for each in planned
        if not each.delete_files
        and each.file.spec_id == table.spec().spec_id
        and each.file.file_size_in_bytes < size * 3 // 4
    ]
    small.sort(key=lambda each: (str(each.file.partition), each.file.file_path))
    for _, of_partition in groupby(small, key=lambda each: each.file.partition):
        yield from (each for each in _packed(of_partition, size) if len(each) > 1)


def _packed(tasks: Iterable[Any], size: int) -> Iterator[list[Any]]:
    packed: list[Any] = []
    room = size
    for each in tasks:
        if packed and each.file.file_size_in_bytes > room:
            yield packed
            packed, room = [], size
        packed.append(each)
        room -= each.file.file_size_in_bytes
    yield packed


def _written(table: Any, tasks: list[Any], folder: Path) -> dict[str, Any]:
    """Write the rows of some files of one partition into one, and say what the commit needs to know of it."""
    schema = arrow_schema(table.schema())
    name = f"compact-{uuid.uuid4()}.parquet"
    # Among numbers with fractions there may be NaN, which statistics leave out; it is not known before all are read.
    with_bounds = [each.name for each in schema if not pa.types.is_floating(each.type)]
    with pq.ParquetWriter(
        folder / name,
        schema,
        compression="zstd",
        write_statistics=with_bounds if len(with_bounds) < len(schema) else True,
    ) as writer:
        for task in tasks:
            for rows in rows_of_file(table, task, table.schema()):
                writer.write_batch(rows.cast(schema))
    return {"file": name, "partition": list(tasks[0].file.partition)}


def rows_of_file(table: Any, task: Any, columns: Any) -> Iterator[pa.RecordBatch]:
    """Read one of a table's files in these columns of Iceberg's; in pieces, if it was written with them."""
    from pyiceberg.expressions import AlwaysTrue
    from pyiceberg.io.pyarrow import ArrowScan

    schema = arrow_schema(columns)
    if has_columns(task, schema):
        with pq.ParquetFile(local_path(task.file.file_path)) as file:
            yield from file.iter_batches(_ROWS_AT_ONCE, columns=schema.names)
        return
    yield from ArrowScan(table.metadata, table.io, columns, AlwaysTrue()).to_record_batches([task])


def has_columns(task: Any, schema: pa.Schema) -> bool:
    """Return whether a file has these very columns, with their ids, and none of its rows was deleted."""
    if task.delete_files or task.file.file_format.value != "PARQUET":
        return False
    there = pq.read_schema(local_path(task.file.file_path))
    return set(there.names) == set(schema.names) and all(
        there.field(each.name).equals(each, check_metadata=True) for each in schema
    )
