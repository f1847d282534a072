"""Where a PostgreSQL is, and what its errors mean."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Literal

from pydantic import BaseModel, Field

from penstock.errors import Conflict, Refused, SinkUnavailable
from penstock.secret import Secret

if TYPE_CHECKING:
    import psycopg

_WRITTEN_NOTHING = "Nothing of this batch was written to it"
# A failed login has no SQLSTATE in libpq, only a text.
_NOT_LET_IN = (
    "password authentication failed",
    "no password supplied",
    "does not exist",
    "is not permitted to log in",
    "permission denied for database",
    "pg_hba.conf",
    "SSL was required",
)


@contextmanager
def outage_is_transient(server: str, safe: str = _WRITTEN_NOTHING) -> Iterator[None]:
    """Tell a server that is away, which is waited for, from one that does not let us in, or not do this."""
    import psycopg

    try:
        yield
    except psycopg.errors.InsufficientPrivilege as error:
        raise Refused(f"PostgreSQL at {server} does not let this user do this: {first_line(error)}") from None
    except psycopg.errors.ReadOnlySqlTransaction as error:
        raise SinkUnavailable(f"PostgreSQL at {server} takes no writes: {first_line(error)}", safe=safe) from None
    except (psycopg.errors.ObjectNotInPrerequisiteState, psycopg.ProgrammingError) as error:
        raise Conflict(f"PostgreSQL at {server} cannot do this: {first_line(error)}", safe=safe) from None
    except (psycopg.errors.InvalidPassword, psycopg.errors.InvalidAuthorizationSpecification) as error:
        raise Refused(f"PostgreSQL at {server} does not let this user in: {first_line(error)}") from None
    except (psycopg.OperationalError, psycopg.InterfaceError) as error:
        text = first_line(error)
        if any(sign in text for sign in _NOT_LET_IN):
            raise Refused(f"PostgreSQL at {server} does not let this user in: {text}") from None
        raise SinkUnavailable(f"PostgreSQL at {server} does not answer: {text}", safe=safe) from None


def first_line(error: Exception) -> str:
    """Give what the server said, without hints and positions; the kind of error if it said nothing."""
    return (str(error).strip() or type(error).__name__).splitlines()[0]


class Server(BaseModel, frozen=True, extra="forbid", hide_input_in_errors=True):
    """Where a PostgreSQL is, and how to log in."""

    host: str = Field("127.0.0.1", description="Name or address of the server.")
    port: int = Field(5432, ge=1, le=65_535, description="Its port.")
    database: str = Field(description="The database.")
    user: str = Field(description="The user to log in as.")
    password: Secret | None = Field(None, description="`env:NAME` or `file:PATH`; never the password itself.")
    sslmode: Literal["disable", "prefer", "require", "verify-ca", "verify-full"] = Field(
        "prefer", description="How much of TLS is insisted on, as libpq understands it."
    )

    def connect(self) -> "psycopg.Connection[Any]":
        """Open a connection; the password is read now."""
        import psycopg

        with outage_is_transient(f"{self.host}:{self.port}"):
            return psycopg.connect(
                host=self.host,
                port=self.port,
                dbname=self.database,
                user=self.user,
                password=self.password.reveal() if self.password else None,
                sslmode=self.sslmode,
                connect_timeout=10,
                application_name="penstock",
                client_encoding="UTF8",
            )
