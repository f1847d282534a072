"""The library's catalogs, made safe: no catalog and no table says which code runs here, or what is deleted.

The library imports and calls whatever functions the properties of a catalog or a table name, those that a server sends
included. Here files are always ours, and a table that names a function of its own is refused.
"""

from pathlib import Path
from typing import Any

from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.catalog.sql import SqlCatalog
from requests import PreparedRequest, Response, Session
from requests.adapters import HTTPAdapter

from penstock.errors import Conflict
from penstock.sinks.iceberg_files import FOLDER, DurableFiles

_OF_THE_SERVER = ("prefix", "namespace-separator")
"""What a REST catalog may say of itself."""
_LOCATION_PROVIDER = "write.py-location-provider.impl"
_FILES = f"{DurableFiles.__module__}.{DurableFiles.__name__}"


class _Local:
    """What both kinds share: files are ours, in the table's folder, and tables name no code."""

    def __init__(self, name: str, folder: Path, **properties: str) -> None:
        self._own = {"py-io-impl": _FILES, FOLDER: str(folder)}
        super().__init__(name, **properties, **self._own)  # type: ignore[call-arg]  # of the catalog beside it

    def _load_file_io(self, *_: object, **__: object) -> DurableFiles:
        return DurableFiles(self._own)

    def load_table(self, identifier: Any, *more: Any) -> Any:
        """Return a table that names no code."""
        return _without_code(super().load_table(identifier, *more))  # type: ignore[misc]  # as above


class LocalSqlCatalog(_Local, SqlCatalog):  # type: ignore[misc]  # its types are not looked at
    """A catalog in SQLite or PostgreSQL, for the table in one folder."""


class LocalRestCatalog(_Local, RestCatalog):  # type: ignore[misc]  # as above
    """A REST catalog, for the table in one folder. Every request of it ends, with an answer or with an error."""

    properties: dict[str, Any]
    uri: str

    def __init__(self, name: str, folder: Path, *, connect_s: float, answer_s: float, **properties: str) -> None:
        self._bounds = connect_s, answer_s
        super().__init__(name, folder, **properties)

    def _fetch_config(self) -> None:
        ours, address = dict(self.properties), self.uri
        super()._fetch_config()
        sent = {name: self.properties[name] for name in _OF_THE_SERVER if isinstance(self.properties.get(name), str)}
        self.properties, self.uri = sent | ours, address

    def _create_session(self) -> Session:
        session: Session = super()._create_session()
        for prefix in ("http://", "https://"):
            session.mount(prefix, _Bounded(self._bounds))
        return session


def _without_code(table: Any) -> Any:
    if _LOCATION_PROVIDER in table.properties:
        raise Conflict(
            f"the Iceberg table {'.'.join(table.name())} names code of its own in {_LOCATION_PROVIDER}",
            safe="Nothing of it was run",
            fix="Remove that property",
        )
    return table


class _Bounded(HTTPAdapter):
    def __init__(self, bounds: tuple[float, float]) -> None:
        self._bounds = bounds
        super().__init__()

    def send(self, request: PreparedRequest, *args: Any, **options: Any) -> Response:
        options["timeout"] = options.get("timeout") or self._bounds
        return super().send(request, *args, **options)
