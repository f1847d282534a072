"""The tables of a PostgreSQL sink: made if they are not there, refused if they cannot take what the pipeline makes."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from penstock.errors import Conflict
from penstock.record.columns import COORDINATES
from penstock.sinks.postgres_insert import identifiers
from penstock.sinks.postgres_types import OF_THE_USER, column_type, holds
from penstock.sinks.schema_change import NewColumns, SchemaChange

if TYPE_CHECKING:
    import psycopg

_DESCRIBE = """
SELECT attname, attnotnull AND NOT atthasdef AND attidentity = '', format_type(atttypid, atttypmod),
    CASE WHEN typtype = 'd' THEN format_type(typbasetype, typtypmod)
         WHEN typnamespace = 'pg_catalog'::regnamespace THEN format_type(atttypid, atttypmod) END
FROM pg_attribute JOIN pg_type ON pg_type.oid = atttypid
WHERE attrelid = to_regclass(%s) AND attnum > 0 AND NOT attisdropped"""

_LIMITS = """
SELECT attname, (CASE typtype WHEN 'd' THEN typtypmod ELSE atttypmod END) - 4
FROM pg_attribute JOIN pg_type ON pg_type.oid = atttypid
WHERE attrelid = to_regclass(%s) AND attnum > 0 AND NOT attisdropped
    AND 'varchar'::regtype = CASE typtype WHEN 'd' THEN typbasetype ELSE atttypid END
    AND (CASE typtype WHEN 'd' THEN typtypmod ELSE atttypmod END) > 0"""

_OWNS = "SELECT pg_has_role(relowner, 'USAGE') FROM pg_class WHERE oid = to_regclass(%s)"
_NO_TABLE = "SELECT FROM pg_class WHERE oid = to_regclass(%s) AND relkind NOT IN ('r', 'p')"
_NOT_PERMANENT = """
SELECT oid::regclass::text FROM pg_class
WHERE relpersistence <> 'p'
    AND (oid = to_regclass(%(table)s) OR oid IN (SELECT relid FROM pg_partition_tree(to_regclass(%(table)s))))
ORDER BY relname LIMIT 1"""

_SCHEMA = """
SELECT coalesce(
    (SELECT nspname FROM pg_class JOIN pg_namespace ON pg_namespace.oid = relnamespace
     WHERE pg_class.oid = to_regclass(%s)), current_schema())::text"""
# What others call the same server: another name, another address, a socket. It was started once.
_THERE = """
SELECT pg_postmaster_start_time()::text, current_database(),
    (SELECT relnamespace::regnamespace::text || '.' || quote_ident(relname) FROM pg_class
     WHERE oid = coalesce(pg_partition_root(to_regclass(%(table)s)), to_regclass(%(table)s)))"""


def schema_of(connection: "psycopg.Connection[Any]", table: str) -> str:
    """Return the schema in which the search path finds a table, or would have it made; nothing if there is none."""
    from psycopg import sql

    (found,) = connection.execute(_SCHEMA, [sql.Identifier(table).as_string(connection)]).fetchone() or ("",)
    return found or ""


def table_there(connection: "psycopg.Connection[Any]", table: str) -> str:
    """Name a table, with server and database, so that no other has the name, and it has no other."""
    from psycopg import sql

    schema, _, name = table.rpartition(".")
    schema = schema or schema_of(connection, name)
    identifier = sql.Identifier(*((schema,) if schema else ()), name).as_string(connection)
    server, database, found = connection.execute(_THERE, {"table": identifier}).fetchone() or ("", "", None)
    return f"{server}/{database}/{found or identifier}"


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


def require_fitting(
    connection: "psycopg.Connection[Any]", table: Any, shown: str, schema: pa.Schema, new_columns: NewColumns
) -> SchemaChange:
    """Refuse a table that would refuse every row, which is no record's fault, or change or lose rows silently.

    Return the columns that it lacks, and that this user may add.
    """
    if connection.execute(_NO_TABLE, [table.as_string(connection)]).fetchone() is not None:
        raise Conflict(
            f"{shown} is not a table, but a view or a foreign one: if its rows are lost, nobody would know",
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
    lacking = [field for field in schema if field.name not in types]
    if lacking:
        _require_addable(connection, table, shown, lacking, new_columns)
    insisting = [name for name, insists, _, _ in found if insists and name not in schema.names]
    if insisting:
        raise Conflict(
            f"the table {shown} insists on '{insisting[0]}', which the pipeline does not make",
            safe="Nothing was written",
            fix="Give the column a default, or make it in a step",
        )
    for field in schema:
        if field.name in types and not holds(field.type, types[field.name][1]):
            raise Conflict(
                f"the column '{field.name}' of the table {shown} is {types[field.name][0]}, and the pipeline makes"
                f" {field.type}: values could be changed silently",
                safe="Nothing was written",
                fix=f"Cast it in a step, or make the column {column_type(field.type)}",
            )
    return SchemaChange(tuple(lacking))


def text_limits(connection: "psycopg.Connection[Any]", table: Any) -> dict[str, int]:
    """Return how many characters each column takes that is of type `varchar(n)`, or of a domain over one."""
    return dict(connection.execute(_LIMITS, [table.as_string(connection)]).fetchall())


def _require_addable(
    connection: "psycopg.Connection[Any]", table: Any, shown: str, lacking: list[pa.Field], new_columns: NewColumns
) -> None:
    """Raise unless columns may be added, and this user can: the coordinates are asked for before any row comes."""
    (owns,) = connection.execute(_OWNS, [table.as_string(connection)]).fetchone() or (False,)
    refused = [each for each in lacking if each.name in COORDINATES or new_columns == "refuse" or not owns]
    if refused:
        because = "" if owns else f", and user '{connection.info.user}' does not own it"
        raise Conflict(
            f"the table {shown} has no column '{refused[0].name}'{because}",
            safe="Nothing was written",
            fix=f"Add it: {_adding(table, refused[0]).as_string(connection)}",
        )


def add_columns(connection: "psycopg.Connection[Any]", table: Any, fields: Iterable[pa.Field]) -> None:
    """Add columns, which are null in the rows that are there; no row is rewritten."""
    for field in fields:
        connection.execute(_adding(table, field))


def _adding(table: Any, field: pa.Field) -> Any:
    from psycopg import sql

    kind = sql.SQL(column_type(field.type))
    return sql.SQL("ALTER TABLE {} ADD COLUMN {} {}").format(table, sql.Identifier(field.name), kind)
