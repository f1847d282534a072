"""Opening a lineage store: the engine that asks it, and which schema it has.

A store that is not there is made; one of an older schema is brought up to date by `penstock lineage migrate`, an SQLite
file by whoever writes to it; one that a newer Penstock made is refused.
"""

import sqlite3
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import psycopg
from psycopg import sql
from sqlalchemy import Connection, Engine, create_engine, event, insert, inspect, text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.pool import NullPool, QueuePool

from penstock.errors import Conflict, NotFound, SinkUnavailable
from penstock.lineage.store import tables
from penstock.lineage.store.address import StoreAddress
from penstock.private import make_missing_private, open_private
from penstock.sinks.postgres_connection import PostgresConnection
from penstock.sinks.postgres_server import Server, outage_is_transient

BUSY_S = 30
_WRITES = "writes"
_MIGRATIONS = Path(__file__).parent / "migrations"
_ONE_AT_A_TIME = "SELECT pg_advisory_xact_lock(hashtext('penstock_lineage'), hashtext(current_schema()))"


def connect_postgres(server: Server, schema: str) -> PostgresConnection:
    """Log in; names without a schema are in the store's."""
    connection = server.connect()
    try:
        connection.execute(sql.SQL("SET search_path = {}").format(sql.Identifier(schema)))
        connection.commit()
    except BaseException:
        connection.close()
        raise
    return connection


def connect_sqlite(path: Path) -> sqlite3.Connection:
    """Open the file, which has to be there. Readers see the last commit while somebody writes."""
    address = f"{path.absolute().as_uri()}?mode=rw"
    connection = sqlite3.connect(address, uri=True, timeout=BUSY_S, isolation_level=None, check_same_thread=False)
    try:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
        # SQLite's own knows no letters but those of ASCII.
        connection.create_function("lower", 1, _lower, deterministic=True)
    except BaseException:
        connection.close()
        raise
    return connection


def _lower(value: str | float | bytes | None) -> str | float | bytes | None:
    return value.lower() if isinstance(value, str) else value


def open_engine(address: StoreAddress, *, pool_size: int = 5) -> Engine:
    """Return an engine for a store of the schema that this Penstock knows; raise if there is none, or of another."""
    engine = _engine(address, pool_size=pool_size)
    try:
        with explained(address), engine.connect() as connection:
            _require_current(address, connection)
    except BaseException:
        engine.dispose()
        raise
    return engine


@contextmanager
def writing(engine: Engine) -> Iterator[Connection]:
    """Yield a connection that is committed at the end, for whoever reads something first and then writes.

    SQLite would refuse that at once if another had written in between, however long it may wait. So the file is locked
    from the beginning.
    """
    with engine.connect().execution_options(**{_WRITES: True}) as connection, connection.begin():
        yield connection


def open_or_make(address: StoreAddress) -> Engine:
    """Return an engine for a store that is written to: made if it is not there, an SQLite file brought up to date.

    Most are there and current: only if this one is not, there is more to look at, under the lock of whoever makes one.
    """
    try:
        return open_engine(address, pool_size=1)
    except (NotFound, Conflict):
        migrate(address, upgrade=False)
    return open_engine(address, pool_size=1)


def _engine(address: StoreAddress, *, pool_size: int | None = None) -> Engine:
    path, server = address.path, address.server
    pool: dict[str, Any] = {"poolclass": NullPool}
    if pool_size is not None:
        pool = {"poolclass": QueuePool, "pool_size": pool_size, "max_overflow": 0}
    if server is not None:
        return create_engine(
            "postgresql+psycopg://",
            creator=lambda: connect_postgres(server, address.schema_name),
            pool_pre_ping=pool_size is not None,
            **pool,
        )
    if path is None or not path.exists():
        raise _nothing_there(address)
    file = path
    engine = create_engine("sqlite://", creator=lambda: connect_sqlite(file), **pool)

    @event.listens_for(engine, "begin")
    def begin(connection: Connection) -> None:
        """Begin by ourselves: Python's sqlite3 would commit before it makes a table."""
        connection.exec_driver_sql("BEGIN IMMEDIATE" if connection.get_execution_options().get(_WRITES) else "BEGIN")

    return engine


