"""The catalog that an Iceberg table is in: an SQLite file beside the table, or by URL a REST catalog or PostgreSQL.

A catalog says which metadata are the table's newest, and changes that in one step or not at all. One that does not
answer is waited for; every request has an end. Secrets are revealed where the catalog is opened, and nowhere else.
"""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Self
from urllib.parse import SplitResult, parse_qs, quote, urlencode, urlsplit

from pydantic import BaseModel, Field, field_validator, model_validator

from penstock.delivery.durable import locked, make_folder
from penstock.errors import Conflict, Refused, SinkUnavailable
from penstock.loopback import is_loopback
from penstock.secret import PathFromFile, Secret, is_url_with_login
from penstock.sinks.postgres_server import cas_of_the_system

_FILE = "iceberg.db"
_CONNECT_S, _ANSWER_S = 10, 60
_CHECKED = "verify-full"
_WRITTEN_NOTHING = "Nothing was written"
UNSURE = "Whether this batch was committed is checked before the next one"


class Catalog(BaseModel, frozen=True, extra="forbid", hide_input_in_errors=True):
    """Where the catalog is, and how to get in."""

    path: PathFromFile | None = Field(
        None, description="SQLite file; `iceberg.db` beside the table's folder if no `url` is given either."
    )
    url: str | None = Field(
        None, description="A REST catalog, `https://host/path`, or PostgreSQL, `postgresql://user@host:5432/database`."
    )
    name: str = Field("penstock", min_length=1, description="Name of the catalog, which its rows in SQL carry.")
    warehouse: str | None = Field(None, description="The warehouse to ask a REST catalog for, if it has several.")
    token: Secret | None = Field(None, description="`env:NAME` or `file:PATH` of a REST catalog's bearer token.")
    credential: Secret | None = Field(
        None, description="`env:NAME` or `file:PATH` of `id:secret`, for which a REST catalog gives a token."
    )
    password: Secret | None = Field(None, description="`env:NAME` or `file:PATH` of the password for PostgreSQL.")

    @field_validator("url")
    @classmethod
    def _url_is_an_address_alone(cls, value: str | None) -> str | None:
        if value is None:
            return None
        # It is not repeated: it may hold a password, whose slash ends the server early; and so is a name for HTTP one.
        parts = urlsplit(value)
        is_login = parts.username is not None and parts.scheme in {"http", "https"}
        if is_url_with_login(value) or is_login or "@" in parts.path + parts.query + parts.fragment:
            raise ValueError("no password is written here: name it with `password`, `token` or `credential`")
        if parts.scheme not in {"http", "https", "postgresql"} or not parts.netloc:
            raise ValueError("a catalog's url begins with https://, http:// or postgresql://")
        return value

    @model_validator(mode="after")
    def _secrets_have_a_use(self) -> Self:
        if self.url is not None and self.path is not None:
            raise ValueError("a catalog is a `path` or a `url`, not both")
        if (self.token or self.credential or self.warehouse) and not self.is_rest:
            raise ValueError("`token`, `credential` and `warehouse` are for a REST catalog")
        if self.password and (self.url is None or self.is_rest):
            raise ValueError("`password` is for a catalog in PostgreSQL")
        return self

    @property
    def is_rest(self) -> bool:
        """Return whether it is asked by HTTP."""
        return self.url is not None and urlsplit(self.url).scheme in {"http", "https"}

    @property
    def is_open_to_strangers(self) -> bool:
        """Return whether another machine is asked whose name nobody checks; what it answers is believed."""
        address = urlsplit(self.url or "")
        mode = parse_qs(address.query).get("sslmode", [_CHECKED])[-1]
        is_checked = address.scheme == "https" or (address.scheme == "postgresql" and mode == _CHECKED)
        return self.url is not None and not is_checked and not _is_here(address)

    def file(self, table: Path) -> Path:
        """Return the SQLite file, for a table in this folder."""
        return self.path or table.resolve().parent / _FILE

    def is_there(self, table: Path) -> bool:
        """Return whether it can be asked; an SQLite file is made with the first table."""
        return self.url is not None or self.file(table).exists()

    def shown(self, table: Path) -> str:
        """Return where it is, in words for people."""
        return self.url or str(self.file(table))


def open_catalog(spec: Catalog, table: Path) -> Any:
    """Connect to the catalog of the table in this folder; an SQLite file is made if it is not there."""
    folder = table.resolve()
    with asked(spec, table):
        if spec.is_rest:
            return _rest(spec, folder)
        from penstock.sinks.iceberg_catalogs import LocalSqlCatalog

        settings = {"init_catalog_tables": "false"}
        if spec.url is not None:
            return LocalSqlCatalog(spec.name, folder, uri=_postgres_url(spec), pool_pre_ping="true", **settings)
        file = spec.file(table).resolve()
        make_folder(file.parent)
        return LocalSqlCatalog(spec.name, folder, uri=f"sqlite:///{file}", **settings)


