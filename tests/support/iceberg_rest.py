"""A REST catalog of Iceberg on this machine, over an SQLite file: as much of its interface as tables need."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

from pyiceberg import exceptions
from pyiceberg.catalog.rest import CreateTableRequest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.table import CommitTableRequest

_STATUS = {
    exceptions.NoSuchTableError: 404,
    exceptions.CommitFailedException: 409,
    exceptions.NamespaceAlreadyExistsError: 409,
    exceptions.TableAlreadyExistsError: 409,
}


@contextmanager
def rest_catalog(folder: Path, token: str) -> Iterator[str]:
    """Serve until the block ends; give the address. Who does not show the token is not let in."""
    folder.mkdir(parents=True, exist_ok=True)

    class Handler(BaseHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            """Say nothing."""

        def do_GET(self) -> None:
            self._answer(None)

        def do_POST(self) -> None:
            self._answer(self.rfile.read(int(self.headers["Content-Length"])))

        def _answer(self, body: bytes | None) -> None:
            status, said = 401, _error("NotAuthorizedException", "who are you?")
            if self.headers["Authorization"] == f"Bearer {token}":
                catalog = SqlCatalog("rest", uri=f"sqlite:///{folder / 'rest.db'}")
                try:
                    status, said = 200, _done(catalog, self.path.strip("/").split("/")[1:], body)
                except tuple(_STATUS) as error:
                    status, said = _STATUS[type(error)], _error(type(error).__name__, str(error))
                finally:
                    catalog.close()
            self.send_response(status)
            self.end_headers()
            self.wfile.write(said.encode())

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.005})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _done(catalog: SqlCatalog, path: list[str], body: bytes | None) -> str:
    match path:
        case ["config"]:
            return json.dumps({"defaults": {}, "overrides": {}})
        case ["namespaces"] if body is not None:
            namespace = json.loads(body)["namespace"]
            catalog.create_namespace(tuple(namespace))
            return json.dumps({"namespace": namespace, "properties": {}})
        case ["namespaces", namespace, "tables"] if body is not None:
            asked = CreateTableRequest.model_validate_json(body)
            made = catalog.create_table(
                (namespace, asked.name),
                asked.table_schema,
                location=asked.location,
                partition_spec=asked.partition_spec,
                properties=asked.properties,
            )
            return _shown(made)
        case ["namespaces", namespace, "tables", name]:
            table = catalog.load_table((namespace, name))
            if body is None:
                return _shown(table)
            change = CommitTableRequest.model_validate_json(body)
            return str(catalog.commit_table(table, change.requirements, change.updates).model_dump_json(by_alias=True))
    raise AssertionError(f"not served: {path}")


def _shown(table: Any) -> str:
    metadata = json.loads(table.metadata.model_dump_json(by_alias=True))
    return json.dumps({"metadata-location": table.metadata_location, "metadata": metadata, "config": {}})


def _error(kind: str, message: str) -> str:
    return json.dumps({"error": {"message": message, "type": kind, "code": 0}})
