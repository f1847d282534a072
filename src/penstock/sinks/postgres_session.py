"""The driver's connection to PostgreSQL: opened when needed, reopened if it was lost, and closed once."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from penstock.errors import NotFound, Refused, SinkUnavailable
from penstock.sinks.postgres_server import Server, outage_is_transient

if TYPE_CHECKING:
    import psycopg

    from penstock.sinks.postgres_connection import PostgresConnection

_LOCK_TIMEOUT = "10s"


class PostgresSession:
    """One connection of a sink; `on_open` gets each one that is opened."""

    def __init__(
        self, server: Server, table: str, sink: str, on_open: "Callable[[psycopg.Connection[Any]], None]"
    ) -> None:
        self._server = server
        self._table = table
        self._sink = sink
        self._on_open = on_open
        self.connection: PostgresConnection | None = None

    @contextmanager
    def opened(self) -> Iterator["psycopg.Connection[Any]"]:
        """Yield the connection; a server that is away is an outage."""
        with outage_is_transient(f"{self._server.host}:{self._server.port}"):
            if self.connection is None or self.connection.closed:
                self.connection = self._server.connect()
                self._on_open(self.connection)
            yield self.connection

    def begin(self, connection: "psycopg.Connection[Any]") -> None:
        """Begin a transaction that waits for locks for a while only. Without one, `transaction()` would commit."""
        from psycopg import sql

        connection.rollback()
        connection.execute(sql.SQL("SET LOCAL lock_timeout = {}").format(_LOCK_TIMEOUT))

    @contextmanager
    def explained(self, connection: "psycopg.Connection[Any]") -> Iterator[None]:
        """Raise an error that names what is missing, not allowed or in use."""
        from psycopg import errors

        try:
            yield
        except errors.InsufficientPrivilege as error:
            connection.rollback()
            reason = error.diag.message_primary
            raise Refused(f"user '{self._server.user}' may not use {self._table}: {reason}") from None
        except errors.InvalidSchemaName:
            connection.rollback()
            schema = self._table.rpartition(".")[0]
            raise NotFound(f"the schema '{schema}' is not there", fix=f'Make it: CREATE SCHEMA "{schema}"') from None
        except errors.LockNotAvailable:
            connection.rollback()
            raise SinkUnavailable(f"a table of sink '{self._sink}' is in use") from None

    def roll_back(self) -> None:
        """Forget what was not committed."""
        import psycopg

        if self.connection is not None and not self.connection.closed:
            with suppress(psycopg.OperationalError):  # a connection that is cut is rolled back by the server
                self.connection.rollback()

    def close(self, at_last: "Callable[[psycopg.Connection[Any]], None]") -> None:
        """Roll back what is not committed, do what is left to do, and close the connection."""
        import psycopg

        if self.connection is None:
            return
        with suppress(psycopg.Error):
            if not self.connection.closed:
                self.connection.is_closing()
                self.connection.rollback()
                at_last(self.connection)
        self.connection.close()
