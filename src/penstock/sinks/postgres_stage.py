"""The staging table of one driver: nobody else's, private, and gone with the driver.

A lock that the driver's session holds says that it lives. A staging table whose lock is free was left by a driver that
was killed, and the next one to open a sink in the same schema drops it.
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from penstock.errors import BatchAborted
from penstock.sinks.postgres_rows import Identity
from penstock.sinks.postgres_table import add_columns, text_limits

if TYPE_CHECKING:
    import psycopg

_PREFIX = "penstock_stage_"
# Constraints come along, so that most rows that the table would refuse are refused while they are staged.
_MAKE = """
CREATE UNLOGGED TABLE {stage} (
    LIKE {table} INCLUDING CONSTRAINTS INCLUDING DEFAULTS INCLUDING GENERATED INCLUDING IDENTITY,
    _row bigserial, _stage text NOT NULL, _at bigint NOT NULL
)"""
_OTHERS = """
SELECT DISTINCT CASE WHEN grantee <> 0 THEN pg_get_userbyid(grantee) END FROM pg_class, aclexplode(relacl)
WHERE pg_class.oid = to_regclass(%s) AND grantee <> relowner"""
_REQUIRED = """
SELECT attname FROM pg_attribute
WHERE attrelid = to_regclass(%s) AND attnum > 0 AND NOT attisdropped AND attnotnull AND attidentity = ''
    AND attname NOT IN ('_row', '_stage', '_at')"""
_CLAIM = "SELECT pg_try_advisory_lock(hashtext('penstock_stage'), hashtext(%s))"
_ORPHANS = """
SELECT nspname, relname FROM pg_class JOIN pg_namespace ON pg_namespace.oid = relnamespace
WHERE nspname = coalesce(nullif(%s, ''), current_schema()) AND starts_with(relname, %s) AND relkind = 'r'
    AND pg_has_role(relowner, 'USAGE')
    AND pg_try_advisory_xact_lock(hashtext('penstock_stage'), hashtext(relname::text))"""


class Stage:
    """One staging table."""

    def __init__(self, schema: str, mark: str, table: Any) -> None:
        from psycopg import sql

        self._schema = schema
        self._relation = f"{_PREFIX}{mark}"
        self._table = table
        self._like: Identity | None = None
        self.text_limits: dict[str, int] = {}
        """How many characters columns of limited length take."""
        self.name = sql.Identifier(*((schema,) if schema else ()), self._relation)

    def claim(self, connection: "psycopg.Connection[Any]") -> None:
        """Say that the driver lives, for as long as the connection does."""
        connection.execute(_CLAIM, [self._relation])
        connection.commit()

    def drop_orphans(self, connection: "psycopg.Connection[Any]") -> None:
        """Drop what drivers and replays left that were killed."""
        from psycopg import sql

        for found in connection.execute(_ORPHANS, [self._schema, _PREFIX]).fetchall():
            if found[1] != self._relation:
                connection.execute(sql.SQL("DROP TABLE IF EXISTS {}").format(sql.Identifier(*found)))

    def make(
        self,
        connection: "psycopg.Connection[Any]",
        table: Identity | None,
        added: Iterable[pa.Field],
        *,
        has_changes: bool = False,
    ) -> None:
        """Make it like the table will be once columns are added, unless it is there and the table has not changed.

        Nobody else may read it, whatever the default privileges of the schema are. For changes it takes rows that say
        less than a row of the table has to.
        """
        from psycopg import sql

        named = [self.name.as_string(connection)]
        (exists,) = connection.execute("SELECT to_regclass(%s) IS NOT NULL", named).fetchone() or (False,)
        if exists and table == self._like:
            return
        connection.execute(sql.SQL("DROP TABLE IF EXISTS {}").format(self.name))
        connection.execute(sql.SQL(_MAKE).format(stage=self.name, table=self._table))
        add_columns(connection, self.name, added)
        self.text_limits = text_limits(connection, self.name)
        if has_changes:
            columns = "ADD _op text, ADD _unchanged text[], ADD _moved_from bigint"
            connection.execute(sql.SQL("ALTER TABLE {} " + columns).format(self.name))
            for (column,) in connection.execute(_REQUIRED, named).fetchall():
                dropping = sql.SQL("ALTER TABLE {} ALTER COLUMN {} DROP NOT NULL")
                connection.execute(dropping.format(self.name, sql.Identifier(column)))
        for (role,) in connection.execute(_OTHERS, named).fetchall():
            grantee = sql.SQL("PUBLIC") if role is None else sql.Identifier(role)
            connection.execute(sql.SQL("REVOKE ALL ON {} FROM {}").format(self.name, grantee))
        self._like = table

    def require_all(self, connection: "psycopg.Connection[Any]", stages: list[str], rows: int, sink: str) -> None:
        """Raise if staged rows are gone: a crashed server empties unlogged tables, and another driver drops them."""
        from psycopg import errors, sql

        query = sql.SQL("SELECT count(*) FROM {} WHERE _stage = ANY(%s)").format(self.name)
        try:
            with connection.transaction():
                (found,) = connection.execute(query, [stages]).fetchone() or (0,)
        except errors.UndefinedTable:
            found = 0
        if found != rows:
            raise BatchAborted(f"{rows - found} of {rows} rows staged for sink '{sink}' are gone")

    def clear(self, connection: "psycopg.Connection[Any]") -> None:
        """Leave nothing staged, neither what is in the table now nor what lost attempts of tasks have copied."""
        from psycopg import sql

        connection.execute(sql.SQL("DELETE FROM {}").format(self.name))

    def drop(self, connection: "psycopg.Connection[Any]") -> None:
        """Drop it, unless that means waiting: then the next driver does."""
        from psycopg import sql

        connection.execute("SET LOCAL lock_timeout = '100ms'")
        connection.execute("SET LOCAL synchronous_commit = off")
        connection.execute(sql.SQL("DROP TABLE IF EXISTS {}").format(self.name))
        connection.commit()
