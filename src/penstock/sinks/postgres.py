"""A PostgreSQL table.

Guarantee: exactly once. Tasks copy rows into a staging table, each attempt under a name of its own; the driver moves
the rows of the winning attempts and the positions in one transaction. With `mode: upsert` there is one row per key,
and a row never gives way to an older record of the same partition. A row that the table refuses for its data becomes a
dead letter of this sink alone; a server that is down makes the pipeline wait.
"""

import hashlib
import secrets
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, Literal, Self

import pyarrow as pa
from pydantic import Field, model_validator

from penstock.config.problem import PipelineView, Problem
from penstock.delivery.crash_points import crash_point
from penstock.errors import BatchAborted, Conflict, NotFound, PositionsMoved, Refused, SinkUnavailable
from penstock.record.positions import Positions, SourcePartition
from penstock.record.target import Target
from penstock.sinks.postgres_insert import insert, insert_statement, refused_rows, take_out
from penstock.sinks.postgres_positions import Identity, PostgresPositions, Row
from penstock.sinks.postgres_refusals import may_be_of_a_row, refusal_of
from penstock.sinks.postgres_server import Server, outage_is_transient
from penstock.sinks.postgres_stage import Stage
from penstock.sinks.postgres_stager import PostgresStagerFactory
from penstock.sinks.postgres_table import make_table, require_fitting
from penstock.sinks.sink import Refusal, Replaced, Sink, SinkContext, SinkModel, Staged, require_landed

if TYPE_CHECKING:
    import psycopg

    from penstock.sinks.merging import MergeContext, MergingSink
    from penstock.sinks.postgres_connection import PostgresConnection

_LOCK_TIMEOUT = "10s"


class Postgres(SinkModel, frozen=True):
    """A PostgreSQL table. Exactly once."""

    can_replace = True
    can_merge = True
    target_key = "table"

    type: Literal["postgres"] = Field("postgres", description="A PostgreSQL table.")
    server: Server = Field(description="Where the database is.")
    table: str = Field(
        pattern=r"^([A-Za-z_][A-Za-z0-9_$]*\.)?[A-Za-z_][A-Za-z0-9_$]*$",
        description="`table` or `schema.table`; made if it is not there.",
    )
    mode: Literal["append", "upsert"] = Field(
        "append", description="Add a row per event, or keep one row per key: the newest."
    )
    key: list[str] = Field(default_factory=list, description="Columns that identify a row, for `mode: upsert`.")

    @model_validator(mode="after")
    def _upsert_needs_a_key(self) -> Self:
        if bool(self.key) != (self.mode == "upsert"):
            raise ValueError("`key` belongs to `mode: upsert`, and that needs it")
        return self

    def target(self) -> Target:
        """Return its table, with the server's name; one without a schema is in `public`, as PostgreSQL has it."""
        server, table = self.server, self.table if "." in self.table else f"public.{self.table}"
        return Target("table", f"{server.host}:{server.port}/{server.database}/{table}")

    def problems(self, pipeline: PipelineView) -> Iterator[Problem]:
        """Return what lets a stranger read along, and what keeps results from being merged."""
        if not self.server.is_local and self.server.sslmode in {"disable", "require"}:
            text = "without a certificate that is checked, whoever answers gets the rows: use `verify-full`"
            yield Problem.warning(text, "server", "sslmode")
        if pipeline.is_stateful and self.mode != "upsert":
            yield Problem.error("results that change need `mode: upsert` and a `key`")

    def open(self, context: SinkContext) -> "PostgresSink":
        """Make the driver's part; the staging of a replay is kept apart from the live driver's."""
        return PostgresSink(self, context.name, context.pipeline, context.replay_suffix)

    def open_merge(self, context: "MergeContext") -> "MergingSink":
        """Make the driver's part for results that change."""
        from penstock.sinks.postgres_merge import PostgresMerge

        return PostgresMerge(self, context)


