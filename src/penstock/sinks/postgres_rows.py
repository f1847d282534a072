"""What a PostgreSQL table says of itself: by what it is recognised, and which rows it holds.

Nothing here knows of positions or decides anything. Every method works inside the transaction of the connection that it
is given, and changes nothing.
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    import psycopg
    from psycopg import sql


# A partitioned table has no file of its own; TRUNCATE gives all of its partitions new ones. Tables that inherit from it
# count like partitions, for its rows may be there.
_LOOK = """
SELECT oid, relkind = 'p',
    (WITH RECURSIVE tree AS (
        SELECT pg_class.oid AS relid UNION SELECT inhrelid FROM pg_inherits JOIN tree ON inhparent = relid)
     SELECT hashtextextended(string_agg(pg_relation_filenode(relid)::text, ',' ORDER BY relid), 0)::text FROM tree),
    (SELECT string_agg(format('%%s %%s %%s %%s', attname, atttypid, atttypmod, attnotnull), ',' ORDER BY attnum)
     FROM pg_attribute WHERE attrelid = pg_class.oid AND attnum > 0 AND NOT attisdropped),
    (SELECT string_agg(oid::text, ',' ORDER BY oid) FROM pg_constraint WHERE conrelid = pg_class.oid AND contype = 'c')
FROM pg_class WHERE oid = to_regclass(%s)"""
# One condition for each row, joined by OR: so an index is used if there is one, and one scan is enough if not.
_FIND = "SELECT DISTINCT _topic_id, _partition, _offset FROM {table} WHERE "
_IS_HERE = "(_topic_id = %s AND _partition = %s AND _offset = %s)"
_ANY = "SELECT FROM {table} WHERE "
_IS_BEFORE = "(_topic_id = %s AND _partition = %s AND _offset < %s)"
_ROWS_OF = "SELECT FROM {table} WHERE _topic_id = %s AND _partition = %s LIMIT 1"
_WRITTEN_BY = "SELECT EXISTS (SELECT FROM {table} WHERE xmin = ANY(%s::text[]::xid[]))"
_BEYOND = """
SELECT at.topic_id, at.partition, at.next_offset
FROM unnest(%s::text[], %s::integer[], %s::bigint[]) AS at (topic_id, partition, next_offset)
WHERE EXISTS (SELECT FROM {table} AS t
    WHERE t._topic_id = at.topic_id AND t._partition = at.partition AND t._offset >= at.next_offset)
ORDER BY at.topic_id, at.partition LIMIT 1"""
_LAST = "SELECT max(_offset) FROM {table} WHERE _topic_id = %s AND _partition = %s AND _offset < %s"


class Row(NamedTuple):
    """The coordinates of a row in the table."""

    topic_id: str
    partition: int
    offset: int


class Identity(NamedTuple):
    """What a table is recognised by."""

    oid: int
    files: str
    is_partitioned: bool
    columns: str
    checks: str | None


class TableRows:
    """One table of a server, and its rows, which are known by their coordinates."""

    def __init__(self, name: "sql.Identifier") -> None:
        self.name = name

    def look(self, connection: "psycopg.Connection[Any]") -> Identity | None:
        """Return what the table is recognised by; None if it is not there."""
        found = connection.execute(_LOOK, [self.name.as_string(connection)]).fetchone()
        return None if found is None else Identity(found[0], found[2], found[1], *found[3:])

    def find(self, connection: "psycopg.Connection[Any]", rows: Iterable[Row]) -> set[Row]:
        """Return those of the rows that are in the table."""
        listed = list(rows)
        query = self._sql(_FIND + " OR ".join([_IS_HERE] * len(listed)))
        return {Row(*found) for found in connection.execute(query, [part for row in listed for part in row])}

    def has_any_before(self, connection: "psycopg.Connection[Any]", rows: Iterable[Row]) -> bool:
        """Return whether there is a row of the same partition before any of these."""
        listed = list(rows)
        query = self._sql(_ANY + " OR ".join([_IS_BEFORE] * len(listed)) + " LIMIT 1")
        return connection.execute(query, [part for row in listed for part in row]).fetchone() is not None

    def has_any_of(self, connection: "psycopg.Connection[Any]", topic_id: str, partition: int) -> bool:
        """Return whether there is a row of a partition."""
        return connection.execute(self._sql(_ROWS_OF), [topic_id, partition]).fetchone() is not None

    def has_any_written_by(self, connection: "psycopg.Connection[Any]", transactions: list[str]) -> bool:
        """Return whether there is a row that one of these transactions wrote last."""
        (is_there,) = connection.execute(self._sql(_WRITTEN_BY), [transactions]).fetchone() or (False,)
        return bool(is_there)

    def first_passed(
        self, connection: "psycopg.Connection[Any]", positions: list[tuple[str, int, int]]
    ) -> tuple[str, int, int] | None:
        """Return the first of the positions (topic id, partition, next offset) that rows are at or beyond."""
        return connection.execute(self._sql(_BEYOND), [list(each) for each in zip(*positions, strict=True)]).fetchone()

    def last_before(
        self, connection: "psycopg.Connection[Any]", topic_id: str, partition: int, offset: int
    ) -> int | None:
        """Return the offset of the last row of a partition before an offset; None if there is none."""
        (last,) = connection.execute(self._sql(_LAST), [topic_id, partition, offset]).fetchone() or (None,)
        return last

    def _sql(self, text: str) -> Any:
        from psycopg import sql

        return sql.SQL(text).format(table=self.name)
