"""On a secure cluster services speak TLS and ask for a login, and Connect works as a user of its own."""

import json
import ssl
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest

from penstock.config import local_services
from penstock.config.service_names import SERVICE_NAMES
from penstock.config.services import (
    ConnectService,
    ConsoleService,
    GatewayService,
    LineageService,
    RegistryService,
    Services,
)
from penstock.kafka import acls, topics
from penstock.lineage.store.address import StoreAddress, default_path
from penstock.lineage.store.database import migrate
from penstock.services import control, status
from penstock.services.context import ServiceContext

from conftest import RunningKafka


def test_nobody_gets_in_without_the_login_not_even_at_the_port_behind(
    secure_kafka: RunningKafka, jar_folder: Path
) -> None:
    home = secure_kafka.home
    context = ServiceContext(home, jar_folder, secure_kafka.connection, nodes=1, secure=True)
    wanted = Services(registry=RegistryService(port=0), connect=ConnectService(port=0))
    paths = {"registry": "/subjects", "connect": "/connectors"}
    inner_paths = {"registry": "/apis/ccompat/v7/subjects", "connect": "/connectors"}
    try:
        for name, address in control.LocalServices(context).up(wanted).items():
            known = local_services.load(home, name)
            assert known is not None
            assert address.password is not None
            tls = ssl.create_default_context(cafile=address.ca_file)
            login = (name, address.password.reveal())
            with httpx.Client(verify=tls, timeout=240) as client:
                refused = client.get(address.url + paths[name])
                mistaken = client.get(address.url + paths[name], auth=(name, "guessed"))
                let_in = client.get(address.url + paths[name], auth=login)
            inner = httpx.get(f"http://127.0.0.1:{known.inner_port}{inner_paths[name]}", timeout=240)

            assert (name, 401, 401, 200, 401) == (
                name,
                *(each.status_code for each in (refused, mistaken, let_in, inner)),
            )
            with pytest.raises(httpx.ConnectError):  # a client that does not know the CA
                httpx.get(address.url, timeout=240)
            held = [path for path in (home / "services" / name).rglob("*") if path.is_file()]
            assert [] == [path for path in held if path.stat().st_mode & 0o077]
            running = status.load(home / "services" / name).pids.values()
            ports = {each.laddr.port for pid in running for each in _listening(pid)}
            assert {known.port, known.inner_port} == ports
            launch = json.loads((home / "services" / name / "launch.json").read_bytes())
            assert login[1] not in json.dumps(launch)
        assert "connect-configs" in {each.topic for each in topics.list_topics(secure_kafka.admin())}
        assert {"connect"} == {each.user for each in acls.list_acls(secure_kafka.admin(), "connect")}
    finally:
        for name in reversed(SERVICE_NAMES):
            control.stop(home, name)


def _listening(pid: int) -> list[Any]:
    return [each for each in psutil.Process(pid).net_connections("tcp") if each.status == psutil.CONN_LISTEN]


def test_own_services_act_for_nobody_without_their_login(secure_kafka: RunningKafka, jar_folder: Path) -> None:
    home = secure_kafka.home
    context = ServiceContext(home, jar_folder, secure_kafka.connection, nodes=1, secure=True)
    migrate(StoreAddress(store=str(default_path(home))))
    wanted = Services(
        gateway=GatewayService(port=0), lineage=LineageService(port=0), console=ConsoleService(port=0, role="viewer")
    )
    try:
        found = control.LocalServices(context).up(wanted)  # which has asked each with its login
        tls = ssl.create_default_context(cafile=found["console"].ca_file)
        with httpx.Client(verify=tls, timeout=240) as client:
            refused = [
                client.post(f"{found['gateway'].url}/topics/input.runs", json={"a": 1}).status_code,
                client.get(f"{found['lineage'].url}/v1/datasets").status_code,
                client.get(f"{found['console'].url}/api/v1/topics").status_code,
            ]
            password = found["console"].password
            assert password is not None
            login = {"user": "console", "password": password.reveal()}
            token = client.post(f"{found['console'].url}/api/v1/sign-in", json=login).json()["token"]
            me = client.get(f"{found['console'].url}/api/v1/me", headers={"Authorization": f"Bearer {token}"}).json()
        commands = [
            psutil.Process(pid).cmdline() for name in found for pid in status.load(context.folder(name)).pids.values()
        ]
    finally:
        for name in reversed(SERVICE_NAMES):
            control.stop(home, name)

    assert [401, 401, 401] == refused
    assert ("console", "viewer") == (me["user"], me["role"])
    assert [] == [each for each in commands if password.reveal() in " ".join(each)]
