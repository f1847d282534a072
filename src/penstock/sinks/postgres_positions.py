"""The positions of a PostgreSQL sink, and the table that they belong to.

Positions are rows of `penstock_positions`, in the schema of the sink's table. Each names the table that it belongs to
by its OID and the files that PostgreSQL keeps it in, and one row that was written last, with the number of its batch.
Dropping, replacing and truncating a table changes OID or files, and so do VACUUM FULL and a restored dump. Which of
these it was, the rows say: if they are in the table, the positions are adopted; if not, they belong to a table that is
gone. Where older rows may be missing, those of the last batch say: one transaction wrote them, after all others.
Results have no coordinates; the transaction that wrote them last is known by its id. Where two sinks write the same
records to one table, rows say nothing.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from penstock.errors import BatchAborted, Conflict
from penstock.record.formats import POSTGRES_TABLE, require_format
from penstock.record.positions import Positions, SourcePartition
from penstock.sinks.postgres_rows import Identity, Row, TableRows
from penstock.sinks.sink import Position

if TYPE_CHECKING:
    import psycopg

_TABLE = "penstock_positions"

# ruff: noqa: S608 - names are put in by psycopg, quoted; values are parameters
_MAKE = """
CREATE TABLE IF NOT EXISTS {positions} (
    pipeline text, sink text, topic_id text, partition integer, topic text NOT NULL, next_offset bigint NOT NULL,
    table_oid oid NOT NULL, table_files text NOT NULL, row_topic_id text, row_partition integer, row_offset bigint,
    row_batch bigint, format integer NOT NULL DEFAULT {version},
    PRIMARY KEY (pipeline, sink, topic_id, partition)
)"""
_VERSIONS = "SELECT DISTINCT format FROM {positions}"
# Whom the user belongs to, and who owns the server, the database, the schema or the table, could do as much already.
_MAKER = """
SELECT pg_get_userbyid(relowner), relkind = 'r' AND (
    pg_has_role(relowner, 'USAGE')
    OR (SELECT rolsuper FROM pg_roles WHERE oid = relowner)
    OR relowner = (SELECT datdba FROM pg_database WHERE datname = current_database())
    OR relowner = (SELECT nspowner FROM pg_namespace WHERE oid = relnamespace)
    OR relowner = coalesce((SELECT relowner FROM pg_class WHERE oid = to_regclass(%(table)s)), 0)),
    EXISTS (SELECT FROM pg_attribute WHERE attrelid = pg_class.oid AND attname = 'format' AND NOT attisdropped)
FROM pg_class WHERE oid = to_regclass(%(positions)s)"""
_KEY = "pipeline = %s AND sink = %s AND topic_id = %s AND partition = %s"
_READ = """
SELECT topic_id, partition, next_offset, table_oid, table_files, row_topic_id, row_partition, row_offset,
    row_batch
FROM {positions} WHERE pipeline = %s AND sink = %s"""
_INSERT = """
INSERT INTO {positions} AS old (
    pipeline, sink, topic_id, partition, topic, next_offset, table_oid, table_files,
    row_topic_id, row_partition, row_offset, row_batch
) VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s)
ON CONFLICT (pipeline, sink, topic_id, partition) DO UPDATE SET
    next_offset = excluded.next_offset, table_oid = excluded.table_oid, table_files = excluded.table_files,
    row_topic_id = excluded.row_topic_id, row_partition = excluded.row_partition, row_offset = excluded.row_offset,
    row_batch = excluded.row_batch
WHERE (old.table_oid, old.table_files) IS DISTINCT FROM (excluded.table_oid, excluded.table_files)"""
_UPDATE = f"""
UPDATE {{positions}} SET next_offset = %s,
    row_topic_id = coalesce(%s, row_topic_id), row_partition = coalesce(%s, row_partition),
    row_offset = coalesce(%s, row_offset), row_batch = coalesce(%s, row_batch)
