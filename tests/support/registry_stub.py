"""A schema registry in this process, for what needs a registry's answers and none of its work.

It keeps what it is given and compares nothing. What real registries answer is tested with a real one.
"""

import json
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import unquote

from penstock.schemas.registry import Registry


@dataclass
class RegistryStub:
    """Subjects with their schemas; the id of a schema is its place in `schemas`, counted from 1."""

    url: str = ""
    subjects: dict[str, list[int]] = field(default_factory=dict)
    schemas: list[dict[str, Any]] = field(default_factory=list)
    levels: dict[str, str] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    authorizations: list[str | None] = field(default_factory=list)
    answer: tuple[int, bytes] | None = None
    """What is answered to everything, whatever is asked."""

    @property
    def registry(self) -> Registry:
        return Registry(url=self.url)

    def add(self, subject: str, schema: Any, format_: str = "AVRO", references: Any = ()) -> int:
        """Keep a schema, and give its id."""
        text = schema if isinstance(schema, str) else json.dumps(schema)
        return self.register(subject, {"schema": text, "schemaType": format_, "references": list(references)})

    def register(self, subject: str, body: dict[str, Any]) -> int:
        entry = {
            "schema": body["schema"],
            "schemaType": body.get("schemaType", "AVRO"),
            "references": body.get("references", []),
        }
        if entry not in self.schemas:
            self.schemas.append(entry)
        schema_id = self.schemas.index(entry) + 1
        versions = self.subjects.setdefault(subject, [])
        if schema_id not in versions:
            versions.append(schema_id)
        return schema_id

    def reply(self, method: str, path: str, body: dict[str, Any]) -> tuple[int, Any]:
        parts = [unquote(part) for part in path.partition("?")[0].strip("/").split("/")]
        match method, parts:
            case "GET", ["subjects"]:
                return 200, list(self.subjects)
            case "GET", ["schemas", "ids", number]:
                if not 0 < int(number) <= len(self.schemas):
                    return 404, {"error_code": 40403, "message": f"Schema {number} not found"}
                return 200, self.schemas[int(number) - 1]
            case "GET", ["config", *subject]:
                if subject and subject[0] not in self.levels:
                    return 404, {"error_code": 40408, "message": "no compatibility of its own"}
                return 200, {"compatibilityLevel": self.levels.get("".join(subject), "BACKWARD")}
            case "PUT", ["config", *subject]:
                self.levels["".join(subject)] = body["compatibility"]
                return 200, body
            case "POST", ["subjects", subject, "versions"]:
                return 200, {"id": self.register(subject, body)}
            case "POST", ["compatibility", "subjects", _, "versions"]:
                return 200, {"is_compatible": True}
            case _, ["subjects", subject, *rest] if subject in self.subjects:
                return self._of(method, subject, rest, body)
        return 404, {"error_code": 40401, "message": f"Subject '{parts[-1]}' not found."}

    def _of(self, method: str, subject: str, rest: list[str], body: dict[str, Any]) -> tuple[int, Any]:
        versions = self.subjects[subject]
        match method, rest:
            case "GET", ["versions"]:
                return 200, list(range(1, len(versions) + 1))
            case "GET", ["versions", "latest"]:
                return 200, self._version(subject, len(versions))
            case "GET", ["versions", number] if int(number) <= len(versions):
                return 200, self._version(subject, int(number))
            case "POST", []:
                for at, schema_id in enumerate(versions, 1):
                    if self.schemas[schema_id - 1]["schema"] == body["schema"]:
                        return 200, self._version(subject, at)
                return 404, {"error_code": 40403, "message": "Schema not found"}
            case "DELETE", []:
                return 200, list(range(1, len(self.subjects.pop(subject)) + 1))
        return 404, {"error_code": 40402, "message": "Version not found."}

    def _version(self, subject: str, at: int) -> dict[str, Any]:
        schema_id = self.subjects[subject][at - 1]
        return {"subject": subject, "version": at, "id": schema_id, **self.schemas[schema_id - 1]}


_given: set[int] = set()
"""Ports that a stub of this process has had. Clients know for good what the registry at an address has said."""


class _Server(ThreadingHTTPServer):
    """Says nothing about clients that it does not let in."""

    @classmethod
    def on_a_new_port(cls, handler: type[BaseHTTPRequestHandler]) -> "_Server":
        while (server := cls(("127.0.0.1", 0), handler)).server_port in _given:
            server.server_close()
        _given.add(server.server_port)
        return server

    def handle_error(self, *_: object) -> None:
        pass


@contextmanager
def registry_stub(tls: ssl.SSLContext | None = None) -> Iterator[RegistryStub]:
    """Run one on a free port."""
    stub = RegistryStub()

    class Handler(BaseHTTPRequestHandler):
        def _serve(self) -> None:
            length = int(self.headers.get("Content-Length") or 0)
            body = json.loads(self.rfile.read(length)) if length else {}
            stub.asked.append(f"{self.command} {self.path}")
            stub.authorizations.append(self.headers.get("Authorization"))
            status, content = stub.answer or _dumped(stub.reply(self.command, self.path, body))
            self.send_response(status)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        do_GET = do_POST = do_PUT = do_DELETE = _serve  # noqa: N815 - as http.server has them

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    with _Server.on_a_new_port(Handler) as server:
        stub.url = f"{'http' if tls is None else 'https'}://127.0.0.1:{server.server_port}"
        if tls is not None:
            # The handshake belongs to the connection's own thread: one that fails must not end the server.
            server.socket = tls.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.005})
        thread.start()
        try:
            yield stub
        finally:
            server.shutdown()
            thread.join()


def _dumped(reply: tuple[int, Any]) -> tuple[int, bytes]:
    return reply[0], json.dumps(reply[1]).encode()
