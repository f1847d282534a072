"""What a PostgreSQL needs before its changes can be captured, with the statement that fixes each problem."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from penstock.errors import NotFound

if TYPE_CHECKING:
    import psycopg

_ROLE = """
SELECT rolreplication OR rolsuper, rolsuper, has_database_privilege(current_database(), 'CREATE'), quote_ident(rolname),
    quote_ident(current_database())
FROM pg_roles WHERE rolname = current_user"""
_SLOTS = "SELECT count(*) FILTER (WHERE slot_name = %s), count(*) FROM pg_replication_slots"
_TABLE = """
SELECT relkind, pg_has_role(relowner, 'USAGE'), has_table_privilege(pg_class.oid, 'SELECT'),
    EXISTS (SELECT FROM pg_index WHERE indrelid = pg_class.oid AND indisprimary), pg_class.oid::regclass::text
FROM pg_class WHERE oid = to_regclass(%s)"""
# The table, or the partitions in which its rows are: each has a replica identity of its own.
_HAS_ROWS = """relkind = 'r' AND pg_class.oid IN (
    SELECT to_regclass(%s) UNION SELECT relid FROM pg_partition_tree(to_regclass(%s)))"""
_IDENTITY = f"SELECT pg_class.oid::regclass::text, relreplident FROM pg_class WHERE {_HAS_ROWS} ORDER BY 1"  # noqa: S608
# Debezium has no placeholder for these, and writes null where a large value stays the same.
_HIDES_VALUES = f"""
SELECT pg_class.oid::regclass::text, string_agg(quote_ident(attname), ', ' ORDER BY attnum)
FROM pg_class JOIN pg_attribute ON attrelid = pg_class.oid JOIN pg_type ON pg_type.oid = atttypid
WHERE {_HAS_ROWS} AND relreplident = 'd' AND attnum > 0 AND NOT attisdropped
    AND (typname IN ('bit', 'varbit') OR typcategory = 'A' AND typname NOT IN ('_text', '_varchar', '_bpchar', '_json',
        '_jsonb', '_bytea', '_int4', '_int8', '_date', '_uuid'))
GROUP BY 1 ORDER BY 1"""  # noqa: S608 - built of our own words
_KEY_IS_DEFERRABLE = """
SELECT quote_ident(conname) FROM pg_constraint WHERE conrelid = to_regclass(%s) AND contype = 'p' AND condeferrable"""
_GENERATED = """
SELECT nspname || '.' || relname || '.' || attname
FROM pg_attribute JOIN pg_class ON pg_class.oid = attrelid JOIN pg_namespace ON pg_namespace.oid = relnamespace
WHERE attgenerated <> '' AND NOT attisdropped AND nspname || '.' || relname = ANY(%s) ORDER BY 1"""
_PARTITIONED = """
SELECT EXISTS (SELECT FROM pg_class JOIN pg_namespace ON pg_namespace.oid = relnamespace
    WHERE relkind = 'p' AND nspname || '.' || relname = ANY(%s))"""
# Rows that a condition leaves out, and lists of columns, are not in the catalogue of a server before 15.
_UNPUBLISHED = """
SELECT name FROM unnest(%s::text[]) AS name
WHERE name NOT IN (SELECT schemaname || '.' || tablename
    FROM pg_publication_tables JOIN pg_publication USING (pubname)
    WHERE pubname = %s AND pubinsert AND pubupdate AND pubdelete AND pubtruncate)
OR name IN (SELECT nspname || '.' || relname
    FROM pg_publication_rel AS part JOIN pg_publication AS whole ON whole.oid = prpubid
    JOIN pg_class ON pg_class.oid = prrelid JOIN pg_namespace ON pg_namespace.oid = relnamespace
    WHERE pubname = %s AND coalesce(to_jsonb(part) ->> 'prqual', to_jsonb(part) ->> 'prattrs') IS NOT NULL)
ORDER BY 1"""
_SLOT = """
SELECT active, coalesce(wal_status, ''), pg_wal_lsn_diff(pg_current_wal_lsn(), restart_lsn)::bigint,
    pg_wal_lsn_diff(pg_current_wal_lsn(), confirmed_flush_lsn)::bigint, active_pid
