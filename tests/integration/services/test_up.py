"""One command starts Kafka, a registry and Connect; one stops them, and nothing is left."""

from pathlib import Path

import psutil
import pytest

from penstock.config.local_services import folder_of
from penstock.services import status

from conftest import Cli

PROJECT = """
cluster: {port: 0}
services:
  registry: {port: 0}
  connect: {port: 0}
"""


def processes_of(home: Path) -> list[str]:
    found = [each.info["cmdline"] or [] for each in psutil.process_iter(["cmdline"])]
    return [" ".join(command) for command in found if any(str(home) in argument for argument in command)]


@pytest.mark.soak
def test_up_starts_the_services_of_the_project_and_down_leaves_no_process(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "penstock.yaml").write_text(PROJECT)
    home = tmp_path / ".penstock"
    try:
        started = cli("up", "--json")
        running = cli("status", "--json")
        again = cli("up", "--json")
        restarted = cli("restart", "registry")
        supervisor = status.supervisor_of(folder_of(home, "registry"))
        assert supervisor is not None
        supervisor.kill()
        supervisor.wait()
        alone = cli("status", "--json")
        taken_over = cli("up", "--json")
        watched = cli("status", "--json")
    finally:
        stopped = cli("down", "--json")
    after = cli("status", "--json")

    assert ["registry", "connect"] == list(started.json["services"])
    assert started.json["services"] == again.json["services"]
    assert (0, ["running", "running"]) == (running.code, [each["state"] for each in running.json["services"]])
    assert f"registry is ready at {started.json['services']['registry']}\n" in restarted.err
    assert (4, ["unsupervised", "running"]) == (alone.code, [each["state"] for each in alone.json["services"]])
    assert started.json["services"] == taken_over.json["services"]
    assert (0, ["running", "running"]) == (watched.code, [each["state"] for each in watched.json["services"]])
    assert ([1], ["connect", "registry"]) == (stopped.json["stopped"], stopped.json["services"])
    assert (4, ["stopped", "stopped"]) == (after.code, [each["state"] for each in after.json["services"]])
    assert [] == processes_of(home)
