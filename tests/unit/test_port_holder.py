"""Before a login is shown without TLS, whoever listens there has to be a program of the same user."""

import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock import port_holder
from penstock.config.local_services import ServiceAddress, ServiceState
from penstock.connect.client import ConnectClient
from penstock.errors import BrokerUnavailable
from penstock.port_holder import require_own_listener
from penstock.secret import Secret
from penstock.services import asking


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as made:
        made.settimeout(0.2)
        yield made


def _url(listener: socket.socket) -> str:
    return f"http://127.0.0.1:{listener.getsockname()[1]}"


def _is_met(listener: socket.socket) -> bool:
    try:
        listener.accept()[0].close()
    except TimeoutError:
        return False
    return True


@pytest.fixture
def strange(listener: socket.socket, monkeypatch: pytest.MonkeyPatch) -> socket.socket:
    """Have the listener be that of another user than the one who asks."""
    monkeypatch.setattr(port_holder, "_ROOT", -1)
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    return listener


def test_a_program_of_the_same_user_is_trusted(listener: socket.socket) -> None:
    require_own_listener(_url(listener))


def test_a_listener_on_all_addresses_and_one_of_ipv6s_kind_as_java_has_them_are_found() -> None:
    with (
        socket.create_server(("", 0)) as everywhere,
        socket.create_server(("::ffff:127.0.0.1", 0), family=socket.AF_INET6, dualstack_ipv6=True) as mapped,
    ):
        for each in (everywhere, mapped):
            require_own_listener(_url(each))


def test_a_program_of_another_user_is_not(strange: socket.socket) -> None:
    with pytest.raises(ConnectionRefusedError, match=r"a program of another user .* was shown no login"):
        require_own_listener(_url(strange))


def test_of_two_listeners_the_one_with_the_exact_address_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    head = "sl local rem st tx:rx tr:tm retr uid timeout\n"
    own, other = (f"0: {{}}:1F90 00000000:0000 0A 0:0 0:0 0 {uid} 0\n" for uid in (os.geteuid(), os.geteuid() + 7))
    tables = tmp_path / "tcp", tmp_path / "tcp6"
    tables[0].write_text(head + other.format("0200007F") + own.format("0100007F"))
    tables[1].write_text(head + other.format("0" * 32))
    monkeypatch.setattr(port_holder, "_TABLES", tables)
    require_own_listener("http://127.0.0.1:8080")

    with pytest.raises(ConnectionRefusedError, match="another user"):
        require_own_listener("http://127.0.0.2:8080")
    with pytest.raises(ConnectionRefusedError, match="another user"):
        require_own_listener("http://127.0.0.3:8080")


def test_where_nobody_listens_yet_nobody_is_asked(listener: socket.socket) -> None:
    url = _url(listener)
    listener.close()

    with pytest.raises(ConnectionRefusedError, match="Connection refused"):
        require_own_listener(url)


def test_commands_and_probes_show_no_login_to_a_stranger_who_took_the_port(
    strange: socket.socket, tmp_path: Path
) -> None:
    (tmp_path / "password").write_text("secret")
    address = ServiceAddress(
        url=_url(strange), username="connect", password=Secret.parse(f"file:{tmp_path / 'password'}")
    )

    with pytest.raises(BrokerUnavailable, match="another user"):
        ConnectClient(address).connectors()
    with pytest.raises(BrokerUnavailable, match="another user"):
        asking.get(address, "/connectors")
    with pytest.raises(BrokerUnavailable, match="another user"):
        asking.post(address, "/api/v1/sign-in", "{}", "application/json")
    assert not _is_met(strange)


def test_a_login_goes_to_the_one_address_that_was_looked_at_and_not_to_a_name(tmp_path: Path) -> None:
    state = ServiceState(name="connect", host="localhost", port=8083, inner_port=None, secure=False, login=True)

    assert "http://127.0.0.1:8083" == state.address(tmp_path).url
    assert "https://localhost:8083" == state.model_copy(update={"secure": True}).address(tmp_path).url
