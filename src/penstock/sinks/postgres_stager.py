"""Copies rows into the staging table of a PostgreSQL sink, inside of a task."""

import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from penstock.decoders.decoded import Fault, fault
from penstock.delivery.positions import Stretch
from penstock.errors import Refused, SinkUnavailable
from penstock.sinks.postgres_types import row_values

if TYPE_CHECKING:
    from penstock.sinks.postgres import Server


@contextmanager
def outage_is_transient(server: str) -> Iterator[None]:
    """Tell a server that is away, which is waited for, from one that does not let us in."""
    import psycopg

    try:
        yield
    except (psycopg.errors.InvalidPassword, psycopg.errors.InvalidAuthorizationSpecification) as error:
        raise Refused(f"PostgreSQL at {server} does not let this user in: {_first_line(error)}") from None
    except (psycopg.OperationalError, psycopg.InterfaceError) as error:
        text = _first_line(error)
        if "password authentication failed" in text or "no password supplied" in text or "does not exist" in text:
            raise Refused(f"PostgreSQL at {server} does not let this user in: {text}") from None
        raise SinkUnavailable(
            f"PostgreSQL at {server} does not answer: {text}", safe="Nothing of this batch was written to it"
        ) from None


def _first_line(error: Exception) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]


def refusal_of(error: Any) -> Fault:
    """Describe why a row was refused; values stay out of it, for they may be secret."""
    message = error.diag.message_primary or _first_line(error)
    return fault(type(error).__name__, message, stage="sink")


class PostgresStagerFactory:
    """Opens a connection per stretch. The password is read where the task runs."""

    def __init__(self, server: "Server", stage: Any, columns: list[str]) -> None:
        self._server = server
        self._stage = stage
        self._columns = columns

    def __call__(self, _stretch: Stretch) -> "PostgresStager":
        """Connect."""
        return PostgresStager(self._server, self._stage, self._columns)


class PostgresStager:
    """Copies the rows of one attempt under a name that no other attempt has."""

    def __init__(self, server: "Server", stage: Any, columns: list[str]) -> None:
        from psycopg import sql

        self._address = f"{server.host}:{server.port}"
        self._name = uuid.uuid4().hex
        self._connection = server.connect()
        listed = sql.SQL(", ").join(map(sql.Identifier, [*columns, "_stage", "_at"]))
        self._copy = sql.SQL("COPY {} ({}) FROM STDIN").format(stage, listed)

    def write(self, rows: pa.RecordBatch, offsets: pa.Array) -> list[tuple[int, Fault]]:
        """Copy the rows; halve what is refused until the rows to blame stand alone."""
        import psycopg

        places = offsets.to_pylist()
        values = [[*row, self._name, at] for row, at in zip(row_values(rows), places, strict=True)]
        refused: list[tuple[int, Fault]] = []
        waiting = [(0, len(values))]
        with outage_is_transient(self._address):
            while waiting:
                first, last = waiting.pop()
                try:
                    with self._connection.transaction(), self._connection.cursor().copy(self._copy) as copy:
                        for row in values[first:last]:
                            copy.write_row(row)
                except (psycopg.DataError, psycopg.IntegrityError) as error:
                    if last - first == 1:
                        refused.append((first, refusal_of(error)))
                    else:
                        middle = (first + last) // 2
                        waiting += [(middle, last), (first, middle)]
        return refused

    def finish(self) -> dict[str, Any]:
        """Commit what was staged; it is nobody's row yet."""
        with outage_is_transient(self._address):
            self._connection.commit()
            self._connection.close()
        return {"stage": self._name}