FROM pg_replication_slots WHERE slot_name = %s AND database = current_database()"""


@dataclass(frozen=True)
class CaptureProblem:
    """Something that keeps a table from being captured."""

    what: str
    fix: str

    def __str__(self) -> str:
        return f"{self.what}. {self.fix}"


@dataclass(frozen=True)
class Slot:
    """A replication slot: what holds the database's log for a reader."""

    is_active: bool
    wal_status: str
    held_bytes: int | None
    """How much of the log the database keeps for it."""
    lag_bytes: int | None
    """How much of the log has not been confirmed."""
    pid: int | None


def capture_problems(connection: "psycopg.Connection[Any]", tables: list[str], slot: str) -> list[CaptureProblem]:
    """Return all problems; nothing is changed."""
    found = list[CaptureProblem]()
    (wal_level,) = connection.execute("SHOW wal_level").fetchone() or ("",)
    if wal_level != "logical":
        what = f"the database logs too little to capture changes: wal_level is {wal_level}"
        found.append(CaptureProblem(what, "Run: ALTER SYSTEM SET wal_level = logical; then restart PostgreSQL"))
    may_replicate, is_super, may_create, user, database = connection.execute(_ROLE).fetchone() or (
        False,
        False,
        False,
        "",
        "",
    )
    if not may_replicate:
        found.append(CaptureProblem(f"the user {user} may not replicate", f"Run: ALTER ROLE {user} REPLICATION"))
    if not may_create:
        what = f"the user {user} may make no publication in the database {database}"
        found.append(CaptureProblem(what, f"Run: GRANT CREATE ON DATABASE {database} TO {user}"))
    (most,) = connection.execute("SHOW max_replication_slots").fetchone() or ("0",)
    own, taken = connection.execute(_SLOTS, [slot]).fetchone() or (0, 0)
    if own:
        what = f"the replication slot {slot} is there already, and holds the log of the database"
        found.append(CaptureProblem(what, f"If nobody reads it, run: SELECT pg_drop_replication_slot('{slot}')"))
    elif taken >= int(most):
        what = f"all {most} replication slots of the server are taken"
        found.append(
            CaptureProblem(what, f"Run: ALTER SYSTEM SET max_replication_slots = {taken + 5}; then restart PostgreSQL")
        )
    for table in tables:
        found += _problems_of(connection, table, user, is_super=is_super)
    connection.rollback()
    return found


def _problems_of(
    connection: "psycopg.Connection[Any]", table: str, user: str, *, is_super: bool
) -> list[CaptureProblem]:
    known = connection.execute(_TABLE, [table]).fetchone()
    if known is None:
        return [CaptureProblem(f"there is no table {table}", "Name it with its schema, such as public.orders")]
    kind, owns, may_select, has_key, shown = known
    if kind not in {"r", "p"}:
        return [CaptureProblem(f"{shown} is a view or a foreign table", "Name the table that the rows are in")]
    found = list[CaptureProblem]()
    if not owns and not is_super:
        what = f"the user {user} does not own the table {shown}, and cannot publish it"
        found.append(CaptureProblem(what, f"Run: ALTER TABLE {shown} OWNER TO {user}"))
    if not may_select:
        found.append(CaptureProblem(f"the user {user} may not read {shown}", f"Run: GRANT SELECT ON {shown} TO {user}"))
    if not has_key:
        what = f"the table {shown} has no primary key: no change would say which row it is of"
        found.append(CaptureProblem(what, f"Run: ALTER TABLE {shown} ADD PRIMARY KEY (...)"))
    elif deferrable := connection.execute(_KEY_IS_DEFERRABLE, [table]).fetchone():
        # It identifies no row in the log, so PostgreSQL itself would refuse updates and deletes. Where whole rows are
        # logged, a row may get a key before the row that has it gives it up: the delete of that one takes out both.
        what = f"the primary key of {shown} is deferrable: it does not tell rows apart at every moment"
        fix = f"Run: ALTER TABLE {shown} DROP CONSTRAINT {deferrable[0]}, ADD PRIMARY KEY (...)"
        found.append(CaptureProblem(what, fix))
    else:
        for part, identity in connection.execute(_IDENTITY, [table, table]).fetchall():
            found += _problems_of_identity(part, identity)
    return found