@contextmanager
def explained(address: StoreAddress) -> Iterator[None]:
    """Distinguish a store that is away from one that cannot be used."""
    try:
        server = address.server
        if server is None:
            yield
        else:
            with outage_is_transient(f"{server.host}:{server.port}"):
                yield
    except sqlite3.OperationalError as error:
        raise SinkUnavailable(f"the lineage store {address} cannot be used: {error}") from None
    except sqlite3.DatabaseError as error:
        raise Conflict(f"{address} is not an SQLite file: {error}", safe="Nothing was written") from None
    except DBAPIError as error:
        with explained(address):
            raise error.orig or error from None


def migrate(address: StoreAddress, *, upgrade: bool = True) -> bool:
    """Make the store if it is not there, and bring its schema up to date; return whether anything was done.

    Without `upgrade`, a PostgreSQL of an older schema is refused: it may be large, and others may use it.
    """
    _make_place(address)
    engine = _engine(address)
    with explained(address), engine.begin() as connection:
        if address.server is not None:
            connection.exec_driver_sql(_ONE_AT_A_TIME)
        else:
            connection.exec_driver_sql("ROLLBACK")
            connection.exec_driver_sql("BEGIN IMMEDIATE")
        found = _revision(address, connection)
        if found == head():
            return False
        if found is not None and not upgrade and address.path is None:
            _require_current(address, connection)
        _upgrade(connection)
        if found is None:
            partition_by = address.partition_by or "month"
            connection.execute(insert(tables.store).values(id=uuid.uuid4(), partition_by=partition_by))
    return True


def _upgrade(connection: Connection) -> None:
    from alembic import command
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(_MIGRATIONS))
    config.attributes["connection"] = connection
    command.upgrade(config, "head")


def _make_place(address: StoreAddress) -> None:
    """Make the file, which only its owner reads, or the schema."""
    path, server = address.path, address.server
    if path is not None and not path.exists():
        make_missing_private(path.parent)
        with suppress(FileExistsError):
            open_private(path).close()
    if server is not None:
        with explained(address), server.connect() as connection:
            there = "SELECT FROM pg_namespace WHERE nspname = %s"
            if connection.execute(there, [address.schema_name]).fetchone() is None:
                make = sql.SQL("CREATE SCHEMA IF NOT EXISTS {}").format(sql.Identifier(address.schema_name))
                with suppress(psycopg.errors.UniqueViolation):  # somebody else was faster
                    connection.execute(make)


def head() -> str:
    """Return the schema that this Penstock knows."""
    return _revisions()[-1]


def _revisions() -> list[str]:
    """Return all that there were, by the names of their files: Alembic takes longer to load than most answers."""
    return sorted(each.stem[1:].partition("_")[0] for each in (_MIGRATIONS / "versions").glob("v*.py"))


def _revision(address: StoreAddress, connection: Connection) -> str | None:
    """Return which schema the store has; None if it has none yet."""
    found: str | None = None
    if inspect(connection).has_table("alembic_version"):
        found = connection.execute(text("SELECT version_num FROM alembic_version")).scalar_one_or_none()
    if found is not None and found not in _revisions():
        raise Conflict(
            f"the lineage store {address} has the schema {found}, which a newer Penstock made: this one knows {head()}",
            safe="Nothing was changed",
            fix="Use that Penstock, or a newer one",
        )
    return found


def _require_current(address: StoreAddress, connection: Connection) -> None:
    found = _revision(address, connection)
    if found is None:
        raise _nothing_there(address)
    if found != head():
        raise Conflict(
            f"the lineage store {address} has the schema {found}, and this Penstock works with {head()}",
            safe="Nothing was changed",
            fix=f"Bring it up to date with: penstock lineage migrate --store {address}",
        )


def _nothing_there(address: StoreAddress) -> NotFound:
    return NotFound(
        f"there is no lineage store at {address}",
        fix="Fill one from Kafka with: penstock lineage start;"
        f" or create an empty one with: penstock lineage migrate --store {address}",
    )