WHERE {_KEY} AND next_offset = %s AND (table_oid, table_files) = (%s::oid, %s::text)"""
_ADOPT = f"UPDATE {{positions}} SET table_oid = %s, table_files = %s WHERE {_KEY}"
_FORGET = f"DELETE FROM {{positions}} WHERE {_KEY}"
_RECOVER = f"""
UPDATE {{positions}} SET next_offset = %s, table_oid = %s, table_files = %s,
    row_topic_id = %s, row_partition = %s, row_offset = %s
WHERE {_KEY}"""
_TAKE_ROWS = """
UPDATE {positions} AS at SET row_topic_id = former.row_topic_id, row_partition = former.row_partition,
    row_offset = former.row_offset, row_batch = former.row_batch
FROM {positions} AS former
WHERE (at.pipeline, at.sink) = (%s, %s) AND (former.pipeline, former.sink) = (at.pipeline, %s)
    AND (at.topic_id, at.partition, at.next_offset, at.table_oid, at.table_files)
    = (former.topic_id, former.partition, former.next_offset, former.table_oid, former.table_files)"""
_NAME = f"""
UPDATE {{positions}} SET row_topic_id = %s, row_partition = %s, row_offset = %s, row_batch = %s
WHERE {_KEY}"""
_LEAVE = "DELETE FROM {positions} WHERE (pipeline, sink, table_oid, table_files) = (%s, %s, %s::oid, %s)"
_NEXT_BATCH = "SELECT coalesce(max(row_batch), 0) + 1 FROM {positions} WHERE pipeline = %s AND sink = %s"
_SHARERS = """
SELECT pipeline, sink, topic_id, partition FROM {positions}
WHERE (pipeline, sink) <> (%s, %s) AND table_oid = ANY(%s::oid[])
    AND (topic_id, partition) IN (SELECT * FROM unnest(%s::text[], %s::integer[]))
