"""Where a PostgreSQL is, and what its errors mean."""

import ipaddress
import re
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Literal, Self

from pydantic import BaseModel, Field, field_validator, model_validator

from penstock.errors import BadInput, Conflict, NotFound, Refused, SinkUnavailable
from penstock.loopback import is_loopback
from penstock.quantities import DurationMs
from penstock.secret import PathFromFile, Secret, is_url_with_login

if TYPE_CHECKING:
    import psycopg

    from penstock.sinks.postgres_connection import PostgresConnection

_HOST_NAME = re.compile(r"[\w.-]*")
# How libpq begins what it says of a server that our own words have named; and the resolver, with a number.
_ADDRESS_AGAIN = re.compile(
    r'^(connection failed: )?(connection to server at "[^"]*"( \([^)]*\))?, port \d+ failed: )?'
)
_NUMBER = re.compile(r"^.*\[Errno -?\d+\] ")
_WRITTEN_NOTHING = "Nothing was written to it"
# A failed login has no SQLSTATE in libpq, only a text; and what fixes it.
_NOT_THERE = "does not exist"
_WAYS_IN = {
    "password authentication failed": "Check that user '{user}' exists, and its password ({password})",
    "no password supplied": "Say where the password of user '{user}' is: `password: env:NAME`, or file:PATH",
    "is not permitted to log in": "Let the user log in: ALTER ROLE ... LOGIN",
    "permission denied for database": "Let the user in: GRANT CONNECT ON DATABASE ...",
    "pg_hba.conf": "Let the user in from this machine in the server's pg_hba.conf",
    "SSL was required": "Turn TLS on at the server; on a network that nobody else is on, say `sslmode: disable`",
    "authentication method requirement": "Have the server keep and ask for passwords as scram-sha-256",
    "certificate verify failed": "Name the CA that the server's certificate is from with `ca_file`",
    "does not match host name": "Name the server with `host` as its certificate does",
    "root certificate": "Name a PEM file of the server's CA with `ca_file`",
    _NOT_THERE: "Make it, or name another one with `user` or `database`",
}
# Connection, transaction, resources, operator's intervention, foreign server, system: by class of SQLSTATE, or alone.
_OUTAGES = ("08", "25", "40", "53", "57", "58", "72", "F0", "HV", "55P03", "XX001", "XX002")


@contextmanager
def outage_is_transient(server: str, safe: str = _WRITTEN_NOTHING) -> Iterator[None]:
    """Distinguish a server that is away, which is waited for, from one that does not let us in, or not do this."""
    import psycopg

    try:
        yield
    except (psycopg.errors.InsufficientPrivilege, psycopg.errors.InvalidAuthorizationSpecification) as error:
        raise Refused(f"PostgreSQL at {server} does not let this user do this: {first_line(error)}") from None
    except psycopg.errors.ReadOnlySqlTransaction as error:
        raise SinkUnavailable(f"PostgreSQL at {server} takes no writes: {first_line(error)}", safe=safe) from None
    except psycopg.Error as error:
        text = first_line(error)
        if is_outage(error):
            text = _NUMBER.sub("", _ADDRESS_AGAIN.sub("", text))
            fix = "Check whether it runs, and its address"
            raise SinkUnavailable(f"PostgreSQL at {server} does not answer: {text}", safe=safe, fix=fix) from None
        raise Conflict(f"PostgreSQL at {server} cannot do this: {text}", safe=safe) from None


def is_outage(error: "psycopg.Error") -> bool:
    """Return whether the server, or the way to it, is to blame, so that the same may succeed later."""
    import psycopg

    if error.sqlstate is None:
        return isinstance(error, psycopg.OperationalError | psycopg.InterfaceError)
    return error.sqlstate.startswith(_OUTAGES)


def first_line(error: Exception) -> str:
    """Return what the server said, without hints and positions; the kind of error if it said nothing."""
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

    @field_validator("host")
    @classmethod
    def _host_is_no_more_than_a_host(cls, value: str) -> str:
        for each in value.split(","):
            if not each.startswith(("/", "@")) and _HOST_NAME.fullmatch(each) is None and not _is_address(each):
                # It is not repeated: `user:password@host` is what people write elsewhere.
                raise ValueError("a host is a name or an address alone: `user`, `password` and `port` are keys")
        return value

    @field_validator("database")
    @classmethod
    def _database_is_no_address(cls, value: str) -> str:
        if "://" in value or is_url_with_login(value):  # not repeated either
            raise ValueError("a database is a name alone: `host`, `user` and `password` are keys")
        return value

    @model_validator(mode="after")
    def _ca_is_named(self) -> Self:
        if self.sslmode == "verify-ca" and self.ca_file is None:
            raise ValueError("`sslmode: verify-ca` needs a `ca_file`: any name would do for any CA of the system")
        if self.sslmode == "disable" and self.ca_file is not None:
            raise ValueError("`sslmode: disable` looks at no certificate: leave out either it or `ca_file`")
        return self

    @property
    def is_local(self) -> bool:
        """Return whether it is on this machine: a Unix socket, or a loopback address."""
        return all(each.startswith(("/", "@")) or is_loopback(each) for each in self.host.split(","))

    def connect(self) -> "PostgresConnection":
        """Open a connection; the password is read now."""
        from penstock.sinks.postgres_connection import connect

        if self.ca_file is not None and not self.ca_file.is_file():
            raise BadInput(f"there is no ca_file {self.ca_file}", fix="Name the PEM file of the server's CA")
        with outage_is_transient(f"{self.host}:{self.port}"), self._refusal_explained():
            return connect(
                self.statement_timeout,
                host=self.host,
                port=self.port,
                dbname=self.database,
                user=self.user,
                password=self.password.reveal() if self.password else None,
                **self.trust(),
            )

    @contextmanager
    def _refusal_explained(self) -> Iterator[None]:
        """Distinguish a server that does not let us in from one that does not answer: waiting does not help."""
        import psycopg

        try:
            yield
        except psycopg.OperationalError as error:
            text = first_line(error)
            sign = next((each for each in _WAYS_IN if each in text), None)
            if sign is None:
                raise
            source = self.password.source if self.password else "`password`"
            kind = NotFound if sign == _NOT_THERE else Refused
            raise kind(
                f"PostgreSQL at {self.host}:{self.port} does not let this user in:"
                f" {text.rpartition('FATAL:')[2].strip()}",
                fix=_WAYS_IN[sign].format(user=self.user, password=source),
            ) from None

    def trust(self) -> dict[str, str]:
        """Say, in libpq's words, whom the password may be shown to: nobody. SCRAM proves it without showing it."""
        mode = self.sslmode or ("prefer" if self.is_local and self.ca_file is None else "verify-full")
        found = {"sslmode": mode, "require_auth": "scram-sha-256" if self.password else "!password,!md5"}
        if mode == "verify-full" or self.ca_file:
            found["sslrootcert"] = str(self.ca_file or cas_of_the_system())
        return found


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def cas_of_the_system() -> str:
    """Find the system's CAs: psycopg brings an OpenSSL of its own, which does not know where they are."""
    found = ssl.get_default_verify_paths().cafile
    if found is None:
        raise NotFound("this machine has no file of trusted CAs", fix="Name the server's with `ca_file`")
    return found
