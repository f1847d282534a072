"""A connection to PostgreSQL on which every wait has a time limit.

A server whose processes hang still acknowledges packets, so neither TCP nor the server's own `statement_timeout` ends
the wait; the client has to. A connection that was given up is closed: what it was asked to do may still happen, which
positions say.
"""

import time
from collections.abc import Generator
from typing import Any, TypeVar

import psycopg
from psycopg.abc import PQGen

_CONNECT_S = 10
_GRACE_S = 5.0
_CLOSING_S = 5.0
# A network that drops packets in silence: noticed within half a minute, too.
_TCP: dict[str, Any] = {
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 30_000,
}

Result = TypeVar("Result")


class PostgresConnection(psycopg.Connection[Any]):
    """Gives up, with an `OperationalError`, what is not answered in time."""

    answer_within_s = 60.0

    def wait(self, gen: PQGen[Result], *args: Any, **kwargs: Any) -> Result:
        """Do one thing on the connection, or close it."""
        return super().wait(self._in_time(gen), *args, **kwargs)

    def _in_time(self, gen: PQGen[Result]) -> Generator[Any, Any, Result]:
        """Pass on what the socket is waited for; psycopg wakes it up now and then with nothing."""
        deadline = time.monotonic() + self.answer_within_s
        try:
            wanted = next(gen)
            while True:
                ready = yield wanted
                if not ready and time.monotonic() >= deadline:
                    self.pgconn.finish()
                    raise psycopg.OperationalError(f"no answer within {self.answer_within_s:g} s")
                wanted = gen.send(ready)
        except StopIteration as done:
            result: Result = done.value
            return result

    def is_closing(self) -> None:
        """Wait for a moment only from here on."""
        self.answer_within_s = _CLOSING_S


def connect(statement_timeout_ms: int, **parameters: Any) -> PostgresConnection:
    """Open a connection in UTC; the server ends a statement after its time, and if it cannot, we do."""
    connection = PostgresConnection.connect(
        connect_timeout=_CONNECT_S, application_name="penstock", client_encoding="UTF8", **_TCP, **parameters
    )
    connection.answer_within_s = statement_timeout_ms / 1000 + _GRACE_S
    try:
        connection.execute(f"SET timezone = 'UTC'; SET statement_timeout = {statement_timeout_ms:d}")
        connection.commit()
    except BaseException:
        connection.close()
        raise
    return connection
