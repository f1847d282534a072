"""What has the port of Kafka Connect may be something else: each question is answered with one line, not a trace."""

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from penstock.config.local_services import ServiceAddress
from penstock.connect.client import ConnectClient
from penstock.errors import BadInput


@dataclass
class Stub:
    """Answers the same to everything."""

    url: str = ""
    content: bytes = b""


@pytest.fixture
def stub() -> Iterator[Stub]:
    found = Stub()

    class Handler(BaseHTTPRequestHandler):
        def _serve(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length") or 0))
            self.send_response(200)
            self.send_header("Content-Length", str(len(found.content)))
            self.end_headers()
            self.wfile.write(found.content)

        do_GET = do_PUT = _serve  # noqa: N815 - as http.server has them

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        found.url = f"http://127.0.0.1:{server.server_port}"
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.005})
        thread.start()
        yield found
        server.shutdown()
        thread.join()


QUESTIONS: list[Callable[[ConnectClient], object]] = [
    lambda client: client.plugins(),
    lambda client: client.connectors(),
    lambda client: client.connector("a"),
    lambda client: client.tasks("a"),
    lambda client: client.config("a"),
    lambda client: client.offsets("a"),
    lambda client: client.put("a", {"connector.class": "X"}),
]


@pytest.mark.parametrize("ask", QUESTIONS)
@pytest.mark.parametrize("content", [b"", b"null", b"5", b'"x"', b"[5]", b"<html>"])
def test_an_answer_of_another_shape_is_said_to_be_none_of_connects(
    stub: Stub, ask: Callable[[ConnectClient], object], content: bytes
) -> None:
    stub.content = content

    with pytest.raises(BadInput, match="does not answer as Kafka Connect does"):
        ask(ConnectClient(ServiceAddress(url=stub.url)))


@pytest.mark.parametrize(
    "content",
    [
        b"{}",
        b'{"connector":{},"tasks":[5],"name":5}',
        b'{"connector":{"state":"RUNNING","trace":5},"tasks":[{"id":0,"state":"x","trace":7}],"name":"a"}',
    ],
)
def test_a_state_that_is_none_is_said_to_be_none_of_connects(stub: Stub, content: bytes) -> None:
    stub.content = content

    with pytest.raises(BadInput, match="does not answer as Kafka Connect does"):
        ConnectClient(ServiceAddress(url=stub.url)).connector("a")
