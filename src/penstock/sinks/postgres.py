"""A PostgreSQL table.

Guarantee: exactly once. Tasks copy rows into a staging table, each attempt under a name of its own; the driver moves
the rows of the winning attempts and the positions in one transaction. With `mode: upsert` there is one row per key,
and a row never gives way to an older record of the same partition. A row that the table refuses for its data becomes a
dead letter of this sink alone; a server that is down makes the pipeline wait.
"""

import hashlib
import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, Self

import pyarrow as pa
from pydantic import Field, model_validator

from penstock.config.problem import PipelineView, Problem
from penstock.delivery.crash_points import crash_point
from penstock.errors import BatchAborted, PositionsMoved, SinkUnavailable
from penstock.record.columns import CHANGE
from penstock.record.decoded import RecordError
from penstock.record.positions import Positions, SourcePartition
from penstock.record.target import Target
from penstock.sinks.changes import require_key, without_change
from penstock.sinks.postgres_changes import fill_in, truncate
from penstock.sinks.postgres_insert import insert_or_refuse, insert_statements, take_out
from penstock.sinks.postgres_positions import PostgresPositions
from penstock.sinks.postgres_refusals import without_index_explained
from penstock.sinks.postgres_rows import Identity, Row
from penstock.sinks.postgres_server import Server, outage_is_transient
from penstock.sinks.postgres_session import PostgresSession
from penstock.sinks.postgres_stage import Stage
from penstock.sinks.postgres_stager import PostgresStagerFactory, StagingTable
from penstock.sinks.postgres_table import add_columns, make_table, require_fitting, schema_of, table_there
from penstock.sinks.schema_change import NewColumns, SchemaChange, require_kept
from penstock.sinks.sink import (
    NOTHING_KNOWN,
    Recovery,
    Refusal,
    Replaced,
    Sink,
    SinkContext,
    SinkModel,
    Staged,
    require_alone,
    require_landed,
)

