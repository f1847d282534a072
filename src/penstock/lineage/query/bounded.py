"""Connections for questions."""

import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import cast

from sqlalchemy import Connection, text
from sqlalchemy.exc import OperationalError

from penstock.errors import BadInput

LONGEST_S = 30
"""Seconds of a statement in PostgreSQL, and of all statements together in SQLite."""
# Sums over many runs stay in memory; compiling them takes longer than they do.
_SETTINGS = {"work_mem": "64MB", "jit": "off"}
_STEPS = 100_000  # of SQLite's machine, between two looks at the clock: less than a millisecond
_INTERRUPTED = {"57014", "SQLITE_INTERRUPT"}


@contextmanager
def bound(connection: Connection) -> Iterator[Connection]:
    """Yield the connection, on which no question goes on for ever; for its present transaction.

    All statements of that see one state of the store: locations become one, and runs are cleaned, at any time. Raises
    `BadInput` if a question takes too long.
    """
    is_postgres = connection.dialect.name == "postgresql"
    if is_postgres:
        connection.execute(text("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY"))
        for name, value in {**_SETTINGS, "statement_timeout": f"{LONGEST_S}s"}.items():
            connection.execute(text(f"SET LOCAL {name} = '{value}'"))
    else:
        _end_in_time(connection)
    try:
        yield connection
    except OperationalError as error:
        if {getattr(error.orig, name, "") for name in ("sqlstate", "sqlite_errorname")} & _INTERRUPTED:
            raise BadInput(
                f"the answer takes longer than {LONGEST_S} seconds",
                fix="Ask for less time, less depth, or a coarser granularity",
            ) from None
        raise
    finally:
        if not is_postgres:  # the next who gets the connection may write
            _driver(connection).set_progress_handler(None, 0)


def _end_in_time(connection: Connection) -> None:
    end = time.monotonic() + LONGEST_S
    _driver(connection).set_progress_handler(lambda: time.monotonic() > end, _STEPS)


def _driver(connection: Connection) -> sqlite3.Connection:
    return cast(sqlite3.Connection, connection.connection.driver_connection)