def _problems_of_identity(shown: str, identity: str) -> Iterator[CaptureProblem]:
    if identity == "n":
        what = f"updates and deletes of {shown} do not say which row they are of: its replica identity is NOTHING"
        yield CaptureProblem(what, f"Run: ALTER TABLE {shown} REPLICA IDENTITY DEFAULT")
    elif identity == "i":
        # Of a row as it was, changes then hold the columns of the index, and null for all others: a null for a large
        # value that stays the same would be taken for one, as where whole rows are logged.
        what = f"changes of {shown} hold a part of the row as it was: its replica identity is an index"
        yield CaptureProblem(what, f"Run: ALTER TABLE {shown} REPLICA IDENTITY DEFAULT, or FULL")


def warnings(connection: "psycopg.Connection[Any]", tables: list[str]) -> list[str]:
    """Return warnings: what prevents no capture and should still be known."""
    found = [
        f"whether a null in {columns} of {shown} is one, or a large value that stays the same, changes do not"
        f" say: they become dead letters. To have none, run: ALTER TABLE {shown} REPLICA IDENTITY FULL"
        for table in tables
        for shown, columns in connection.execute(_HIDES_VALUES, [table, table]).fetchall()
    ]
    connection.rollback()
    return found


def named_tables(connection: "psycopg.Connection[Any]", tables: list[str]) -> list[str]:
    """Return tables with their schemas, as Debezium takes them."""
    query = """
        SELECT nspname || '.' || relname FROM pg_class JOIN pg_namespace ON pg_namespace.oid = relnamespace
        WHERE pg_class.oid = to_regclass(%s)"""
    found = []
    for table in tables:
        (name,) = connection.execute(query, [table]).fetchone() or (None,)
        if name is None:
            raise NotFound(f"there is no table {table}")
        found.append(str(name))
    connection.rollback()
    return found


def generated_columns(connection: "psycopg.Connection[Any]", tables: list[str]) -> list[str]:
    """Return generated columns, each with its table: they are not in the database's log."""
    found = [str(name) for (name,) in connection.execute(_GENERATED, [tables]).fetchall()]
    connection.rollback()
    return found


def publish(connection: "psycopg.Connection[Any]", publication: str, tables: list[str]) -> None:
    """Make a publication of these tables alone; changes of a partition are those of the table that it is a part of."""
    from psycopg import sql

    listed = sql.SQL(", ").join(sql.Identifier(*table.split(".", 1)) for table in tables)
    (is_partitioned,) = connection.execute(_PARTITIONED, [tables]).fetchone() or (False,)
    options = sql.SQL(" WITH (publish_via_partition_root = true)" if is_partitioned else "")
    statement = sql.SQL("CREATE PUBLICATION {} FOR TABLE {}{}")
    connection.execute(statement.format(sql.Identifier(publication), listed, options))
    connection.commit()


def unpublished(connection: "psycopg.Connection[Any]", publication: str, tables: list[str]) -> list[str]:
    """Return the tables of which nobody hears every change.

    A publication loses a table that is dropped; others may have altered it, to leave out kinds of changes, rows or
    columns.
    """
    values = [tables, publication, publication]
    found = [str(name) for (name,) in connection.execute(_UNPUBLISHED, values).fetchall()]
    connection.rollback()
    return found


def unpublish(connection: "psycopg.Connection[Any]", publication: str) -> None:
    """Drop a publication, if it is there."""
    from psycopg import sql

    connection.execute(sql.SQL("DROP PUBLICATION IF EXISTS {}").format(sql.Identifier(publication)))
    connection.commit()


def slot_of(connection: "psycopg.Connection[Any]", name: str) -> Slot | None:
    """Return a slot of this database; None if it is not there."""
    found = connection.execute(_SLOT, [name]).fetchone()
    connection.rollback()
    return None if found is None else Slot(*found)


def drop_slot(connection: "psycopg.Connection[Any]", name: str) -> bool:
    """Drop a slot that nobody reads; return whether it is gone."""
    found = slot_of(connection, name)
    if found is not None and found.pid is not None:
        connection.execute("SELECT pg_terminate_backend(%s)", [found.pid])
        connection.commit()
        return False
    if found is not None:
        connection.execute("SELECT pg_drop_replication_slot(%s)", [name])
        connection.commit()
    return True
