"""A PostgreSQL table.

Guarantee: exactly once. Tasks copy rows into a staging table, each attempt under a name of its own; the driver moves
the rows of the winning attempts and the positions in one transaction. With `mode: upsert` there is one row per key,
and a row never gives way to an older record of the same partition. A row that the table refuses for its data becomes a
dead letter of this sink alone; a server that is down makes the pipeline wait.
"""

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, Literal, Self

import pyarrow as pa
from pydantic import BaseModel, Field, model_validator

from penstock.delivery.crash_points import crash_point
from penstock.delivery.positions import Place, Positions, Stretch
from penstock.errors import Conflict, NotFound, PositionsMoved, Refused, SinkUnavailable, WorkLost
from penstock.pipeline.columns import COORDINATES
from penstock.sinks.postgres_server import Server, outage_is_transient
from penstock.sinks.postgres_stager import PostgresStagerFactory, refusal_of, row_errors
from penstock.sinks.postgres_types import column_type
from penstock.sinks.sink import Refusal, Sink, Staged

if TYPE_CHECKING:
    import psycopg

_POSITIONS = "penstock_positions"
_LOCK_TIMEOUT = "10s"

_MAKE_POSITIONS = """
CREATE TABLE IF NOT EXISTS {table} (
    pipeline text, sink text, topic_id text, partition integer, topic text NOT NULL, next_offset bigint NOT NULL,
    PRIMARY KEY (pipeline, sink, topic_id, partition)
)"""
_INSERT_POSITION = (
    "INSERT INTO {} (pipeline, sink, topic_id, partition, topic, next_offset) VALUES (%s, %s, %s, %s, %s, %s)"
    " ON CONFLICT DO NOTHING"
)
_UPDATE_POSITION = """
UPDATE {} SET next_offset = %s
WHERE pipeline = %s AND sink = %s AND topic_id = %s AND partition = %s AND next_offset = %s"""
# Constraints come along, so that most rows that the table would refuse are refused while they are staged.
_MAKE_STAGE = """
CREATE UNLOGGED TABLE {stage} (
    LIKE {table} INCLUDING CONSTRAINTS INCLUDING DEFAULTS INCLUDING GENERATED INCLUDING IDENTITY,
    _row bigserial, _stage text NOT NULL, _at bigint NOT NULL
)"""
_DESCRIBE = """
SELECT attname, attnotnull AND NOT atthasdef AND attidentity = '' FROM pg_attribute
WHERE attrelid = to_regclass(%s) AND attnum > 0 AND NOT attisdropped"""
_STAGED = "FROM {stage} WHERE _stage = ANY(%(stages)s) AND _row BETWEEN %(first)s AND %(last)s"
# ruff: noqa: S608 - names are put in by psycopg, quoted; values are parameters
_APPEND = f"INSERT INTO {{table}} ({{columns}}) SELECT {{columns}} {_STAGED} ORDER BY _row"
_UPSERT = f"""
INSERT INTO {{table}} AS old ({{columns}})
SELECT {{columns}} FROM (
    SELECT DISTINCT ON ({{key}}) * {_STAGED} ORDER BY {{key}}, _offset DESC, _row DESC
) AS newest
ON CONFLICT ({{key}}) DO UPDATE SET {{assignments}} WHERE {{is_newer}}"""
_NEWER = (
    "(old._topic_id, old._partition) IS DISTINCT FROM (excluded._topic_id, excluded._partition)"
    " OR old._offset < excluded._offset"
)
# What is replayed is the past: it gives way to every row of another partition, too, for that may be newer.
_NEWER_THAN_THE_PAST = (
    "(old._topic_id, old._partition) = (excluded._topic_id, excluded._partition) AND old._offset < excluded._offset"
)
_TAKE_OUT = "DELETE FROM {} WHERE _topic_id = %s AND _partition = %s AND _offset >= %s AND _offset < %s"


