"""Where a lineage store is: an SQLite file, or a PostgreSQL."""

from pathlib import Path
from typing import Any, Literal, Self
from urllib.parse import parse_qs, unquote, urlsplit

from pydantic import BaseModel, Field, ValidationError, ValidationInfo, field_validator, model_validator

from penstock.config.complaints import in_words
from penstock.errors import BadInput
from penstock.secret import PathFromFile, Secret, base_folder
from penstock.sinks.postgres_server import Server

FILE_NAME = "lineage.db"
_POSTGRESQL = ("postgresql", "postgres")


def default_path(home: Path) -> Path:
    """Return where the store is if nobody says otherwise."""
    return home / "lineage" / FILE_NAME


def named_store(home: Path, store: str, password: str, ca_file: str, **more: Any) -> "StoreAddress":
    """Return the store that is meant: the one that is named, or the one in the home folder; raise `BadInput`."""
    keys = {
        "store": store or str(default_path(home)),
        "password": password or None,
        "ca_file": ca_file or None,
        **more,
    }
    given = {name: value for name, value in keys.items() if value is not None}
    try:
        return StoreAddress.model_validate(given, context={"base": Path.cwd()})
    except ValidationError as error:
        raise BadInput(in_words(error.errors(include_input=False, include_url=False)[0])) from None


class StoreAddress(BaseModel, frozen=True, extra="forbid", hide_input_in_errors=True):
    """Where a lineage store is, and how to log in."""

    store: str = Field(
        description="Path of an SQLite file, or `postgresql://USER@HOST:PORT/DATABASE`; made if it is not there."
    )
    password: Secret | None = Field(
        None, description="Password of PostgreSQL's user: `env:NAME` or `file:PATH`; never the password itself."
    )
    sslmode: Literal["disable", "require", "verify-ca", "verify-full"] | None = Field(
        None, description="How much of TLS is insisted on, as at a `postgres` sink."
    )
    ca_file: PathFromFile | None = Field(None, description="PEM file of the CA that the server's certificate is from.")
    schema_name: str = Field(
        "lineage", pattern="^[a-z_][a-z0-9_]*$", description="PostgreSQL's schema that the tables are in."
    )
    partition_by: Literal["day", "month", "year"] | None = Field(
        None,
        description="How PostgreSQL's tables are partitioned: `month` if left out. Settled when the store is made.",
    )

    @field_validator("store")
    @classmethod
    def _store_is_understood(cls, value: str, info: ValidationInfo) -> str:
        scheme, separator, rest = value.partition("://")
        if not separator:
            return str(base_folder(info) / Path(value).expanduser())
        if scheme == "sqlite" and rest.startswith("/"):
            return rest[1:]
        if scheme not in _POSTGRESQL:
            raise ValueError("a store is the path of an SQLite file, or postgresql://USER@HOST:PORT/DATABASE")
        try:
            found = urlsplit(value)
            _ = found.port
        except ValueError:
            raise ValueError("this is not an address: postgresql://USER@HOST:PORT/DATABASE") from None
        if found.password is not None:
            raise ValueError("a password is not written here: name it with `password`, as env:NAME or file:PATH")
        if not found.username or not found.path.strip("/"):
            raise ValueError("a PostgreSQL is named with user and database: postgresql://USER@HOST:PORT/DATABASE")
        if found.fragment or parse_qs(found.query).keys() - {"host"}:
            raise ValueError("what follows the `?` of the address can only be host=FOLDER, of a Unix socket")
        return value

    @model_validator(mode="after")
    def _keys_fit(self) -> Self:
        if self.server is None and (self.password or self.sslmode or self.ca_file):
            raise ValueError("an SQLite file has no `password`, `sslmode` or `ca_file`")
        return self

    @property
    def path(self) -> Path | None:
        """The SQLite file; None if it is a PostgreSQL."""
        return None if self.store.startswith(tuple(f"{each}://" for each in _POSTGRESQL)) else Path(self.store)

    @property
    def server(self) -> Server | None:
        """The PostgreSQL; None if it is a file."""
        if self.path is not None:
            return None
        found = urlsplit(self.store)
        named: dict[str, Any] = {"host": found.hostname, "port": found.port}
        named |= {name: values[-1] for name, values in parse_qs(found.query).items()}
        return Server(
            database=unquote(found.path.strip("/")),
            user=unquote(found.username or ""),
            password=self.password,
            sslmode=self.sslmode,
            ca_file=self.ca_file,
            **{name: value for name, value in named.items() if value is not None},
        )

    def __str__(self) -> str:
        return self.store
