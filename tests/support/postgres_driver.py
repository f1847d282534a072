"""What the driver does to a PostgreSQL sink, in the same order, without Spark and Kafka."""

import os
import signal
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any, Self

import pyarrow as pa

from penstock.lab.bench.throwaway_postgres import RunningPostgres
from penstock.record.columns import COORDINATES, RESERVED
from penstock.record.decoded import RecordError
from penstock.record.positions import OffsetRange, Positions, SourcePartition
from penstock.sinks.postgres import Postgres, PostgresSink
from penstock.sinks.postgres_server import Server
from penstock.sinks.sink import Refusal, Staged

ORDERS = {"id": pa.int64(), "note": pa.string()}
TP = SourcePartition("orders", "id-of-orders", 0)
OTHER = SourcePartition("orders", "id-of-orders", 1)
Row = tuple[Any, ...]


def ask(server: Server, query: str, *values: Any) -> list[Row]:
    """Run a statement past the sink, commit it, and give its rows."""
    with server.connect() as connection:
        cursor = connection.execute(query, values or None)
        return cursor.fetchall() if cursor.description else []


def cut(server: Server) -> None:
    """End every other session of the database, as an administrator or a failing network would."""
    query = (
        "SELECT pg_terminate_backend(pid, 30000) FROM pg_stat_activity WHERE datname = %s AND pid <> pg_backend_pid()"
    )
    assert ask(server, query, server.database)


@contextmanager
def hung(postgres: RunningPostgres) -> Iterator[None]:
    """Stop the server and everything that it has started, in the way that nothing of it notices."""
    pids = postgres.process_ids
    _signal(pids, signal.SIGSTOP)
    try:
        yield
    finally:
        _signal(pids, signal.SIGCONT)


def _signal(pids: list[int], number: signal.Signals) -> None:
    for pid in pids:
        with suppress(ProcessLookupError):  # a session has just ended
            os.kill(pid, number)


class Driver:
    """One sink, opened; staging is done by `stage`, as a task would."""

    def __init__(
        self,
        server: Server,
        columns: Mapping[str, pa.DataType] = ORDERS,
        *,
        table: str = "orders",
        name: str = "postgres",
        pipeline: str = "orders",
        **spec: Any,
    ) -> None:
        self.schema = pa.schema([*columns.items(), *(RESERVED.field(name) for name in COORDINATES)])
        self.sink = PostgresSink(Postgres(server=server, table=table, **spec), name, pipeline)

    def __enter__(self) -> Self:
        try:
            self.sink.open(self.schema)
        except BaseException:
            self.sink.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.sink.close()

    @property
    def positions(self) -> Positions | None:
        return self.sink.positions([TP, OTHER])

    def batch(
        self,
        rows: Sequence[Row],
        start: int = 0,
        source_partition: SourcePartition = TP,
        offsets: Sequence[int] | None = None,
    ) -> tuple[pa.RecordBatch, pa.Array]:
        """Make what a task hands to a stager, one row per offset; `offsets` are the records' own, as in a replay."""
        at = range(start, start + len(rows))
        filled = [
            (*row, source_partition.topic_id, source_partition.partition, offset)
            for row, offset in zip(rows, offsets or at, strict=True)
        ]
        columns = [pa.array([row[number] for row in filled], each.type) for number, each in enumerate(self.schema)]
        return pa.RecordBatch.from_arrays(columns, schema=self.schema), pa.array(at, pa.int64())

    def try_stage(
        self,
        rows: Sequence[Row],
        start: int = 0,
        source_partition: SourcePartition = TP,
        *,
        offsets: Sequence[int] | None = None,
    ) -> tuple[Staged, list[tuple[int, RecordError]]]:
        """Stage rows as a task would; give those that are refused, too."""
        offset_range = OffsetRange(source_partition, start, start + len(rows))
        stager = self.sink.stager()(offset_range)
        refused = stager.write(*self.batch(rows, start, source_partition, offsets))
        return Staged(offset_range, len(rows) - len(refused), stager.finish()), refused

    def stage(
        self,
        rows: Sequence[Row],
        start: int = 0,
        source_partition: SourcePartition = TP,
        *,
        offsets: Sequence[int] | None = None,
    ) -> Staged:
        """Stage rows that nothing is wrong with."""
        staged, refused = self.try_stage(rows, start, source_partition, offsets=offsets)
        assert [] == refused
        return staged

    def prepare(self, *staged: Staged, expected: Mapping[SourcePartition, int | None] | None = None) -> list[Refusal]:
        """Prepare what was staged, from where the sink stands unless told otherwise."""
        if expected is None:
            found = self.positions or {}
            expected = {
                each.offset_range.source_partition: found.get(each.offset_range.source_partition) for each in staged
            }
        return self.sink.prepare(list(staged), expected)

    def write(
        self,
        rows: Sequence[Row],
        start: int = 0,
        source_partition: SourcePartition = TP,
        *,
        offsets: Sequence[int] | None = None,
    ) -> None:
        """Take a batch of one offset range to its end."""
        self.land(self.stage(rows, start, source_partition, offsets=offsets))

    def land(self, *staged: Staged) -> None:
        """Prepare and commit."""
        assert [] == self.prepare(*staged)
        self.sink.commit()


def positions_of(server: Server) -> Positions | None:
    """Read the positions as a driver does that comes later."""
    driver = Driver(server)
    try:
        return driver.positions
    finally:
        driver.sink.close()
