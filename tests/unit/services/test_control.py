import os
import socket
from pathlib import Path

import pytest

from penstock.config.services import RegistryService, Services
from penstock.errors import BadInput, Conflict, NotFound
from penstock.kafka.connection import Connection
from penstock.services.context import ServiceContext
from penstock.services.control import LocalServices


@pytest.fixture
def services(tmp_path: Path) -> LocalServices:
    nowhere = Connection(bootstrap_servers="127.0.0.1:1")
    return LocalServices(ServiceContext(tmp_path / "home", tmp_path / "jars", nowhere, nodes=1, secure=False))


def test_a_port_that_is_taken_is_told_with_its_holder_and_nothing_is_started(
    services: LocalServices, tmp_path: Path
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken, pytest.raises(Conflict) as raised:
        port = taken.getsockname()[1]
        services.up(Services(registry=RegistryService(port=port)))

    assert f"port {port} on 127.0.0.1 is in use by " in str(raised.value)
    assert f"(process {os.getpid()})" in str(raised.value)
    assert "set services.registry.port in penstock.yaml" in str(raised.value)
    assert not (tmp_path / "home").exists()


def test_a_service_without_a_login_listens_on_the_loopback_alone(services: LocalServices, tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="where anybody could use it without a login"):
        services.up(Services(registry=RegistryService(port=0, host="192.0.2.1")))
    assert not (tmp_path / "home").exists()


def test_a_service_that_was_never_started_cannot_be_restarted(services: LocalServices) -> None:
    with pytest.raises(NotFound, match="penstock up connect"):
        services.restart("connect", Services())
