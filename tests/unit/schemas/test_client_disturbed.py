"""Registries that are slow, send elsewhere, break off, or answer nonsense: an outage, or told; never a dead letter."""

import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from penstock.broker.certificates import Certificates
from penstock.config.secrets_folder import SecretsFolder
from penstock.decoders.avro import Avro
from penstock.errors import BadInput, EnvironmentNotReady, PenstockError, RegistryUnavailable, Terminal, Transient
from penstock.schemas import client as client_module
from penstock.schemas.client import RegistryClient
from penstock.schemas.registry import Registry
from penstock.schemas.schema import Schema
from penstock.secret import Secret

from support.events import OPENING
from support.registry_stub import RegistryStub, registry_stub

Serve = Callable[[socket.socket], None]


@contextmanager
def serving(serve: Serve) -> Iterator[str]:
    """Let each connection be served by a function; return the address."""

    def accept() -> None:
        with suppress(OSError):
            while True:
                connection, _ = listener.accept()
                with connection, suppress(OSError):
                    serve(connection)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=accept)
        thread.start()
        try:
            yield f"127.0.0.1:{listener.getsockname()[1]}"
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            thread.join()


def answering(content: bytes) -> Serve:
    def serve(connection: socket.socket) -> None:
        connection.recv(65536)
        connection.sendall(content)

    return serve


def closing(_connection: socket.socket) -> None:
    pass


@pytest.mark.parametrize(
    ("serve", "told"),
    [
        (closing, "does not answer: "),
        (answering(b""), "does not answer: it closed the connection"),
        (answering(b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n[1, 2"), "it closed the connection in the middle"),
        (answering(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n9\r\n[1"), "it closed the connection in the"),
    ],
)
def test_a_connection_that_breaks_off_is_an_outage(serve: Serve, told: str) -> None:
    with serving(serve) as address, pytest.raises(RegistryUnavailable, match=told):
        RegistryClient(Registry(url=f"http://{address}")).subjects()


def test_a_connection_that_breaks_off_before_tls_is_agreed_on_is_an_outage() -> None:
    with serving(answering(b"")) as address:
        client = RegistryClient(Registry(url=f"https://{address}"))
        with pytest.raises(RegistryUnavailable, match="does not answer: it closed the connection"):
            client.subjects()


@pytest.mark.parametrize("head", [b"", b"HTTP/1.1 200 OK\r\nContent-Length: 5000\r\nConnection: close\r\n\r\n"])
def test_an_answer_that_never_ends_is_an_outage(head: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_module, "_LONGEST_S", 0.3)

    def trickle(connection: socket.socket) -> None:
        connection.sendall(head)
        while True:  # until the client has had enough
            connection.sendall(b" ")
            time.sleep(0.02)

    with serving(trickle) as address, pytest.raises(RegistryUnavailable, match=r"took longer than 0\.3 seconds"):
        RegistryClient(Registry(url=f"http://{address}")).subjects()


@pytest.fixture
def stub() -> Iterator[RegistryStub]:
    with registry_stub() as running:
        yield running


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_redirect_is_told_and_the_login_goes_nowhere_else(stub: RegistryStub, status: int) -> None:
    head = f"HTTP/1.1 {status} Elsewhere\r\nLocation: {stub.url}/subjects?token=s\r\nContent-Length: 0\r\n\r\n"

    with serving(answering(head.encode())) as address:
        registry = Registry(url=f"http://{address}", username="ann", password=Secret.of("canary"))
        with pytest.raises(BadInput, match=f"it sends clients to {stub.url}") as told:
            RegistryClient(registry).subjects()

    assert [] == stub.asked
    assert "token=s" not in str(told.value)
    assert "canary" not in str(told.value)


@pytest.mark.parametrize("status", [408, 425, 429, 500, 503])
def test_what_may_go_away_by_itself_is_an_outage(stub: RegistryStub, status: int) -> None:
    stub.answer = (status, b"<html>")

    with pytest.raises(RegistryUnavailable):
        RegistryClient(stub.registry).schema(1)


@pytest.mark.parametrize("answer", [[1, "a"], ["a", None], [{}], [[1]]])
def test_a_list_of_anything_else_is_nonsense(stub: RegistryStub, answer: Any) -> None:
    stub.answer = (200, json.dumps(answer).encode())
    client = RegistryClient(stub.registry)

    for ask in (client.subjects, lambda: client.versions("a"), lambda: client.delete("a")):
        with pytest.raises(BadInput, match="does not answer as a schema registry does"):
            ask()


@pytest.mark.parametrize("answer", [{"is_compatible": "yes"}, {}, {"is_compatible": True, "messages": 7}])
def test_a_verdict_that_is_none_is_nonsense(stub: RegistryStub, answer: Any) -> None:
    stub.answer = (200, json.dumps(answer).encode())

    with pytest.raises(BadInput, match="does not answer as a schema registry does"):
        RegistryClient(stub.registry).is_compatible("a", Schema(text='"string"'))


def decoding(registry: Registry) -> Any:
    """Decode one record as a task does."""
    return Avro(registry=registry, schema="id bigint").open(OPENING).decode([b"\0\0\0\0\7\2"])


@pytest.mark.parametrize("content", [{"error_code": 404, "message": "HTTP 404 Not Found"}, {"error_code": "x"}])
def test_an_address_that_is_not_there_makes_no_dead_letters(stub: RegistryStub, content: Any) -> None:
    """A registry answers so to a path of which it has none: a wrong one in `url`."""
    stub.answer = (404, json.dumps(content).encode())

    with pytest.raises(BadInput, match="does not answer as a schema registry does: status 404"):
        decoding(stub.registry)


def test_an_id_that_the_registry_does_not_know_is_a_dead_letter(stub: RegistryStub) -> None:
    assert "UnknownSchema" == decoding(stub.registry).record_errors[0]["error"]


@pytest.mark.parametrize("token", ["two\nlines", "пароль"])
def test_a_token_that_no_header_can_hold_makes_no_dead_letters(stub: RegistryStub, token: str) -> None:
    with pytest.raises(BadInput, match="cannot be sent") as told:
        decoding(Registry(url=stub.url, token=Secret.of(token)))

    assert token not in str(told.value)


def test_a_key_whose_password_is_not_there_makes_no_dead_letters(tmp_path: Path) -> None:
    files = SecretsFolder.of(tmp_path)
    Certificates(files).ensure_ca()
    Certificates(files).ensure_node(1, "127.0.0.1")
    registry = Registry(
        url="https://127.0.0.1:1",
        ca_file=files.ca_pem,
        certificate_file=files.node_pem(1),
        key_password=Secret.parse("env:NO_SUCH_KEY_PASSWORD"),
    )

    with pytest.raises(EnvironmentNotReady, match=r"the login of .* is not there: .*NO_SUCH_KEY_PASSWORD"):
        decoding(registry)


@pytest.mark.parametrize(
    "url", ["http://x:99999", "http://a..b:8081", "http://x:port", f"http://{'a' * 70}.x", "http://x/ä"]
)
def test_an_address_that_can_never_be_asked_is_refused(url: str) -> None:
    with pytest.raises(ValueError, match="the address of a registry is like"):
        Registry(url=url)


@pytest.mark.parametrize(
    ("serve", "kind"),
    [(closing, Transient), (answering(b"HTTP/1.1 200 OK\r\n\r\n<html>"), Terminal)],
)
def test_a_task_fails_as_a_whole_for_a_registrys_fault(serve: Serve, kind: type[PenstockError]) -> None:
    with serving(serve) as address, pytest.raises(kind):
        decoding(Registry(url=f"http://{address}"))
