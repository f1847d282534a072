"""Scenarios and the demo from the command line, each on servers of its own, small ones in every run."""

import json
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest

from conftest import Cli
from support.waiting import eventually, until


def processes_of(folder: Path) -> list[str]:
    """Name the processes that have something to do with a folder."""
    found = []
    for process in psutil.process_iter(["cmdline", "cwd"]):
        told = [*(process.info["cmdline"] or ()), process.info["cwd"] or ""]
        if any(str(folder) in part for part in told):
            found.append(" ".join(told))
    return found


def performed(
    home: Path, *arguments: str | int, timeout_s: float = 480, meanwhile: Callable[[], object] = bool
) -> dict[str, Any]:
    """Perform a scenario of games; it must come to the truth, and leave neither a process nor a file."""
    outcome = outcome_of(home, *arguments, timeout_s=timeout_s, meanwhile=meanwhile)

    assert [0] * len(outcome["sinks"]) == [each["difference"] for each in outcome["sinks"]]
    assert outcome["podium"] == outcome["truth"] > 0
    assert 0 == outcome["lag"]
    return outcome


def outcome_of(
    home: Path, *arguments: str | int, timeout_s: float, meanwhile: Callable[[], object] = bool
) -> dict[str, Any]:
    """Perform a scenario; it must find nothing wrong, and leave neither a process nor a file."""
    command = [sys.executable, "-m", "penstock", "--home", str(home), "scenario", *map(str, arguments), "--json"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=home)
    try:
        meanwhile()
        out, err = process.communicate(timeout=timeout_s)
    except (subprocess.TimeoutExpired, AssertionError):
        # Not killed: it has servers to stop.
        process.send_signal(signal.SIGINT)
        process.communicate()
        raise

    assert 0 == process.returncode, err.decode()
    outcome: dict[str, Any] = json.loads(out)
    assert [] == outcome["differences"]
    assert [] == processes_of(home)
    assert [] == list(home.glob("scenario-*"))
    return outcome


@pytest.mark.soak
def test_poison_becomes_dead_letters_and_nothing_else_does(tmp_path: Path) -> None:
    outcome = performed(tmp_path, "poison", "--games", 12, "--seed", 4)

    (delta,) = outcome["sinks"]
    assert outcome["malformed"] == delta["dead"] == sum(each["letters"] for each in outcome["reasons"]) > 0
    assert outcome["events"] == delta["landed"]
    assert {"decode"} == {each["stage"] for each in outcome["reasons"]}


@pytest.mark.soak
def test_killed_workers_lose_and_double_nothing(tmp_path: Path) -> None:
    outcome = performed(tmp_path, "kill-worker", "--games", 12, "--sink", "json")

    landed = [each["value"] for each in outcome["facts"] if each["what"].startswith("landed when killed")]
    assert ["delta", "json"] == [each["sink"] for each in outcome["sinks"]]
    assert 0 < landed[0] < landed[1] < outcome["events"]


@pytest.mark.soak
def test_what_piled_up_while_no_worker_ran_drains_once_they_start(tmp_path: Path) -> None:
    outcome = performed(tmp_path, "dead-workers", "--games", 8, "--players", 6, "--sink", "kafka")

    assert [{"what": "lag before the workers start", "value": outcome["events"]}] == outcome["facts"]
    assert ["delta", "kafka"] == [each["sink"] for each in outcome["sinks"]]


def test_the_demo_lands_everything_and_its_podium_is_the_truth(cli: Cli, tmp_path: Path) -> None:
    said = cli("demo", "--games", 8, "--seed", 2, "--json", home=tmp_path)

    assert 0 == said.code, said.err
    outcome = said.json
    compared = outcome["compared"]
    tables = {each["worker"]: each["rows"] for each in outcome["tables"]}
    assert [] == compared["differences"]
    assert compared["podium"] == compared["truth"] == tables["game_podium"] == tables["game_meta"] > 0
    assert compared["events"] == tables["combat"] == tables["message_flow"]
    assert compared["events"] + compared["malformed"] == tables["raw"]
    assert sum(each["letters"] for each in compared["reasons"]) == compared["malformed"] > 0
    assert ["log to broker", "broker to table"] == [each["way"] for each in outcome["delays"]]
    assert outcome["live"]["records"] == tables["raw"]
    assert outcome["burst"]["records"] == outcome["burst"]["rows"] > 10_000
    assert [] == processes_of(tmp_path)


@pytest.mark.soak
def test_players_and_workers_that_are_scaled_while_they_play_come_to_the_truth(tmp_path: Path) -> None:
    def scale() -> None:
        (first,) = eventually(lambda: list(tmp_path.glob("scenario-*/tables/combat/_delta_log/*01.json")))
        (first.parents[3] / "scale.json").write_text('{"players": 14, "workers": 1}')

    outcome = performed(tmp_path, "players", "--games", 300, "--workers", 2, meanwhile=scale)

    facts = {each["what"]: each["value"] for each in outcome["facts"]}
    assert (1, 14) == (facts["landing at once, after change 1"], facts["players in the end"])


@pytest.mark.soak
@pytest.mark.parametrize(("events", "store"), [(400, "sqlite"), (20_000, "postgres")])
def test_senders_never_wait_for_a_consumer_that_is_away_over_midnight(tmp_path: Path, events: int, store: str) -> None:
    outcome = outcome_of(tmp_path, "midnight", "--events", events, "--store", store, timeout_s=540)

    facts = {each["what"]: each["value"] for each in outcome["facts"]}
    kafka, http = outcome["ways"]
    assert outcome["events"] == kafka["events"] + http["events"]
    assert 0 == kafka["refused"] == http["refused"]
    assert 0 < facts["backlog when it came back"] <= facts["backlog at its highest"] < outcome["events"]
    assert 2 == facts["partitions that it leads"]
    assert all(each["truth"] == each["stored"] > 0 for each in outcome["accounts"])


@pytest.mark.parametrize("moment", ["starting 1 Kafka node", "worker combat"])
def test_an_interrupted_scenario_leaves_neither_a_process_nor_a_file(tmp_path: Path, moment: str) -> None:
    command = [sys.executable, "-m", "penstock", "--home", str(tmp_path / "home"), "scenario", "poison", "--games", "5"]
    said = tmp_path / "said"
    with said.open("wb") as output:
        process = subprocess.Popen(command, stdout=output, stderr=output, start_new_session=True)
    try:
        until(lambda: moment in said.read_text())
        process.send_signal(signal.SIGINT)
        code = process.wait(240)
    finally:
        process.kill()

    assert 130 == code, said.read_text()
    assert [] == processes_of(tmp_path / "home")
    assert [] == list((tmp_path / "home").iterdir())


@pytest.mark.soak
@pytest.mark.parametrize(
    "arguments",
    [
        ("players", "--sink", "delta"),
        ("workers", "--sink", "kafka"),
        ("kill-broker", "--sink", "postgres"),
        ("spike", "--games", "400", "--sink", "json"),
    ],
    ids=lambda arguments: arguments[0],
)
def test_every_other_scenario_comes_to_the_truth(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    assert performed(tmp_path, *arguments, timeout_s=540)["facts"]