ORDER BY pipeline, sink, topic_id, partition LIMIT 1"""
_OTHERS = """
SELECT pipeline, sink, topic_id, partition, next_offset FROM {positions}
WHERE (pipeline, sink) <> (%s, %s) AND table_oid = %s::oid"""
_NAME_ANOTHER = """
UPDATE {positions} SET row_offset = (SELECT max(_offset) FROM {table} WHERE _topic_id = %s AND _partition = %s)
WHERE pipeline = %s AND sink = %s
    AND row_topic_id = %s AND row_partition = %s AND row_offset >= %s AND row_offset < %s"""


@dataclass(frozen=True)
class _Position:
    key: tuple[str, int]
    next_offset: int
    oid: int
    files: str
    row: Row | None
    batch: int

    @property
    def is_of_a_replay(self) -> bool:
        """Return whether rows were written under another name than that of the partition where their records lie."""
        return self.row is not None and (self.row.topic_id, self.row.partition) != self.key

    def belongs_to(self, table: Identity) -> bool:
        return (self.oid, self.files) == (table.oid, table.files)


class PostgresPositions:
    """The positions of one sink. Every method works inside the transaction of the connection that it is given."""

    def __init__(self, table: str, pipeline: str, sink: str, *, is_upsert: bool, has_coordinates: bool) -> None:
        from psycopg import sql

        schema, _, name = table.rpartition(".")
        prefix = (schema,) if schema else ()
        self._name = table
        self._owner = [pipeline, sink]
        self._is_upsert = is_upsert
        self._has_coordinates = has_coordinates
        self._positions = sql.Identifier(*prefix, _TABLE)
        self.rows = TableRows(sql.Identifier(*prefix, name))
        self._batch = 1
        self.seen: Identity | None = None
        """The table as it was when positions were read last."""

    def make(self, connection: "psycopg.Connection[Any]") -> None:
        """Make the table of positions, if it is not there; refuse one that is a stranger's."""
        if not self._exists(connection):
            connection.execute(self._sql(_MAKE))

    def _exists(self, connection: "psycopg.Connection[Any]") -> bool:
        """Return whether there is a table of positions. What a stranger has made would run code in our name."""
        from psycopg import sql

        named = {"positions": self._positions.as_string(connection), "table": self.rows.name.as_string(connection)}
        found = connection.execute(_MAKER, named).fetchone()
        if found is not None and not found[1]:
            user = sql.Identifier(connection.info.user).as_string(connection)
            raise Conflict(
                f"{named['positions']} is not a table to keep positions in: user '{found[0]}' made it, and could run"
                " anything in the name of whoever uses it",
                safe="Nothing was written",
                fix="Remove it; or, if it is the table of your positions, let an administrator run:"
                f" ALTER TABLE {named['positions']} OWNER TO {user}",
            )
        if found is not None:
            self._require_understood(connection, named["positions"], has_versions=found[2])
        return found is not None

    def _require_understood(self, connection: "psycopg.Connection[Any]", shown: str, *, has_versions: bool) -> None:
        """Raise `FormatNotUnderstood` if a position, and so the coordinates of the rows, is of another version."""
        found = connection.execute(self._sql(_VERSIONS)).fetchall() if has_versions else [(None,)]
        for (version,) in found:
            require_format(f"the table {shown}", version, POSTGRES_TABLE, otherwise="write to another schema")

    def read(self, connection: "psycopg.Connection[Any]", source_partitions: Iterable[SourcePartition]) -> Positions:
        """Return the positions that are true of the table as it is now, and adopt those that turn out to be."""
        wanted = {
            (source_partition.topic_id, source_partition.partition): source_partition
            for source_partition in source_partitions
        }
        table = self.rows.look(connection)
        found = [each for each in self._all(connection) if each.key in wanted] if table else []
        if table and not all(each.belongs_to(table) for each in found):
            strange = [each for each in found if not each.belongs_to(table)]
            if self._holds(connection, table, strange):
                for each in strange:
                    connection.execute(self._sql(_ADOPT), [table.oid, table.files, *self._owner, *each.key])
            else:
                found = [each for each in found if each.belongs_to(table)]
        self.seen = table
        return {wanted[each.key]: each.next_offset for each in found}

    def _all(self, connection: "psycopg.Connection[Any]") -> list[_Position]:
        rows = connection.execute(self._sql(_READ), self._owner).fetchall() if self._exists(connection) else []
        return [
            _Position((topic_id, partition), at, oid, files, None if row[-1] is None else Row(*row), batch or 0)
            for topic_id, partition, at, oid, files, *row, batch in rows
        ]

    def _holds(self, connection: "psycopg.Connection[Any]", table: Identity, strange: list[_Position]) -> bool:
        """Return whether the table has the rows that were written last under these positions, and none beyond them."""
        is_shared = self._sharer(connection, table, strange) is not None
        if not is_shared and self._beyond(connection, table, strange):
            return False
        last = max((each.batch for each in strange if each.row is not None), default=0)
        rows = [each.row for each in strange if each.row is not None]
        newest = [each.row for each in strange if each.row is not None and each.batch == last]
        if not rows:
            return True  # nothing was ever written that could be missing
        if not self._has_coordinates:
            is_there = self.rows.has_any_written_by(connection, [str(row.offset) for row in newest])
            return is_there and all(each.oid == table.oid for each in strange)
        if is_shared:
            return False
        if self._is_upsert:
            # A row may have given way to one of another partition with its key.
            return bool(self.rows.find(connection, newest))
        missing = {*rows} - self.rows.find(connection, rows)
        if not table.is_partitioned or missing & {*newest}:
            return not missing
        # A row may have gone with an old part of the table. If there are others of its partition before it, it has not.
        return not missing or not self.rows.has_any_before(connection, missing)

    def _sharer(
        self, connection: "psycopg.Connection[Any]", table: Identity, positions: list[_Position]
    ) -> tuple[str, str, str, int] | None:
        """Find another sink that has written records of these partitions to this table, or to the one that it was."""
        if not positions or not self._has_coordinates:
            return None
        oids = [table.oid, *(each.oid for each in positions)]
        source_partitions = [list(each) for each in zip(*(each.key for each in positions), strict=True)]
        return connection.execute(self._sql(_SHARERS), [*self._owner, oids, *source_partitions]).fetchone()

    def others(self, connection: "psycopg.Connection[Any]") -> list[Position]:
        """Return where other sinks and pipelines stand that write to the table that `read` has seen."""
        if self.seen is None:
            return []
        found = connection.execute(self._sql(_OTHERS), [*self._owner, self.seen.oid]).fetchall()
        return [Position(*each) for each in found]

    def _beyond(
        self, connection: "psycopg.Connection[Any]", table: Identity, strange: list[_Position]
    ) -> tuple[str, int, int] | None:
        """Find a position of another table that rows of this one are beyond: from there on they would come twice.

        A table that was only rewritten keeps its OID; rows beyond a position of its own are those of another sink.
        """
        others = [(*each.key, each.next_offset) for each in strange if each.oid != table.oid]
        if not others or self._is_upsert or not self._has_coordinates:
            return None
        return self.rows.first_passed(connection, others)

    def hold(self, connection: "psycopg.Connection[Any]", *, alone: bool = False) -> None:
        """Keep the table from being dropped or truncated until the transaction ends; raise if that has happened.

        Hold it `alone` to change its columns: two sessions that share it first would wait for each other.
        """
        from psycopg import errors

        try:
            with connection.transaction():
                connection.execute(self._sql(f"LOCK TABLE {{table}} IN {'ACCESS' if alone else 'ROW'} EXCLUSIVE MODE"))
        except errors.UndefinedTable:
            raise BatchAborted(f"the table {self._name} was dropped while a batch was running") from None
        table = self.rows.look(connection)
        if self.seen is not None and table != self.seen:
            raise BatchAborted(f"the table {self._name} was changed while a batch was running")
        self.seen = table
        (self._batch,) = connection.execute(self._sql(_NEXT_BATCH), self._owner).fetchone() or (1,)

    def move(
        self,
        connection: "psycopg.Connection[Any]",
        source_partition: SourcePartition,
        expected: int | None,
        end: int,
        row: Row | None,
    ) -> bool:
        """Compare and set, after `hold`; the row lock keeps a second driver waiting until this transaction ends."""
        assert self.seen is not None  # noqa: S101 - `hold` has looked
        key = [*self._owner, source_partition.topic_id, source_partition.partition]
        table = [self.seen.oid, self.seen.files]
        last = (*row, self._batch) if row else (None, None, None, None)
        if expected is None:
            moved = connection.execute(self._sql(_INSERT), [*key, source_partition.topic, end, *table, *last])
        else:
            moved = connection.execute(self._sql(_UPDATE), [end, *last, *key, expected, *table])
        return moved.rowcount == 1

    def succeed(self, connection: "psycopg.Connection[Any]", former: str) -> None:
        """Know the table by the rows that the sink wrote last under a former name, and leave nothing under that one.

        To others it would be one more sink that writes to the table.
        """
        table = self.rows.look(connection)
        if table is not None:
            pipeline, _ = self._owner
            connection.execute(self._sql(_TAKE_ROWS), [*self._owner, former])
            connection.execute(self._sql(_LEAVE), [pipeline, former, table.oid, table.files])

    def name_rows(self, connection: "psycopg.Connection[Any]") -> None:
        """Know the table by the last rows that it has, where no row is named.

        Of two sinks that exchange their names, the first to move takes the place of the position that names a row of
        the other's.
        """
        table = self.rows.look(connection)
        if table is None or not self._has_coordinates:
            return
        for each in self._all(connection):
            if each.row is None and each.belongs_to(table):
                last = self.rows.last_before(connection, *each.key, each.next_offset)
                if last is not None:
                    connection.execute(self._sql(_NAME), [*each.key, last, self._batch, *self._owner, *each.key])

    def recover(self, connection: "psycopg.Connection[Any]", source_partitions: Iterable[SourcePartition]) -> bool:
        """Replace positions of a table that is gone: each goes on behind the last row that this table has before it.

        Return whether there were any.

        That is where a table stands that was restored from an older dump. Where it has no row, or takes rows twice
        without harm, the position is forgotten. Rows beyond a position of another table are refused: whose they are
        is not known. So are rows that a replay has put there since: what lies before them need not be there.
        """
        known = self.read(connection, source_partitions)
        wanted = {
            (source_partition.topic_id, source_partition.partition): source_partition
            for source_partition in source_partitions
        }
        lost = [each for each in self._all(connection) if each.key in wanted and wanted[each.key] not in known]
        sharer = self._sharer(connection, self.seen, lost) if self.seen else None
        beyond = self._beyond(connection, self.seen, lost) if self.seen and not sharer else None
        if beyond:
            topic_id, partition, at = beyond
            raise Conflict(
                f"the table {self._name} has rows of {wanted[topic_id, partition]} from offset {at} on, where the sink"
                " stands since it wrote to another table: they would be written twice",
                safe="Nothing was changed",
                fix="Name an empty table, or delete these rows if no other sink has written them:"
                f" DELETE FROM {self.rows.name.as_string(connection)} WHERE _topic_id = '{topic_id}'"
                f" AND _partition = {partition} AND _offset >= {at}",
            )
        for each in lost:
            last = None
            if self.seen and self._has_coordinates and not self._is_upsert:
                last = self.rows.last_before(connection, *each.key, each.next_offset)
            key = [*self._owner, *each.key]
            if self.seen is None or last is None:
                connection.execute(self._sql(_FORGET), key)
            elif sharer:
                raise self._not_told_apart(connection, wanted[each.key], sharer)
            elif any(other.is_of_a_replay and other.belongs_to(self.seen) for other in self._all(connection)):
                raise Conflict(
                    f"the table {self._name} was emptied, replaced or restored, and a replay has written to it since:"
                    f" how far its own rows of {wanted[each.key]} reach is not known",
                    safe="Nothing was changed",
                    fix="Empty or restore the table once more, and rebuild before anything is replayed",
                )
            else:
                values = [last + 1, self.seen.oid, self.seen.files, *each.key, last, *key]
                connection.execute(self._sql(_RECOVER), values)
        return bool(lost)

    def require_no_rows(
        self, connection: "psycopg.Connection[Any]", source_partitions: Iterable[SourcePartition]
    ) -> None:
        """Raise if the table has rows of partitions that the sink has no position at: they would come twice."""
        known = self.read(connection, source_partitions)
        if self.seen is None or not self._has_coordinates or self._is_upsert:
            return
        for each in source_partitions:
            if each not in known and self.rows.has_any_of(connection, each.topic_id, each.partition):
                pipeline, sink = self._owner
                raise Conflict(
                    f"sink '{sink}' has no position at {each}, and the table {self._name} has rows of it,"
                    " which would be written twice if it were filled from the source's start",
                    safe="Nothing was changed",
                    fix="If the sink had another name before, give it that name again. If not, name an empty table; or,"
                    f" if these rows may come again, run: penstock pipeline rebuild {pipeline} --may-repeat",
                )

    def _not_told_apart(
        self,
        connection: "psycopg.Connection[Any]",
        source_partition: SourcePartition,
        sharer: tuple[str, str, str, int],
    ) -> Conflict:
        pipeline, sink = self._owner
        return Conflict(
            f"the table {self._name} was rewritten, replaced or restored, and sink '{sharer[1]}' of pipeline"
            f" '{sharer[0]}' writes rows of {source_partition} to it, too: which of them this sink has written is"
            " not known",
            safe="Nothing was changed",
            fix="Name another table. Or, if no row is missing or penstock_positions is from the same dump, too, run:"
            f" UPDATE {self._positions.as_string(connection)} SET row_offset = NULL"
            f" WHERE pipeline = '{pipeline}' AND sink = '{sink}'",
        )

    def replaced(
        self, connection: "psycopg.Connection[Any]", source_partition: SourcePartition, start: int, end: int
    ) -> None:
        """Name other rows as the last ones, where those of a range were taken out."""
        record = [source_partition.topic_id, source_partition.partition]
        connection.execute(self._sql(_NAME_ANOTHER), [*record, *self._owner, *record, start, end])

    def _sql(self, text: str) -> Any:
        from psycopg import sql

        return sql.SQL(text).format(positions=self._positions, table=self.rows.name, version=POSTGRES_TABLE)
