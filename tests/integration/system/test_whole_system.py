"""The parts of a project come up with one command, change only where the file does, and end with one."""

import os
import signal
from pathlib import Path
from typing import Any

import psutil
import pytest

from penstock.config.local_services import folder_of
from penstock.example_files import examples_folder
from penstock.services import status

from conftest import Cli, RunningKafka
from support.waiting import until


def processes_of(home: Path) -> list[str]:
    found = [each.info["cmdline"] or [] for each in psutil.process_iter(["cmdline"])]
    return [" ".join(command) for command in found if any(str(home) in argument for argument in command)]


def rows(answer: Any, group: str, *keys: str) -> list[tuple[Any, ...]]:
    return [tuple(row[key] for key in keys) for row in answer.json[group]]


def test_services_come_up_change_with_the_file_and_end(kafka: RunningKafka, cli: Cli, tmp_path: Path) -> None:
    topic = kafka.topic()
    home, file = tmp_path / ".penstock", tmp_path / "penstock.yaml"
    cluster = f"cluster: {{bootstrap_servers: '{kafka.connection.bootstrap_servers}'}}\n"
    file.write_text(
        f"{cluster}services: {{gateway: {{port: 0}}, simulator: {{players: 4, think_s: 0, topic: {topic}}}}}"
    )
    try:
        started = cli("up", "--json")
        running = cli("status", "--json")
        os.kill(status.load(folder_of(home, "gateway")).pids["gateway"], signal.SIGKILL)
        until(lambda: status.load(folder_of(home, "gateway")).restarts == 1)
        killed = cli("status", "--json")
        file.write_text(f"{cluster}services: {{simulator: {{players: 5, think_s: 0, topic: {topic}}}}}")
        planned = cli("up", "--dry-run", "--json")
        refused = cli("up")
    finally:
        ended = cli("down", "--json")

    assert (0, ["gateway", "simulator"]) == (started.code, started.json["parts"])
    assert [("gateway", "running"), ("simulator", "running")] == rows(running, "services", "service", "state")
    assert "gateway ended with signal 9; started again after 1 s" == killed.json["services"][0]["reason"]
    assert [("gateway", "stop"), ("simulator", "restart")] == [(step["part"], step["action"]) for step in planned.json]
    assert (1, True) == (refused.code, "gateway will be stopped" in refused.err)
    assert {"simulator", "gateway"} == set(ended.json["services"])
    assert [] == processes_of(home)


@pytest.mark.soak
def test_the_example_comes_up_whole_with_games_landing_and_lineage_filling(cli: Cli, tmp_path: Path) -> None:
    for path in (examples_folder() / "superhero").iterdir():
        if path.is_file():
            (tmp_path / path.name).write_bytes(path.read_bytes())
    names = ["registry", "connect", "gateway", "lineage", "console", "simulator", "combat", "game-meta", "game-podium"]
    try:
        started = cli("up", "--json")
        until(lambda: "tables/game_podium" in cli("lineage", "of", "game_podium").out)
        running = cli("status", "--json")
        again = cli("up", "--dry-run", "--json")
    finally:
        ended = cli("down")

    assert (0, set(names)) == (started.code, set(started.json["parts"]))
    assert (0, True) == (running.code, running.json["healthy"])
    assert {"keep"} == {step["action"] for step in again.json}
    assert (0, []) == (ended.code, processes_of(tmp_path / ".penstock"))
