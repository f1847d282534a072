"""What a service is started with: what its settings name of the shell, and a login where Kafka has one."""

import os
from pathlib import Path

import psutil
import pytest

from penstock.config.local_services import local_service
from penstock.config.service_names import ServiceName
from penstock.config.services import ConsoleService, GatewayService
from penstock.config.settings import load
from penstock.kafka.connection import Connection
from penstock.kafka.security import Plain, Plaintext
from penstock.secret import Secret
from penstock.services import control, launch, status
from penstock.services.context import ServiceContext

from support.waiting import eventually

PROJECT = """
cluster: {bootstrap_servers: "127.0.0.1:1", security: {type: plain, username: u, password: env:KAFKA_PASSWORD}}
"""


def test_a_service_gets_the_variables_that_its_settings_name_and_no_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "penstock.yaml").write_text(PROJECT)
    for name in ("KAFKA_PASSWORD", "PENSTOCK_GATEWAY_TOKEN", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "canary")
    settings, home = load(project_file=tmp_path / "penstock.yaml"), tmp_path / ".penstock"
    root = ("--project", str(tmp_path / "penstock.yaml"))
    context = ServiceContext(
        home, tmp_path, settings.connection(), nodes=1, secure=False, root=root, variables=settings.variables()
    )
    folder = context.folder("gateway")
    try:
        control.LocalServices(context).start("gateway", GatewayService(port=0))

        def environments() -> list[dict[str, str]]:
            supervisor, pid = status.supervisor_of(folder), status.load(folder).pids.get("gateway")
            try:
                return [each.environ() for each in (supervisor, psutil.Process(pid)) if each is not None and pid]
            except psutil.Error:
                return []  # without a Kafka it may end, and is started again

        seen = eventually(environments, lambda found: len(found) == 2)
    finally:
        control.stop(home, "gateway")

    assert [{"KAFKA_PASSWORD", "PENSTOCK_GATEWAY_TOKEN"}] * 2 == [
        {name for name, value in each.items() if value == "canary"} for each in seen
    ]
    assert [os.environ["PATH"]] * 2 == [each["PATH"] for each in seen]
    assert "canary" not in (folder / "launch.json").read_text()


def test_beside_servers_that_know_their_clients_the_gateway_and_the_console_know_theirs(tmp_path: Path) -> None:
    login = Plain(username="u", password=Secret.of("p"))
    kafkas = [Connection(bootstrap_servers="127.0.0.1:1", security=each) for each in (Plaintext(), login, Plaintext())]
    wanted: dict[ServiceName, GatewayService | ConsoleService] = {
        "gateway": GatewayService(port=0),
        "console": ConsoleService(port=0),
    }
    found = []
    for number, connection in enumerate(kafkas):
        context = ServiceContext(
            tmp_path / str(number), tmp_path, connection, nodes=1, secure=False, has_logins_elsewhere=number == 2
        )
        try:
            for name, settings in wanted.items():
                control.LocalServices(context).start(name, settings)
                known, started = local_service(context.home, name), launch.load(context.folder(name))
                assert started is not None
                asks = {"--token-file", "--sign-in"} & set(started.programs[0].command)
                found.append((name, known.url.partition(":")[0], known.username, asks))
        finally:
            for name in wanted:
                control.stop(context.home, name)

    assert [
        ("gateway", "http", None, set()),
        ("console", "http", None, set()),
        ("gateway", "http", "gateway", {"--token-file"}),
        ("console", "http", "console", {"--sign-in"}),
        ("gateway", "http", None, set()),
        ("console", "http", "console", {"--sign-in"}),
    ] == found
