"""Connections for questions."""

from sqlalchemy import Connection, text

# Nobody waits longer than 30 seconds. Sums over many runs stay in memory; compiling them takes longer than they do.
_SETTINGS = {"statement_timeout": "30s", "work_mem": "64MB", "jit": "off"}


def bound(connection: Connection) -> Connection:
    """Return the connection, on which no question goes on for ever; for its present transaction.

    All statements of that see one state of the store: locations become one, and runs are cleaned, at any time.
    """
    if connection.dialect.name == "postgresql":
        connection.execute(text("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY"))
        for name, value in _SETTINGS.items():
            connection.execute(text(f"SET LOCAL {name} = '{value}'"))
    return connection
