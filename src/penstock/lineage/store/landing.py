"""The driver's part of the sink: merges what tasks have staged into the store, and moves the positions with it."""

import gc
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from uuid import UUID

import pyarrow as pa
from sqlalchemy import select

from penstock.clock import clock
from penstock.delivery.crash_points import crash_point
from penstock.errors import BatchAborted, Conflict, PositionsMoved
from penstock.lineage.collected import Facts
from penstock.lineage.stager import EVENT, LineageStagerFactory, read_staged
from penstock.lineage.store import tables
from penstock.lineage.store.address import StoreAddress
from penstock.lineage.store.database import explained, open_or_make
from penstock.lineage.store.partitions import Partitions
from penstock.lineage.store.sessions import PostgresSession, Session, open_session
from penstock.lineage.store.using import moments, operation_moments
from penstock.lineage.store.writing import Writer
from penstock.lineage.uses import Uses
from penstock.record.positions import Positions, SourcePartition, require_unmoved
from penstock.sinks.sink import Sink

_FIND = 'SELECT next_offset FROM "position" WHERE (pipeline, sink, topic_id, "partition") = (?, ?, ?, ?)'
_MOVE = """
INSERT INTO "position" (pipeline, sink, topic_id, "partition", topic, next_offset) VALUES (?, ?, ?, ?, ?, ?)
ON CONFLICT (pipeline, sink, topic_id, "partition") DO UPDATE SET topic = excluded.topic,
    next_offset = excluded.next_offset"""


class LineageSink(Sink):
    """Writes to one store."""

    def __init__(self, address: StoreAddress, name: str, pipeline: str, scratch: Path) -> None:
        super().__init__(name)
        self._address = address
        self._owner = (pipeline, name)
        self._scratch = scratch
        self._opened: tuple[Session, Writer] | None = None
        self._partitions: Partitions | None = None
        self._id: UUID | None = None
        self._is_in_doubt = False
        """Whether a commit was sent whose answer never came."""

    @contextmanager
    def _session(self) -> Iterator[tuple[Session, Writer]]:
        """Return the session, reopened if it was lost; what fails leaves nothing behind in it."""
        with explained(self._address):
            if self._opened is not None and not self._opened[0].is_open:
                self.close()
            if self._opened is None:
                session = open_session(self._address)
                self._opened = session, Writer(session)
            try:
                yield self._opened
            except BaseException:
                self._opened[0].rollback()
                raise

    def reach(self) -> None:
        """Log in, if it is a server; `open` creates a file."""
        server = self._address.server
        if server is not None:
            with explained(self._address):
                server.connect().close()

    def open(self, schema: pa.Schema) -> None:
        """Make the store if it is not there; refuse one of another schema than this Penstock's, and other rows."""
        if EVENT not in schema.names or schema.field(EVENT).type not in (pa.string(), pa.binary()):
            raise Conflict(
                f"sink '{self.name}' takes OpenLineage's events from the column `{EVENT}`, which is not there",
                safe="Nothing was written",
                fix="Say `decode: {type: openlineage}`, and let steps keep that column",
            )
        engine = open_or_make(self._address)
        try:
            with engine.connect() as connection:
                self._id, unit = connection.execute(select(tables.store.c.id, tables.store.c.partition_by)).one()
        finally:
            engine.dispose()
        self._partitions = Partitions(unit) if self._address.server is not None else None

    def target_id(self) -> str:
        """Return what sets this store apart from one that was recreated."""
        return "" if self._id is None else str(self._id)

    def positions(self, source_partitions: Iterable[SourcePartition]) -> Positions:
        """Read the positions that are in the store."""
        with self._session() as (session, _):
            found = self._found(session, source_partitions)
            session.rollback()
        return found

    def _found(self, session: Session, source_partitions: Iterable[SourcePartition]) -> Positions:
        rows = {each: session.run(_FIND, self._key(each)) for each in source_partitions}
        return {each: found[0][0] for each, found in rows.items() if found}

    def _key(self, source_partition: SourcePartition) -> tuple[str, str, str, int]:
        return *self._owner, source_partition.topic_id, source_partition.partition

    def stager(self) -> LineageStagerFactory:
        """Return the stager of facts, which is sent to tasks."""
        return LineageStagerFactory(self._scratch, as_columns=self._address.server is not None)

    def commit(self) -> None:
        """Merge the facts and move the positions in one transaction, if these are where they are expected."""
        with _without_collecting():
            self._commit()

    def _commit(self) -> None:
        files = [Path(each.detail["file"]) for each in self._staged if each.rows]
        facts, uses = _staged_in(files, self.name)
        with self._session() as (session, writer):
            if self._partitions is not None and isinstance(session, PostgresSession):
                self._make_partitions(session, self._partitions, facts, uses)
            session.begin()
            self._require_unmoved(session)
            writer.write(facts, uses)
            for each in self._staged:
                partition = each.offset_range.source_partition
                session.run(_MOVE, [*self._key(partition), partition.topic, each.offset_range.end])
            crash_point("in_commit", self.name)
            self._is_in_doubt = True
            session.commit()
            self._is_in_doubt = False
            writer.committed()
        for file in files:
            file.unlink(missing_ok=True)

    def _require_unmoved(self, session: Session) -> None:
        try:
            require_unmoved(self.name, self._expected, self._found(session, self._expected))
        except PositionsMoved:
            if self._is_in_doubt:
                # The server has worked off, after its positions were read, what it was sent before it went away.
                raise BatchAborted(f"a commit to sink '{self.name}' that went unanswered has succeeded") from None
            raise

    def _make_partitions(
        self, session: PostgresSession, partitions: Partitions, facts: Facts, uses: Sequence[Uses]
    ) -> None:
        now = clock().now()
        times = {
            tables.run: {each.created_at for each in facts.runs.values()},
            tables.operation: {each.created_at for each in facts.operations.values()} | operation_moments(uses),
            tables.input_: {each.created_at for each in facts.inputs},
            tables.output: {each.created_at for each in facts.outputs},
            tables.column_lineage: {each.created_at for each in facts.column_lineage},
        }
        for table, needed in (*times.items(), *moments(uses)):
            partitions.make(session.connection, table, needed, now)

    def close(self) -> None:
        """Let go of the connection; what is not committed is rolled back."""
        if self._opened is not None:
            self._opened[0].rollback()
            self._opened[0].close()
            self._opened = None


@contextmanager
def _without_collecting() -> Iterator[None]:
    """Have nobody look through all facts and rows, again and again, for cycles that cannot be there."""
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.enable()


def _staged_in(files: list[Path], sink: str) -> tuple[Facts, list[Uses]]:
    """Return what all tasks have staged: facts merged, and the uses of each."""
    facts, uses = Facts(), list[Uses]()
    for file in files:
        try:
            staged, used = read_staged(file.read_bytes())
        except FileNotFoundError:
            raise BatchAborted(f"what was staged for sink '{sink}' in {file} is gone") from None
        facts.merge(staged)
        uses += [] if used is None else [used]
    return facts, uses