if TYPE_CHECKING:
    import psycopg

    from penstock.sinks.merging import MergeContext, MergingSink


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
    new_columns: NewColumns = Field(
        "add",
        description="What happens to a column that the table does not have yet: it is added in the transaction of the"
        " first rows that have it, and is null in those before, or the pipeline is refused.",
    )

    @model_validator(mode="after")
    def _upsert_needs_a_key(self) -> Self:
        if bool(self.key) != (self.mode == "upsert"):
            raise ValueError("`key` belongs to `mode: upsert`, and that needs it")
        return self

    @property
    def takes_changes(self) -> bool:
        """Whether it has one row per key."""
        return self.mode == "upsert"

    @property
    def named_columns(self) -> dict[str, list[str]]:
        """The columns of the key."""
        return {"key": self.key}

    def target(self) -> Target:
        """Return its table, with the server's name."""
        return Target("table", f"{self.server.host}:{self.server.port}/{self.server.database}/{self.table}")

    def target_there(self) -> Target:
        """Return its table, or the one that it is a partition of, in its schema; the server by when it was started."""
        with outage_is_transient(f"{self.server.host}:{self.server.port}"), self.server.connect() as connection:
            return Target("table", table_there(connection, self.table))

    def problems(self, pipeline: PipelineView) -> Iterator[Problem]:
        """Return what lets a stranger read the rows, and what prevents merging results."""
        if not self.server.is_local and self.server.sslmode in {"disable", "require"}:
            text = "the server's certificate is not checked, so any server could get the rows: use `verify-full`"
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
        super().__init__(name)
        self._spec = spec
        self._session = PostgresSession(spec.server, spec.table, name, self._connected)
        self._pipeline = pipeline
        self._has_coordinates = has_coordinates
        mark = hashlib.sha256(f"{pipeline}/{name}/{spec.table}{suffix}".encode()).hexdigest()[:12]
        self._mark = f"{mark}_{secrets.token_hex(4)}"
        schema, _, self._table_name = spec.table.rpartition(".")
        self._is_settled = bool(schema)
        """Whether it is known which schema the table is in."""
        self._settle(schema)
        self._schema: pa.Schema = pa.schema([])
        self._has_changes = False
        """Whether rows are changes, which say what they do to the row with their key."""
        self._change = SchemaChange()
        self._fitting: Identity | None = None
        """The table at the time when its columns were compared."""
        self._prepared: psycopg.Connection[Any] | None = None
        self._replaced: Replaced | None = None
        self._is_in_doubt = False
        """Whether a commit was sent whose answer never came."""

    def _settle(self, schema: str) -> None:
        """Name the tables that the sink uses, all of them in one schema."""
        from psycopg import sql

        self.table = sql.Identifier(*((schema,) if schema else ()), self._table_name)
        self._stage = Stage(schema, self._mark, self.table)
        self._positions = PostgresPositions(
            f"{schema}.{self._table_name}" if schema else self._table_name,
            self._pipeline,
            self.name,
            is_upsert=bool(self._spec.key),
            has_coordinates=self._has_coordinates,
        )

    def _connected(self, connection: "psycopg.Connection[Any]") -> None:
        """Claim the staging table for this driver, in the schema that the table is in."""
        if not self._is_settled:
            # Once: what the search path leads to may be another table tomorrow, with other positions.
            self._settle(schema_of(connection, self._table_name))
            self._is_settled = True
        self._stage.claim(connection)

    def reach(self) -> None:
        """Log in."""
        with self._session.opened():
            pass

    def require_fitting(self, schema: Callable[[], pa.Schema]) -> SchemaChange | None:
        """Compare the columns of a table that is there."""
        with self._session.opened() as connection:
            there = connection.execute("SELECT to_regclass(%s)", [self.table.as_string(connection)]).fetchone()
            connection.rollback()
        if there is None or there[0] is None:
            return None
        columns = schema()
        require_key(self.name, self._spec.key, columns, is_compared_here=False)
        with self._session.opened() as connection, self._session.explained(connection):
            change = self._fitted(connection, columns)
            connection.rollback()
        return change

    def _fitted(self, connection: "psycopg.Connection[Any]", columns: pa.Schema) -> SchemaChange:
        fields, new_columns = without_change(columns), self._spec.new_columns
        return require_fitting(connection, self.table, self._spec.table, fields, new_columns)

    def open(self, schema: pa.Schema) -> None:
        """Make what is missing: the table, the table of positions, and the staging table."""
        self.make_tables(schema)
        with self._session.opened() as connection, self._session.explained(connection):
            self._session.begin(connection)
            self._stage.drop_orphans(connection)
            self._make_stage(connection, self._positions.rows.look(connection))
            connection.commit()

    def _make_stage(self, connection: "psycopg.Connection[Any]", table: Identity | None) -> None:
        self._stage.make(connection, table, self._change.added, has_changes=self._has_changes)

    def make_tables(self, schema: pa.Schema) -> None:
        """Make the table and the table of positions, if they are not there; refuse a table that does not fit."""
        self._has_changes = CHANGE.name in schema.names
        schema = self._schema = without_change(schema)
        require_key(self.name, self._spec.key, schema, is_compared_here=False)
        with self._session.opened() as connection, self._session.explained(connection):
            self._session.begin(connection)
            # CREATE TABLE IF NOT EXISTS of two sessions at once fails in one of them.
            connection.execute("SELECT pg_advisory_xact_lock(hashtext('penstock'))")
            self._positions.make(connection)
            make_table(connection, self.table, schema, self._spec.key)
            self._change = self._fitted(connection, schema)
            connection.commit()

    def positions(self, source_partitions: Iterable[SourcePartition]) -> Positions | None:
        """Read the positions that are true of the table as it is now; those of a table that is gone are none."""
        with self._session.opened() as connection:
            self._session.begin(connection)
            if self._replaced is not None:
                live = [part.source_partition for parts in self._replaced.values() for part in parts]
                require_landed(self.name, self._replaced, self._positions.read(connection, live))
                require_alone(self.name, self._replaced, self._positions.others(connection))
            found = self._positions.read(connection, source_partitions)
            if self._schema.names and self._positions.seen is not None:
                if self._positions.seen != self._fitting:
                    change = self._fitted(connection, self._schema)
                    require_kept(f"the table {self._spec.table}", self._change, change)
                    self._change, self._fitting = change, self._positions.seen
                self._make_stage(connection, self._positions.seen)
            connection.commit()
            self._prepared = None
            return found

    def recover(self, source_partitions: Iterable[SourcePartition], recovery: Recovery = NOTHING_KNOWN) -> bool:
        """Drop positions of a table that is gone; a table restored from an older dump continues after its rows."""
        asked = list(source_partitions)
        with self._session.opened() as connection, self._session.explained(connection):
            self._session.begin(connection)
            is_changed = self._positions.recover(connection, asked)
            if not recovery.may_repeat:
                self._positions.require_no_rows(connection, asked)
            connection.commit()
        return is_changed

    def stager(self) -> PostgresStagerFactory:
        """Return the stager that copies rows, which is sent to tasks."""
        names, limits = self._schema.names, self._stage.text_limits
        table = StagingTable(self._spec.server, self._stage.name, names, limits, has_changes=self._has_changes)
        return PostgresStagerFactory(table)

    def prepare(self, staged: list[Staged], expected: Mapping[SourcePartition, int | None]) -> list[Refusal]:
        """Do everything but the commit, in one open transaction, which finds the rows that the table refuses."""
        super().prepare(staged, expected)
        if not staged:
            return []  # and no transaction, which would hold its locks until the next batch
        stages = [each.detail["stage"] for each in staged if each.rows]
        with self._session.opened() as connection:
            self._prepared = None
            self._session.begin(connection)
            self.hold_table(connection, adding=bool(stages))
            for each in staged:
                self._move(connection, each, expected[each.offset_range.source_partition])
            self._stage.require_all(connection, stages, sum(each.rows for each in staged), self.name)
            if self._replaced is not None:
                names = {"table": self.table, "stage": self._stage.name}
                for each in staged:
                    take_out(
                        connection, names, self._spec.key, each, self._replaced[each.offset_range.source_partition]
                    )
            refusals = self._complete(connection, stages) if self._has_changes else []
            # Without rows no column was added, and the statement would name it.
            if not refusals and (stages or not self._change):
                refusals = self._insert(connection, stages)
            if refusals:
                return refusals
            for part in (part for parts in (self._replaced or {}).values() for part in parts):
                self._positions.replaced(connection, part.source_partition, part.start, part.end)
            self._stage.clear(connection)
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
        """Let rows replace those with the same coordinates."""
        self._replaced = replaced

    def hold_table(self, connection: "psycopg.Connection[Any]", *, adding: bool) -> None:
        """Keep the table as it is until the transaction ends; raise if it changed since positions were read.

        `adding` says that there are rows, with which missing columns are added.
        """
        added = self._change.added if adding else ()
        with self._session.explained(connection):
            self._positions.hold(connection, alone=bool(added))
            add_columns(connection, self.table, added)

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
            raise BatchAborted(f"a commit to sink '{self.name}' that went unanswered has succeeded")
        raise PositionsMoved(
            f"another driver has written to sink '{self.name}': {source_partition} no longer stands where this"
            " driver left it",
            safe="Nothing of this batch was written to it",
            fix="Let only one driver of a pipeline run",
        )

    def _complete(self, connection: "psycopg.Connection[Any]", stages: list[str]) -> list[Refusal]:
        """Delete what was truncated, fill in values that changes leave out, and return the changes without them."""
        truncate(connection, self.table, self._stage.name, stages, self._spec.table)
        found = fill_in(connection, self.table, self._stage.name, stages, self._spec.key)
        if found:
            connection.rollback()
        return self._refusals(found)

    def _refusals(self, found: list[tuple[str, int, RecordError]]) -> list[Refusal]:
        source_partitions = {
            each.detail["stage"]: each.offset_range.source_partition for each in self._staged if each.rows
        }
        return [Refusal(source_partitions[stage], offset, error) for stage, offset, error in found]

    def _insert(self, connection: "psycopg.Connection[Any]", stages: list[str]) -> list[Refusal]:
        """Move the staged rows into the table; if it refuses some, return those and roll back."""
        statements = insert_statements(
            self.table,
            self._stage.name,
            self._schema.names,
            self._spec.key,
            of_the_past=self._replaced is not None,
            has_changes=self._has_changes,
        )
        with without_index_explained(self._spec.table, self._spec.key):
            return self._refusals(insert_or_refuse(connection, statements, self._stage.name, stages, self.name))

    def go_on(self, formers: Sequence[str], positions: Positions) -> None:
        """Also take over the row by which the table is recognised."""
        super().go_on(formers, positions)
        with self._session.opened() as connection, self._session.explained(connection):
            self._session.begin(connection)
            for former in formers:
                self._positions.succeed(connection, former)
            self._positions.name_rows(connection)
            connection.commit()

    def commit(self) -> None:
        """End the transaction that `prepare` left open."""
        server = f"{self._spec.server.host}:{self._spec.server.port}"
        connection, self._prepared = self._prepared, None
        if connection is None or connection.closed:
            # A new connection would have nothing to commit, and say yes.
            raise SinkUnavailable(f"the connection to PostgreSQL at {server} was lost before the commit")
        with outage_is_transient(
            server, safe="The next try finds out from its positions whether the batch was written"
        ):
            crash_point("in_commit", self.name)
            self._is_in_doubt = True
            connection.commit()
            self._is_in_doubt = False

    def abandon(self) -> None:
        """Roll back what was prepared."""
        self._prepared = None
        self._session.roll_back()

    def close(self) -> None:
        """Close the connection; what is not committed is rolled back, and the staging table goes."""
        self._session.close(self._stage.drop)
