"""Clients that keep connections and ask for nothing, or for one thing for ever, do not keep others out."""

import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import uvicorn

from penstock import listening
from penstock.broker.certificates import Certificates
from penstock.config.secrets_folder import SecretsFolder
from penstock.errors import BadInput, Conflict
from penstock.listening import BoundedConnection, Server, listen, require_certificate

from support.waiting import until

_AT_ONCE = 8


async def _answer(scope: Any, receive: Any, send: Any) -> None:
    if scope["type"] == "http":
        while (await receive()).get("more_body"):
            pass
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
        await send({"type": "http.response.body", "body": b"ok"})


@pytest.fixture
def port(monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    monkeypatch.setattr(listening, "HEAD_S", 0.3)
    monkeypatch.setattr(listening, "BODY_S", 0.3)
    listener = listen("127.0.0.1", 0, "a test")
    ready = threading.Event()
    config = uvicorn.Config(
        _answer,
        log_config=None,
        lifespan="off",
        http=BoundedConnection,
        limit_concurrency=_AT_ONCE,
        timeout_keep_alive=1,
        ws="none",
    )
    server = Server(config, ready.set)
    thread = threading.Thread(target=server.run, args=([listener],))
    thread.start()
    assert ready.wait(120)
    yield listener.getsockname()[1]
    server.should_exit = True
    thread.join()


def _opened(port: int, sent: bytes = b"", address: str = "127.0.0.1") -> socket.socket:
    opened = socket.create_connection(("127.0.0.1", port), timeout=120, source_address=(address, 0))
    opened.sendall(sent)
    return opened


def _is_closed(opened: socket.socket) -> bool:
    """Wait until the other side closes it; what it says before does not matter."""
    try:
        while opened.recv(4096):
            pass
    except ConnectionResetError:
        pass
    opened.close()
    return True


@pytest.mark.parametrize(
    "sent",
    [
        b"",
        b"GET / HT",
        b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\nabc",
        b"GET / HTTP/1.1\r\nHost: x\r\n\r\nGET /",
        b"GET / HTTP/1.1\r\nHost: x\r\n\r\nPOST / HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\na",
    ],
    ids=["silent", "half a head", "half a body", "half a second head", "half a second body"],
)
def test_a_request_that_does_not_come_is_not_waited_for(port: int, sent: bytes) -> None:
    assert _is_closed(_opened(port, sent))


def test_a_head_that_comes_byte_by_byte_has_no_more_time(port: int) -> None:
    opened, began = _opened(port), time.monotonic()

    with pytest.raises(OSError, match=r"reset|pipe|closed"):
        _trickle(opened, lambda: time.monotonic() - began < 60)

    opened.close()


def _trickle(opened: socket.socket, goes_on: Callable[[], bool]) -> None:
    opened.sendall(b"GET / HTTP/1.1\r\nX: ")
    opened.settimeout(0.02)
    while goes_on():
        opened.sendall(b"x")
        try:
            if not opened.recv(1):
                raise ConnectionResetError("closed")
        except TimeoutError:
            pass


@pytest.mark.parametrize("addresses", [1, _AT_ONCE])
def test_one_client_leaves_half_of_the_connections_to_others_whatever_addresses_it_takes(
    port: int, addresses: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listening, "HEAD_S", 300)
    silent = [_opened(port, address=f"127.0.0.{1 + number % addresses}") for number in range(_AT_ONCE)]

    def closed() -> int:
        found = 0
        for each in silent:
            each.settimeout(0.01)
            try:
                found += not each.recv(1)
            except TimeoutError:
                pass
            except ConnectionResetError:
                found += 1
        return found

    until(lambda: closed() == _AT_ONCE // 2)
    for each in silent[1:]:
        each.close()

    def answered() -> bool:
        try:
            return httpx.get(f"http://127.0.0.1:{port}/", trust_env=False).text == "ok"
        except httpx.TransportError:
            return False

    until(answered)
    silent[0].close()


def test_a_port_that_is_taken_is_told_with_who_has_it() -> None:
    with listen("127.0.0.1", 0, "a test") as taken:
        taken.listen()
        with pytest.raises(Conflict, match=rf"process {os.getpid()}\) has the port") as told:
            listen("127.0.0.1", taken.getsockname()[1], "another test")

    assert "Name another with --port" in told.value.fix


def test_an_address_of_another_machine_is_told_as_such() -> None:
    with pytest.raises(BadInput, match=r"^192\.0\.2\.1 is not an address of this machine"):
        listen("192.0.2.1", 0, "a test")


@pytest.fixture
def pair(tmp_path: Path) -> tuple[Path, Path]:
    """Make a certificate and its key, a file each."""
    files = SecretsFolder.of(tmp_path)
    Certificates(files).ensure_ca()
    return files.ca_pem, files.ca_key


def test_a_certificate_with_its_key_is_good_and_so_is_none(pair: tuple[Path, Path]) -> None:
    require_certificate(*pair)
    require_certificate(None, None)


def test_a_certificate_without_its_key_or_with_the_wrong_one_is_told_with_what_is_wrong(
    pair: tuple[Path, Path], tmp_path: Path
) -> None:
    certificate, key = pair
    text, others = tmp_path / "text.pem", SecretsFolder.of(tmp_path / "others")
    text.write_text("not a certificate")
    locked = tmp_path / "locked.key"
    locked.write_text("-----BEGIN ENCRYPTED PRIVATE KEY-----\n")
    Certificates(others).ensure_ca()
    cases: list[tuple[Path | None, Path | None, str]] = [
        (certificate, None, "Add --key FILE"),
        (None, key, "Add --certificate FILE"),
        (certificate, tmp_path / "missing.pem", f"--key: there is no file {tmp_path / 'missing.pem'}"),
        (text, key, f"--certificate: {text} holds none, as PEM"),
        (certificate, certificate, f"--key: {certificate} holds none, as PEM"),
        (certificate, locked, f"--key: {locked} has a password. Nothing was started. Name a key without one"),
        (certificate, others.ca_key, "the key is that of another certificate"),
    ]
    for one, two, told in cases:
        with pytest.raises(BadInput) as found:
            require_certificate(one, two)

        assert told in str(found.value)
        assert "Nothing was started" in str(found.value)