class PostgresSink(Sink):
    """Moves staged rows and positions in one transaction."""

    def __init__(
        self, spec: Postgres, name: str, pipeline: str, suffix: str = "", *, has_coordinates: bool = True
    ) -> None:
        from psycopg import sql

        super().__init__(name)
        self._spec = spec
        self._connection: PostgresConnection | None = None
        schema, _, table = spec.table.rpartition(".")
        mark = hashlib.sha256(f"{pipeline}/{name}/{spec.table}{suffix}".encode()).hexdigest()[:12]
        prefix = (schema,) if schema else ()
        self.table = sql.Identifier(*prefix, table)
        self._stage = Stage(schema, f"{mark}_{secrets.token_hex(4)}", self.table)
        self._positions = PostgresPositions(
            spec.table, pipeline, name, is_upsert=bool(spec.key), has_coordinates=has_coordinates
        )
        self._schema: pa.Schema = pa.schema([])
        self._fitting: Identity | None = None
        """The table as it was when its columns were compared."""
        self._prepared: psycopg.Connection[Any] | None = None
        self._replaced: Replaced | None = None
        self._is_in_doubt = False
        """Whether a commit was sent whose answer never came."""

    @contextmanager
    def _session(self) -> Iterator["psycopg.Connection[Any]"]:
        """Return the driver's connection, opened anew if it was lost."""
        with outage_is_transient(f"{self._spec.server.host}:{self._spec.server.port}"):
            if self._connection is None or self._connection.closed:
                self._connection = self._spec.server.connect()
                self._stage.claim(self._connection)
            yield self._connection

    def reach(self) -> None:
        """Log in."""
        with self._session():
            pass

    def open(self, schema: pa.Schema) -> None:
        """Make what is missing: the table, the table of positions, and the staging table."""
        self.make_tables(schema)
        with self._session() as connection, self._explained(connection):
            self._begin(connection)
            self._stage.drop_orphans(connection)
            self._stage.make(connection, self._positions.look(connection))
            connection.commit()

    def make_tables(self, schema: pa.Schema) -> None:
        """Make the table and the table of positions, if they are not there; refuse a table that does not fit."""
        self._schema = schema
        missing = [name for name in self._spec.key if name not in schema.names]
        if missing:
            raise Conflict(f"sink '{self.name}' has the key column '{missing[0]}', which the pipeline does not make")
        with self._session() as connection, self._explained(connection):
            self._begin(connection)
            # CREATE TABLE IF NOT EXISTS of two sessions at once fails in one of them.
            connection.execute("SELECT pg_advisory_xact_lock(hashtext('penstock'))")
            self._positions.make(connection)
            make_table(connection, self.table, schema, self._spec.key)
            require_fitting(connection, self.table, self._spec.table, schema)
            connection.commit()

    def _begin(self, connection: "psycopg.Connection[Any]") -> None:
        """Begin a transaction that waits for locks for a while only. Without one, `transaction()` would commit."""
        from psycopg import sql

        connection.rollback()
        connection.execute(sql.SQL("SET LOCAL lock_timeout = {}").format(_LOCK_TIMEOUT))

    @contextmanager
    def _explained(self, connection: "psycopg.Connection[Any]") -> Iterator[None]:
        from psycopg import errors

        try:
            yield
        except errors.InsufficientPrivilege as error:
            connection.rollback()
            reason = error.diag.message_primary
            raise Refused(f"user '{self._spec.server.user}' may not use {self._spec.table}: {reason}") from None
        except errors.InvalidSchemaName:
            connection.rollback()
            schema = self._spec.table.rpartition(".")[0]
            raise NotFound(f"the schema '{schema}' is not there", fix=f'Make it: CREATE SCHEMA "{schema}"') from None
        except errors.LockNotAvailable:
            connection.rollback()
            raise SinkUnavailable(f"a table of sink '{self.name}' is in use") from None

    def positions(self, source_partitions: Iterable[SourcePartition]) -> Positions | None:
        """Read the positions that are true of the table as it is now; those of a table that is gone are none."""
        with self._session() as connection:
            self._begin(connection)
            if self._replaced is not None:
                live = [part.source_partition for parts in self._replaced.values() for part in parts]
                require_landed(self.name, self._replaced, self._positions.read(connection, live))
            found = self._positions.read(connection, source_partitions)
            if self._schema.names and self._positions.seen is not None:
                if self._positions.seen != self._fitting:
                    require_fitting(connection, self.table, self._spec.table, self._schema)
                    self._fitting = self._positions.seen
                self._stage.make(connection, self._positions.seen)
            connection.commit()
            self._prepared = None
            return found

    def recover(self, source_partitions: Iterable[SourcePartition]) -> None:
        """Give up positions of a table that is gone; a table restored from an older dump goes on behind its rows."""
        with self._session() as connection, self._explained(connection):
            self._begin(connection)
            self._positions.recover(connection, list(source_partitions))
            connection.commit()

    def stager(self) -> PostgresStagerFactory:
        """Return what tasks copy rows with."""
        return PostgresStagerFactory(self._spec.server, self._stage.name, self._schema.names)

    def prepare(self, staged: list[Staged], expected: Mapping[SourcePartition, int | None]) -> list[Refusal]:
        """Do everything but the commit, in one open transaction; rows that the table refuses are found here."""
        super().prepare(staged, expected)
        if not staged:
            return []  # and no transaction, which would hold its locks until the next batch
        stages = [each.detail["stage"] for each in staged if each.rows]
        with self._session() as connection:
            self._prepared = None
            self._begin(connection)
            self._positions.hold(connection)
            for each in staged:
                self._move(connection, each, expected[each.offset_range.source_partition])
            self._require_all_staged(connection, stages, sum(each.rows for each in staged))
            if self._replaced is not None:
                names = {"table": self.table, "stage": self._stage.name}
                for each in staged:
                    take_out(
                        connection, names, self._spec.key, each, self._replaced[each.offset_range.source_partition]
                    )
            refusals = self._insert(connection, stages)
            if refusals:
                return refusals
            for part in (part for parts in (self._replaced or {}).values() for part in parts):
                self._positions.replaced(connection, part.source_partition, part.start, part.end)
            self._clear(connection)
            self._prepared = connection
        return []

    def _move(self, connection: "psycopg.Connection[Any]", staged: Staged, expected: int | None) -> None:
        row = staged.detail.get("row")
        self.move_position(
            connection,
            staged.offset_range.source_partition,
            expected,
            staged.offset_range.end,
            None if row is None else Row(*row),
        )

    def replace(self, replaced: Replaced) -> None:
        """Let rows take the place of those with the same coordinates."""
        self._replaced = replaced

    def hold_table(self, connection: "psycopg.Connection[Any]") -> None:
        """Keep the table as it is until the transaction ends; raise if it changed since positions were read."""
        self._positions.hold(connection)

    def move_position(
        self,
        connection: "psycopg.Connection[Any]",
        source_partition: SourcePartition,
        expected: int | None,
        end: int,
        row: Row | None,
    ) -> None:
        """Compare and set, after `hold_table`; `row` was written last before `end`."""
        if self._positions.move(connection, source_partition, expected, end, row):
            return
        if self._is_in_doubt:
            # The server has worked off, after its positions were read, what it was sent before it stopped answering.
            raise BatchAborted(f"a commit to sink '{self.name}' that went unanswered has come through")
        raise PositionsMoved(
            f"another driver has written to sink '{self.name}': {source_partition} no longer stands where this"
            " driver left it",
            safe="Nothing of this batch was written to it",
            fix="Let only one driver of a pipeline run",
        )

    def _require_all_staged(self, connection: "psycopg.Connection[Any]", stages: list[str], rows: int) -> None:
        """Notice staged rows that are gone: a crashed server empties unlogged tables, another driver drops them."""
        from psycopg import errors, sql

        query = sql.SQL("SELECT count(*) FROM {} WHERE _stage = ANY(%s)").format(self._stage.name)
        try:
            with connection.transaction():
                (found,) = connection.execute(query, [stages]).fetchone() or (0,)
        except errors.UndefinedTable:
            found = 0
        if found != rows:
            raise BatchAborted(f"{rows - found} of {rows} rows staged for sink '{self.name}' are gone")

    def _insert(self, connection: "psycopg.Connection[Any]", stages: list[str]) -> list[Refusal]:
        """Move the staged rows into the table, or name those that it refuses, and take everything back."""
        import psycopg

        statement = insert_statement(
            self.table, self._stage.name, self._schema.names, self._spec.key, of_the_past=self._replaced is not None
        )
        try:
            try:
                insert(connection, statement, stages)
            except psycopg.Error as error:
                if not may_be_of_a_row(error):
                    raise
                found = refused_rows(connection, statement, self._stage.name, stages)
            else:
                return []
        except (psycopg.errors.InvalidColumnReference, psycopg.errors.ObjectNotInPrerequisiteState):
            if self._spec.mode == "append":
                raise
            raise Conflict(
                f"the table {self._spec.table} has no unique index on ({', '.join(self._spec.key)})",
                safe="Nothing was written",
                fix="Make one; an upsert needs it",
            ) from None
        connection.rollback()
        if not found:
            raise BatchAborted(f"the rows that the table of sink '{self.name}' refused are not refused any more")
        source_partitions = {each.detail["stage"]: each.offset_range.source_partition for each in self._staged}
        return [Refusal(source_partitions[stage], offset, refusal_of(error)) for stage, offset, error in found]

    def _clear(self, connection: "psycopg.Connection[Any]") -> None:
        """Leave nothing staged, neither what is in the table now nor what lost attempts of tasks have copied."""
        from psycopg import sql

        connection.execute(sql.SQL("DELETE FROM {}").format(self._stage.name))

    def commit(self) -> None:
        """End the transaction that `prepare` left open."""
        server = f"{self._spec.server.host}:{self._spec.server.port}"
        connection, self._prepared = self._prepared, None
        if connection is None or connection.closed:
            # A new connection would have nothing to commit, and say yes.
            raise SinkUnavailable(f"PostgreSQL at {server} went away before the commit")
        with outage_is_transient(server, safe="Whether the batch was written, its positions say at the next try"):
            crash_point("in_commit", self.name)
            self._is_in_doubt = True
            connection.commit()
            self._is_in_doubt = False

    def abandon(self) -> None:
        """Roll back what was prepared."""
        import psycopg

        self._prepared = None
        if self._connection is not None and not self._connection.closed:
            with suppress(psycopg.OperationalError):  # a connection that is cut is rolled back by the server
                self._connection.rollback()

    def close(self) -> None:
        """Close the connection; what is not committed is rolled back, and the staging table goes."""
        import psycopg

        if self._connection is None:
            return
        with suppress(psycopg.Error):
            if not self._connection.closed:
                self._connection.is_closing()
                self._connection.rollback()
                self._stage.drop(self._connection)
        self._connection.close()
