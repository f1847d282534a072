"""A service that dies comes back with what it had, and commands say so."""

import os
import signal
from pathlib import Path

import httpx

from penstock.config.local_services import ServiceAddress, folder_of
from penstock.services import status

from conftest import Cli, RunningKafka
from support.waiting import until


def test_a_registry_that_is_killed_is_started_again_with_its_schemas(
    registry: ServiceAddress, registry_home: Path, cli: Cli
) -> None:
    folder = folder_of(registry_home, "registry")
    place = f"{registry.url}/subjects/survivor-value/versions"
    httpx.post(place, json={"schema": '"string"'}, timeout=240).raise_for_status()
    before = status.load(folder)

    os.kill(before.pids["apicurio"], signal.SIGKILL)
    until(lambda: status.load(folder).restarts > before.restarts)
    said = cli("status", "--json", home=registry_home).json["services"][0]
    until(lambda: httpx.get(place, timeout=240).status_code == 200)

    assert ("registry", before.restarts + 1) == (said["service"], said["restarts"])
    assert "apicurio ended with signal 9; started again after 1 s" == said["reason"]
    assert [1] == httpx.get(place, timeout=240).json()


def test_status_and_logs_show_a_service_beside_the_nodes(
    kafka: RunningKafka, connect: ServiceAddress, cli: Cli
) -> None:
    shown = cli("status", "--json", home=kafka.home)
    table = cli("status", home=kafka.home)
    log = cli("logs", "connect", "--lines", "5", home=kafka.home)

    assert ("running", connect.url) == tuple(shown.json["services"][0][key] for key in ("state", "url"))
    assert (0, 0, 0) == (shown.code, table.code, log.code)
    assert connect.url in table.out
    assert 5 == len(log.out.splitlines())