def make_catalog(catalog: Any) -> None:
    """Make the tables that a catalog in SQL keeps, unless they are there."""
    if not hasattr(catalog, "create_tables") or _has_tables(catalog):
        return
    file = catalog.engine.url.database if catalog.engine.dialect.name == "sqlite" else None
    with ExitStack() as stack:
        if file is not None:
            # One at a time: two that make them at once would be in each other's way.
            stack.enter_context(locked(Path(file).with_name(f".{Path(file).name}.lock")))
        catalog.create_tables()


def found_in(catalog: Any, identifier: str) -> Any:
    """Return a table as it is now; raise the library's `NoSuchTableError` if there is none, or no catalog."""
    from pyiceberg.exceptions import NoSuchTableError

    if catalog is None or (hasattr(catalog, "create_tables") and not _has_tables(catalog)):
        raise NoSuchTableError
    return catalog.load_table(identifier)


def _has_tables(catalog: Any) -> bool:
    from sqlalchemy import inspect

    return bool(inspect(catalog.engine).has_table("iceberg_tables"))


def _rest(spec: Catalog, folder: Path) -> Any:
    from penstock.sinks.iceberg_catalogs import LocalRestCatalog

    given = {"uri": spec.url, "warehouse": spec.warehouse}
    secrets = {"token": spec.token, "credential": spec.credential}
    settings = {name: value for name, value in given.items() if value is not None}
    settings |= {name: secret.reveal() for name, secret in secrets.items() if secret is not None}
    return LocalRestCatalog(spec.name, folder, connect_s=_CONNECT_S, answer_s=_ANSWER_S, **settings)


def _postgres_url(spec: Catalog) -> str:
    """Return the address with the password, which as at a sink is shown to no server, and elsewhere known by its name.

    What the address says wins.
    """
    address = urlsplit(spec.url or "")
    login, _, server = address.netloc.rpartition("@")
    password = f":{quote(spec.password.reveal(), safe='')}" if spec.password is not None else ""
    settings = {"connect_timeout": str(_CONNECT_S), "options": f"-c statement_timeout={_ANSWER_S}s"}
    given = parse_qs(address.query, keep_blank_values=True)
    if spec.password is not None and "require_auth" not in given:
        settings["require_auth"] = "scram-sha-256"
    if "sslmode" not in given and not _is_here(address):
        settings["sslmode"] = _CHECKED
        if "sslrootcert" not in given:
            settings["sslrootcert"] = cas_of_the_system()
    query = "&".join(filter(None, [address.query, urlencode(settings, quote_via=quote)]))
    return f"postgresql+psycopg://{login}{password}@{server}{address.path}?{query}"


def _is_here(address: SplitResult) -> bool:
    """Return whether a server is on this machine; PostgreSQL's may be a folder, of its socket, or left out."""
    host = address.hostname or parse_qs(address.query).get("host", [""])[-1]
    return is_loopback(host) or (address.scheme == "postgresql" and host[:1] in {"", "/", "@"})


@contextmanager
def asked(spec: Catalog, table: Path, safe: str = _WRITTEN_NOTHING) -> Iterator[None]:
    """Distinguish a catalog that is away, which is waited for, from one that does not let us in, or not do this."""
    import requests
    from pyiceberg import exceptions
    from sqlalchemy.exc import DBAPIError

    where = f"the Iceberg catalog {spec.shown(table)}"
    try:
        yield
    except DBAPIError as error:
        reason = _first_line(error.orig)
        if any(text in reason for text in ("authentication failed", "no password supplied", "permission denied")):
            raise Refused(f"{where} does not let this user in: {reason}", safe=_WRITTEN_NOTHING) from None
        raise SinkUnavailable(f"{where} does not answer: {reason}", safe=safe) from None
    except (exceptions.UnauthorizedError, exceptions.ForbiddenError, exceptions.OAuthError) as error:
        raise Refused(
            f"{where} does not let this client in: {_first_line(error)}",
            safe=_WRITTEN_NOTHING,
            fix="Check its `token` or `credential`",
        ) from None
    except (
        requests.RequestException,
        exceptions.ServiceUnavailableError,
        exceptions.ServerError,
        exceptions.TooManyRequestsError,
        exceptions.CommitStateUnknownException,
    ) as error:
        raise SinkUnavailable(f"{where} does not answer: {type(error).__name__}", safe=safe) from None
    except (exceptions.ValidationError, UnicodeDecodeError):
        raise Conflict(
            f"{where} answers with metadata of the table in {table} that cannot be understood",
            safe=safe,
            fix="Put back the metadata file that it names, or register one that is whole",
        ) from None
    except exceptions.RESTError as error:
        raise Conflict(f"{where} cannot do this: {_first_line(error)}", safe=_WRITTEN_NOTHING) from None


def _first_line(error: object) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]