class Postgres(BaseModel, frozen=True, extra="forbid"):
    """A PostgreSQL table. Exactly once."""

    type: Literal["postgres"] = Field("postgres", description="A PostgreSQL table.")
    name: str | None = Field(None, description="Name of the sink in reports and positions; its type if left out.")
    server: Server = Field(description="Where the database is.")
    table: str = Field(
        pattern=r"^([A-Za-z_][A-Za-z0-9_$]*\.)?[A-Za-z_][A-Za-z0-9_$]*$",
        description="`table` or `schema.table`; made if it is not there.",
    )
    mode: Literal["append", "upsert"] = Field(
        "append", description="Add a row per event, or keep one row per key: the newest."
    )
    key: list[str] = Field(default_factory=list, description="Columns that identify a row, for `mode: upsert`.")
    where: str | None = Field(None, description="SQL condition: only rows that meet it go to this sink.")

    @model_validator(mode="after")
    def _upsert_needs_a_key(self) -> Self:
        if bool(self.key) != (self.mode == "upsert"):
            raise ValueError("`key` belongs to `mode: upsert`, and that needs it")
        return self

    @property
    def reserved_columns(self) -> tuple[str, ...]:
        """The columns of Penstock that go into the table."""
        return COORDINATES

    def sink(self, name: str, pipeline: str, suffix: str = "") -> "PostgresSink":
        """Make the driver's part; `suffix` keeps the staging of a replay apart from the live driver's."""
        return PostgresSink(self, name, pipeline, suffix)


