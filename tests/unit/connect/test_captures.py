from pathlib import Path

import pytest

from penstock.config.local_services import ServiceAddress
from penstock.connect.cdc import Capture, Captures
from penstock.connect.client import ConnectClient
from penstock.secret import Secret
from penstock.sinks.postgres_server import Server


def test_a_capture_is_asked_about_with_the_workers_password_once_the_variable_is_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    captures = Captures(tmp_path, ConnectClient(ServiceAddress(url="http://127.0.0.1:1")))
    server = Server(database="shop", user="ann", password=Secret.parse("env:SHOP_PASSWORD"))
    monkeypatch.setenv("SHOP_PASSWORD", "opens it")
    captures._keep(Capture(name="shop", server=server, tables=["public.orders"]))
    monkeypatch.setenv("SHOP_PASSWORD", "the new one")
    named = captures.load("shop").server.password
    monkeypatch.delenv("SHOP_PASSWORD")
    kept = captures.load("shop").server.password

    assert named is not None
    assert kept is not None
    assert ("env:SHOP_PASSWORD", "opens it") == (named.source, kept.reveal())
