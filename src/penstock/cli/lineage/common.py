"""What the lineage commands have in common: which store is meant."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from penstock.cli.session import session

if TYPE_CHECKING:
    from penstock.lineage.store.address import StoreAddress

StoreOption = Annotated[
    str,
    typer.Option(
        "--store",
        envvar="PENSTOCK_LINEAGE_STORE",
        show_default="lineage/lineage.db in the home folder",
        help="An SQLite file, or postgresql://USER@HOST:PORT/DATABASE.",
    ),
]
PasswordOption = Annotated[
    str,
    typer.Option(
        "--password",
        envvar="PENSTOCK_LINEAGE_PASSWORD_FROM",
        help="Where the password of PostgreSQL's user is: env:NAME or file:PATH.",
    ),
]
CaOption = Annotated[
    str,
    typer.Option("--ca-file", envvar="PENSTOCK_LINEAGE_CA_FILE", help="PEM file of the CA of PostgreSQL's server."),
]


def store_address(context: typer.Context, store: str, password: str, ca_file: str, **more: Any) -> "StoreAddress":
    """Return the store that is meant; needs the extra `lineage`."""
    from penstock.extras import require
    from penstock.lineage.store.address import named_store

    require("lineage", "penstock lineage")
    return named_store(session(context).settings.home, store, password, ca_file, **more)
