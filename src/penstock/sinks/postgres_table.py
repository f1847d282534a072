"""The tables of a PostgreSQL sink: made if they are not there, refused if they cannot take what the pipeline makes."""

from typing import TYPE_CHECKING, Any

import pyarrow as pa

from penstock.errors import Conflict
from penstock.record.columns import COORDINATES
from penstock.sinks.postgres_insert import identifiers
from penstock.sinks.postgres_types import OF_THE_USER, column_type, holds

if TYPE_CHECKING:
    import psycopg

_DESCRIBE = """
SELECT attname, attnotnull AND NOT atthasdef AND attidentity = '', format_type(atttypid, atttypmod),
    CASE WHEN typtype = 'd' THEN format_type(typbasetype, typtypmod)
         WHEN typnamespace = 'pg_catalog'::regnamespace THEN format_type(atttypid, atttypmod) END
FROM pg_attribute JOIN pg_type ON pg_type.oid = atttypid
WHERE attrelid = to_regclass(%s) AND attnum > 0 AND NOT attisdropped"""

_NO_TABLE = "SELECT FROM pg_class WHERE oid = to_regclass(%s) AND relkind NOT IN ('r', 'p')"
_NOT_PERMANENT = """
SELECT oid::regclass::text FROM pg_class
WHERE relpersistence <> 'p'
    AND (oid = to_regclass(%(table)s) OR oid IN (SELECT relid FROM pg_partition_tree(to_regclass(%(table)s))))
ORDER BY relname LIMIT 1"""


def make_table(connection: "psycopg.Connection[Any]", table: Any, schema: pa.Schema, key: list[str]) -> None:
    """Make the table with a type for every column, if it is not there.

    Rows that are appended are looked for by their coordinates now and then. They come in the order of these, so an
    index that keeps their bounds for each megabyte is enough: it takes next to no room and time.
    """
    from psycopg import sql

    named = [table.as_string(connection)]
    (exists,) = connection.execute("SELECT to_regclass(%s) IS NOT NULL", named).fetchone() or (False,)
    if exists:
        return
    columns = [
        sql.SQL("{} {}").format(sql.Identifier(field.name), sql.SQL(column_type(field.type))) for field in schema
    ]
    if key:
        columns.append(sql.SQL("PRIMARY KEY ({})").format(identifiers(key)))
    connection.execute(sql.SQL("CREATE TABLE {} ({})").format(table, sql.SQL(", ").join(columns)))
    if not key:
        ordered = identifiers(COORDINATES)
        connection.execute(sql.SQL("CREATE INDEX ON {} USING brin ({}) WITH (autosummarize)").format(table, ordered))


def require_fitting(connection: "psycopg.Connection[Any]", table: Any, shown: str, schema: pa.Schema) -> None:
    """Refuse a table that would refuse every row, which is no record's fault, or change or lose rows without a word."""
    from psycopg import sql

    if connection.execute(_NO_TABLE, [table.as_string(connection)]).fetchone() is not None:
        raise Conflict(
            f"{shown} is no table, but a view or a foreign one: if its rows are lost, nobody would know",
            safe="Nothing was written",
            fix="Name the table where the rows are to be",
        )
    emptied = connection.execute(_NOT_PERMANENT, {"table": table.as_string(connection)}).fetchone()
    if emptied:
        raise Conflict(
            f"the table {emptied[0]} is unlogged or temporary: a crash of the server would empty it, and its positions"
            " would stay",
            safe="Nothing was written",
            fix=f"Make it permanent: ALTER TABLE {emptied[0]} SET LOGGED",
        )
    found = connection.execute(_DESCRIBE, [table.as_string(connection)]).fetchall()
    types = {name: (shown_type, basic or OF_THE_USER) for name, _, shown_type, basic in found}
    lacking = [name for name in schema.names if name not in types]
    if lacking:
        raise Conflict(
            f"the table {shown} has no column '{lacking[0]}'",
            safe="Nothing was written",
            fix=sql.SQL("Add it: ALTER TABLE {} ADD COLUMN {} {}")
            .format(table, sql.Identifier(lacking[0]), sql.SQL(column_type(schema.field(lacking[0]).type)))
            .as_string(connection),
        )
    insisting = [name for name, insists, _, _ in found if insists and name not in schema.names]
    if insisting:
        raise Conflict(
            f"the table {shown} insists on '{insisting[0]}', which the pipeline does not make",
            safe="Nothing was written",
            fix="Give the column a default, or make it in a step",
        )
    for field in schema:
        if not holds(field.type, types[field.name][1]):
            raise Conflict(
                f"the column '{field.name}' of the table {shown} is {types[field.name][0]}, and the pipeline makes"
                f" {field.type}: values could be changed without a word",
                safe="Nothing was written",
                fix=f"Cast it in a step, or make the column {column_type(field.type)}",
            )
