"""What listens at an address of this machine and is no Kafka is named, before a client waits for it."""

import socket
import struct
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, chdir, contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest
from typer.testing import CliRunner

from penstock.broker.ports import find_free
from penstock.cli import app
from penstock.cli.session import Session
from penstock.errors import BrokerUnavailable
from penstock.kafka import diagnose
from penstock.kafka.diagnose import require_kafka


@contextmanager
def server(answer: Callable[[socket.socket], None]) -> Iterator[int]:
    """Accept one connection, and answer it."""

    def serve() -> None:
        connection, _ = listener.accept()
        with connection:
            answer(connection)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=serve)
        thread.start()
        yield listener.getsockname()[1]
        thread.join()


@contextmanager
def http_server(port: int = 0) -> Iterator[int]:
    class Quiet(BaseHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", port), Quiet) as running:
        thread = threading.Thread(target=running.serve_forever, kwargs={"poll_interval": 0.005})
        thread.start()
        yield running.server_port
        running.shutdown()
        thread.join()


@contextmanager
def silent_server() -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as listener, pytest.MonkeyPatch.context() as patch:
        patch.setattr(diagnose, "_TIMEOUT_S", 0.2)
        yield listener.getsockname()[1]


def as_kafka(connection: socket.socket) -> None:
    question = connection.recv(14, socket.MSG_WAITALL)
    connection.sendall(struct.pack(">i", 10) + question[8:12] + bytes(6))


@pytest.mark.parametrize(
    "answer", [as_kafka, lambda each: each.sendall(b"\x15\x03\x03\x00\x02\x02\x46\x00"), lambda _: None]
)
def test_kafka_and_whoever_hangs_up_or_may_speak_tls_are_left_to_the_client(
    answer: Callable[[socket.socket], None],
) -> None:
    with server(answer) as port:
        require_kafka(f"127.0.0.1:{port}")


def test_one_address_of_several_that_is_kafkas_is_enough() -> None:
    with http_server() as other, server(as_kafka) as port:
        require_kafka(f"127.0.0.1:{other},127.0.0.1:{port}")


@pytest.mark.parametrize(
    ("started", "told"), [(http_server, "answers as an HTTP server"), (silent_server, "says nothing")]
)
def test_another_server_at_a_named_address_is_reported_before_a_client_is_opened(
    started: Callable[[], AbstractContextManager[int]], told: str
) -> None:
    with started() as port, pytest.raises(BrokerUnavailable, match=f"127.0.0.1:{port} is not Kafka: .*{told}"):
        Session(bootstrap=f"127.0.0.1:{port}").admin()


def test_another_server_on_the_projects_port_is_reported_with_how_to_take_another(tmp_path: Path) -> None:
    (allowed,) = find_free("127.0.0.1", 1)  # the system's own choice may be above those that a cluster takes
    with http_server(allowed) as port, chdir(tmp_path):
        Path("penstock.yaml").write_text(f"cluster: {{type: local, port: {port}}}\n")
        said = CliRunner().invoke(app, ["topic", "list"], prog_name="penstock")

    assert 4 == said.exit_code
    assert f"what listens at 127.0.0.1:{port} is not Kafka: " in said.stderr
    assert "set another cluster.port in penstock.yaml, and run: penstock up" in said.stderr


def test_a_kafka_that_says_nothing_yet_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(diagnose, "_TIMEOUT_S", 0.2)
    program = "import socket, signal; s = socket.create_server(('127.0.0.1', 0)); print(s.getsockname()[1], flush=True)"
    command = [sys.executable, "-c", f"{program}; signal.pause()", "kafka.Kafka", "server.properties"]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as starting:
        assert starting.stdout is not None
        try:
            require_kafka(f"127.0.0.1:{int(starting.stdout.readline())}")
        finally:
            starting.kill()