class PostgresSink(Sink):
    """Moves staged rows and positions in one transaction."""

    def __init__(self, spec: Postgres, name: str, pipeline: str, suffix: str = "") -> None:
        from psycopg import sql

        super().__init__(name)
        self._spec = spec
        self._pipeline = pipeline
        self._connection: psycopg.Connection[Any] | None = None
        schema, _, table = spec.table.rpartition(".")
        mark = hashlib.sha256(f"{pipeline}/{name}/{spec.table}{suffix}".encode()).hexdigest()[:12]
        place = (schema,) if schema else ()
        self.table = sql.Identifier(*place, table)
        self._positions_table = sql.Identifier(*place, _POSITIONS)
        self._stage = sql.Identifier(*place, f"penstock_stage_{mark}")
        self._is_replay = bool(suffix)
        self._columns: list[str] = []
        self._prepared: psycopg.Connection[Any] | None = None
        self._replaced: Mapping[Place, Stretch] | None = None

    @contextmanager
    def _session(self) -> Iterator["psycopg.Connection[Any]"]:
        """Give the driver's connection, opened anew if it was lost."""
        with outage_is_transient(f"{self._spec.server.host}:{self._spec.server.port}"):
            if self._connection is None or self._connection.closed:
                self._connection = self._spec.server.connect()
            yield self._connection

    def open(self, schema: pa.Schema) -> None:
        """Make what is missing: the table, the table of positions, and the staging table."""
        from psycopg import sql

        self.make_tables(schema)
        with self._session() as connection, self._explained(connection):
            self._begin(connection)
            connection.execute(sql.SQL("DROP TABLE IF EXISTS {}").format(self._stage))
            connection.execute(sql.SQL(_MAKE_STAGE).format(stage=self._stage, table=self.table))
            connection.commit()

    def make_tables(self, schema: pa.Schema) -> None:
        """Make the table and the table of positions, if they are not there; refuse a table that does not fit."""
        from psycopg import sql

        self._columns = schema.names
        missing = [name for name in self._spec.key if name not in schema.names]
        if missing:
            raise Conflict(f"sink '{self.name}' has the key column '{missing[0]}', which the pipeline does not make")
        with self._session() as connection, self._explained(connection):
            self._begin(connection)
            # CREATE TABLE IF NOT EXISTS of two sessions at once fails in one of them.
            connection.execute("SELECT pg_advisory_xact_lock(hashtext('penstock'))")
            connection.execute(sql.SQL(_MAKE_POSITIONS).format(table=self._positions_table))
            connection.execute(self._make_table(schema))
            self._require_fitting(connection)
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

    def _make_table(self, schema: pa.Schema) -> Any:
        from psycopg import sql

        columns = [
            sql.SQL("{} {}").format(sql.Identifier(field.name), sql.SQL(column_type(field.type))) for field in schema
        ]
        if self._spec.key:
            columns.append(sql.SQL("PRIMARY KEY ({})").format(_identifiers(self._spec.key)))
        return sql.SQL("CREATE TABLE IF NOT EXISTS {} ({})").format(self.table, sql.SQL(", ").join(columns))

    def _require_fitting(self, connection: "psycopg.Connection[Any]") -> None:
        """Refuse a table that would refuse every row: a mistake in the file is no record's fault."""
        found = connection.execute(_DESCRIBE, [self.table.as_string(connection)]).fetchall()
        names = {name for name, _ in found}
        lacking = [name for name in self._columns if name not in names]
        if lacking:
            raise Conflict(
                f"the table {self._spec.table} has no column '{lacking[0]}'",
                safe="Nothing was written",
                fix=f'Add it: ALTER TABLE {self._spec.table} ADD COLUMN "{lacking[0]}" ...',
            )
        insisting = [name for name, insists in found if insists and name not in self._columns]
        if insisting:
            raise Conflict(
                f"the table {self._spec.table} insists on '{insisting[0]}', which the pipeline does not make",
                safe="Nothing was written",
                fix="Give the column a default, or make it in a step",
            )

    def positions(self, places: Iterable[Place]) -> Positions | None:
        """Read the positions from their table."""
        from psycopg import sql

        wanted = {(place.topic_id, place.partition): place for place in places}
        query = sql.SQL("SELECT topic_id, partition, next_offset FROM {} WHERE pipeline = %s AND sink = %s")
        with self._session() as connection:
            (exists,) = connection.execute(
                "SELECT to_regclass(%s) IS NOT NULL", [self._positions_table.as_string(connection)]
            ).fetchone() or (False,)
            asked = query.format(self._positions_table)
            rows: list[Any] = connection.execute(asked, [self._pipeline, self.name]).fetchall() if exists else []
            found = {wanted[each[:2]]: each[2] for each in rows if each[:2] in wanted}
            connection.rollback()
            self._prepared = None
            return found

    def stager(self) -> PostgresStagerFactory:
        """Give what tasks copy rows with."""
        return PostgresStagerFactory(self._spec.server, self._stage, self._columns)

    def prepare(self, staged: list[Staged], expected: Mapping[Place, int | None]) -> list[Refusal]:
        """Do everything but the commit, in one open transaction; rows that the table refuses are found here."""
        from psycopg import errors

        super().prepare(staged, expected)
        stages = [each.detail["stage"] for each in staged if each.rows]
        with self._session() as connection:
            self._prepared = None
            self._begin(connection)
            for each in staged:
                self.move_position(connection, each.stretch.place, expected[each.stretch.place], each.stretch.end)
            self._require_all_staged(connection, stages, sum(each.rows for each in staged))
            self._take_out(connection, staged)
            try:
                with connection.transaction():
                    connection.execute(self._merge(), {"stages": stages, "first": 0, "last": 2**62})
                    connection.execute("SET CONSTRAINTS ALL IMMEDIATE")
            except row_errors():
                return self._find_refused(connection, stages)
            except (errors.InvalidColumnReference, errors.ObjectNotInPrerequisiteState):
                if self._spec.mode == "append":
                    raise
                raise Conflict(
                    f"the table {self._spec.table} has no unique index on ({', '.join(self._spec.key)})",
                    safe="Nothing was written",
                    fix="Make one; an upsert needs it",
                ) from None
            self._clear(connection, stages)
            self._prepared = connection
        return []

    def replace(self, real: Mapping[Place, Stretch]) -> None:
        """Let rows take the place of those with the same coordinates."""
        self._replaced = real

    def _take_out(self, connection: "psycopg.Connection[Any]", staged: list[Staged]) -> None:
        from psycopg import sql

        if self._replaced is None:
            return
        for each in staged:
            real = self._replaced[each.stretch.place]
            # Of a key, an earlier record may be what is left of the range: everything later makes room for it first.
            end = each.stretch.end if self._spec.mode == "append" else real.end
            bounds = [real.place.topic_id, real.place.partition, each.stretch.start, end]
            connection.execute(sql.SQL(_TAKE_OUT).format(self.table), bounds)

    def move_position(
        self, connection: "psycopg.Connection[Any]", place: Place, expected: int | None, end: int
    ) -> None:
        """Compare and set; the row lock keeps a second driver waiting until this transaction ends."""
        from psycopg import sql

        key = [self._pipeline, self.name, place.topic_id, place.partition]
        moved = (
            connection.execute(sql.SQL(_INSERT_POSITION).format(self._positions_table), [*key, place.topic, end])
            if expected is None
            else connection.execute(sql.SQL(_UPDATE_POSITION).format(self._positions_table), [end, *key, expected])
        )
        if moved.rowcount != 1:
            raise self._moved(place)

    def _moved(self, place: Place) -> PositionsMoved:
        return PositionsMoved(
            f"another driver has written to sink '{self.name}': {place} no longer stands where this driver left it",
            safe="Nothing of this batch was written to it",
            fix="Let only one driver of a pipeline run",
        )

    def _require_all_staged(self, connection: "psycopg.Connection[Any]", stages: list[str], rows: int) -> None:
        """Notice staged rows that are gone: a crashed server empties unlogged tables, another driver drops them."""
        from psycopg import errors, sql

        query = sql.SQL("SELECT count(*) FROM {} WHERE _stage = ANY(%s)").format(self._stage)
        try:
            with connection.transaction():
                (found,) = connection.execute(query, [stages]).fetchone() or (0,)
        except errors.UndefinedTable:
            found = 0
        if found != rows:
            raise WorkLost(f"{rows - found} of {rows} rows staged for sink '{self.name}' are gone")

    def _merge(self) -> Any:
        from psycopg import sql

        # The query has parameters, and psycopg does not double the % of names.
        columns = [name.replace("%", "%%") for name in self._columns]
        key = [name.replace("%", "%%") for name in self._spec.key]
        names = {"table": self.table, "stage": self._stage, "columns": _identifiers(columns)}
        if self._spec.mode == "append":
            return sql.SQL(_APPEND).format(**names)
        assignments = sql.SQL(", ").join(sql.SQL("{0} = excluded.{0}").format(sql.Identifier(name)) for name in columns)
        is_newer = sql.SQL(_NEWER if self._replaced is None else _NEWER_THAN_THE_PAST)
        return sql.SQL(_UPSERT).format(key=_identifiers(key), assignments=assignments, is_newer=is_newer, **names)

    def _find_refused(self, connection: "psycopg.Connection[Any]", stages: list[str]) -> list[Refusal]:
        """Halve until the rows that the table refuses stand alone; then take everything back."""
        from psycopg import sql

        query = sql.SQL("SELECT _row, _stage, _at FROM {} WHERE _stage = ANY(%s) ORDER BY _row")
        rows = connection.execute(query.format(self._stage), [stages]).fetchall()
        places = {each.detail["stage"]: each.stretch.place for each in self._staged}
        refused: list[Refusal] = []
        waiting = [(0, len(rows))]
        while waiting:
            first, last = waiting.pop()
            if first >= last:
                continue
            try:
                with connection.transaction():
                    bounds = {"stages": stages, "first": rows[first][0], "last": rows[last - 1][0]}
                    connection.execute(self._merge(), bounds)
                    connection.execute("SET CONSTRAINTS ALL IMMEDIATE")
            except row_errors() as error:
                if last - first == 1:
                    _, stage, offset = rows[first]
                    refused.append(Refusal(places[stage], offset, refusal_of(error)))
                else:
                    middle = (first + last) // 2
                    waiting += [(middle, last), (first, middle)]
        connection.rollback()
        if not refused:
            raise WorkLost(f"the rows that the table of sink '{self.name}' refused are not refused any more")
        return refused

    def _clear(self, connection: "psycopg.Connection[Any]", stages: list[str]) -> None:
        from psycopg import sql

        connection.execute(sql.SQL("DELETE FROM {} WHERE _stage = ANY(%s)").format(self._stage), [stages])

    def commit(self) -> None:
        """End the transaction that `prepare` left open."""
        server = f"{self._spec.server.host}:{self._spec.server.port}"
        connection, self._prepared = self._prepared, None
        if connection is None or connection.closed:
            # A new connection would have nothing to commit, and say yes.
            raise SinkUnavailable(f"PostgreSQL at {server} went away before the commit")
        with outage_is_transient(server, safe="Whether the batch was written, its positions tell at the next try"):
            crash_point("in_commit", self.name)
            connection.commit()

    def abandon(self) -> None:
        """Roll back what was prepared."""
        import psycopg

        self._prepared = None
        if self._connection is not None and not self._connection.closed:
            with suppress(psycopg.OperationalError):  # a connection that is cut is rolled back by the server
                self._connection.rollback()

    def close(self) -> None:
        """Close the connection; what is not committed is rolled back. A replay's staging table goes with it."""
        import psycopg
        from psycopg import sql

        if self._connection is None:
            return
        with suppress(psycopg.Error):
            if self._is_replay and not self._connection.closed:
                self._connection.rollback()
                self._connection.execute("SET LOCAL lock_timeout = '100ms'")
                self._connection.execute(sql.SQL("DROP TABLE IF EXISTS {}").format(self._stage))
                self._connection.commit()
        self._connection.close()


def _identifiers(names: Iterable[str]) -> Any:
    from psycopg import sql

    return sql.SQL(", ").join(map(sql.Identifier, names))
