"""Where a PostgreSQL is, and what its errors mean."""

import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Literal, Self

from pydantic import BaseModel, Field, model_validator

from penstock.errors import Conflict, NotFound, Refused, SinkUnavailable
from penstock.loopback import is_loopback
from penstock.quantities import DurationMs
from penstock.secret import PathFromFile, Secret

if TYPE_CHECKING:
    import psycopg

    from penstock.sinks.postgres_connection import PostgresConnection

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
    "authentication method requirement",
    "certificate verify failed",
    "does not match host name",
    "root certificate",
)
# Connection, transaction, resources, operator's intervention, foreign server, system: by class of SQLSTATE, or alone.
_OUTAGES = ("08", "25", "40", "53", "57", "58", "72", "F0", "HV", "55P03", "XX001", "XX002")


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
    except psycopg.Error as error:
        text = first_line(error)
        if is_login_refused(error):
            raise Refused(f"PostgreSQL at {server} does not let this user in: {text}") from None
        if is_outage(error):
            raise SinkUnavailable(f"PostgreSQL at {server} does not answer: {text}", safe=safe) from None
        raise Conflict(f"PostgreSQL at {server} cannot do this: {text}", safe=safe) from None


def is_outage(error: "psycopg.Error") -> bool:
    """Tell whether the server, or the way to it, is to blame, so that the same may succeed later."""
    import psycopg

    if error.sqlstate is None:
        return isinstance(error, psycopg.OperationalError | psycopg.InterfaceError)
    return error.sqlstate.startswith(_OUTAGES)


def is_login_refused(error: "psycopg.Error") -> bool:
    """Tell whether the server does not let us in."""
    if error.sqlstate is None:
        return any(sign in first_line(error) for sign in _NOT_LET_IN)
    return error.sqlstate.startswith("28")


def first_line(error: Exception) -> str:
    """Give what the server said, without hints and positions; the kind of error if it said nothing."""
    return (str(error).strip() or type(error).__name__).splitlines()[0]


class Server(BaseModel, frozen=True, extra="forbid", hide_input_in_errors=True):
    """Where a PostgreSQL is, and how to log in."""

    host: str = Field("127.0.0.1", description="Name or address of the server, or the folder of its Unix socket.")
    port: int = Field(5432, ge=1, le=65_535, description="Its port.")
    database: str = Field(description="The database.")
    user: str = Field(description="The user to log in as.")
    password: Secret | None = Field(
        None, description="`env:NAME` or `file:PATH`; never the password itself. It is used for SCRAM only."
    )
    sslmode: Literal["disable", "require", "verify-ca", "verify-full"] | None = Field(
        None,
        description="How much of TLS is insisted on, in libpq's words. `verify-full` if left out; on this machine and"
        " without a `ca_file`, TLS if the server has it.",
    )
    ca_file: PathFromFile | None = Field(
        None, description="PEM file of the CA that the server's certificate is from; the system's if left out."
    )
    statement_timeout: DurationMs = Field(
        300_000, gt=0, description="A statement that takes longer is ended, and counts as an outage."
    )

    @model_validator(mode="after")
    def _ca_is_named(self) -> Self:
        if self.sslmode == "verify-ca" and self.ca_file is None:
            raise ValueError("`sslmode: verify-ca` needs a `ca_file`: any name would do for any CA of the system")
        return self

    @property
    def is_local(self) -> bool:
        """Tell whether it is on this machine: a Unix socket, or a loopback address."""
        return all(each.startswith(("/", "@")) or is_loopback(each) for each in self.host.split(","))

    def connect(self) -> "PostgresConnection":
        """Open a connection; the password is read now."""
        from penstock.sinks.postgres_connection import connect

        with outage_is_transient(f"{self.host}:{self.port}"):
            return connect(
                self.statement_timeout,
                host=self.host,
                port=self.port,
                dbname=self.database,
                user=self.user,
                password=self.password.reveal() if self.password else None,
                **self.trust(),
            )

    def trust(self) -> dict[str, str]:
        """Say, in libpq's words, whom the password may be shown to: nobody. SCRAM proves it without showing it."""
        mode = self.sslmode or ("prefer" if self.is_local and self.ca_file is None else "verify-full")
        found = {"sslmode": mode, "require_auth": "scram-sha-256" if self.password else "!password,!md5"}
        if mode == "verify-full" or self.ca_file:
            found["sslrootcert"] = str(self.ca_file or _cas_of_the_system())
        return found


def _cas_of_the_system() -> str:
    """Find the system's CAs: psycopg brings an OpenSSL of its own, which does not know where they are."""
    found = ssl.get_default_verify_paths().cafile
    if found is None:
        raise NotFound("this machine has no file of trusted CAs", fix="Name the server's with `ca_file`")
    return found
