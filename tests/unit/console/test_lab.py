"""Runs of the lab by the console's REST interface: real processes, with a small program in place of the scenarios.

The scenarios and drills themselves take a Kafka: tests/integration/console/test_lab.py runs one.
"""

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from penstock.console import lab_runs, service
from penstock.console.lab_catalog import Catalog
from penstock.lab.drills.names import NAMES
from penstock.lab.scenarios.names import ABOUT

from support.consoles import Asked, open_console
from support.waiting import eventually, until

UNREACHABLE = "127.0.0.1:1"
# Starts a server in its folder as scenarios do, and stops it if it is told to end; `seed` says how it goes.
PROGRAM = """
import json, os, shutil, subprocess, sys, time
options = dict(each.split("=") for each in sys.argv if "=" in each)
place = sys.argv[sys.argv.index("--home") + 1] + "/scenario-1"
print(json.dumps({"home": place, "cwd": os.getcwd(), "env": sorted(os.environ)}), file=sys.stderr, flush=True)
seed = options.get("--seed", "1")
if seed == "3":
    print(json.dumps({"error": "no PostgreSQL here. Nothing was started", "exit_code": 3}), file=sys.stderr)
    sys.exit(3)
os.makedirs(place)
server = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(300)", place], start_new_session=True)
try:
    print("playing", file=sys.stderr, flush=True)
    while seed == "2":
        time.sleep(0.05)
    lost = [{"where": "delta", "what": "lost", "count": 1, "examples": ["partition 0 offset 7"]}]
    standing = {"user": "ada", "wins": 1, "true_wins": 1}
    outcome = {"scenario": "poison", "events": 7, "seconds": 0.1, "standings": [standing]}
    print(json.dumps({**outcome, "differences": lost if seed == "4" else []}))
finally:
    if seed != "5":
        server.kill(); server.wait()
        shutil.rmtree(place)
"""
SIGTERM_AS_THE_COMMAND_LINE = "import signal; signal.signal(signal.SIGTERM, signal.default_int_handler)"


CATALOG = Catalog()
"""One for all tests, as there is one in a console: it asks two commands, once."""


@pytest.fixture
def ask(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Asked]:
    monkeypatch.setattr(service, "Catalog", lambda: CATALOG)
    program = f"{SIGTERM_AS_THE_COMMAND_LINE}\n{PROGRAM}"
    monkeypatch.setattr(lab_runs, "SAFE_PYTHON", (sys.executable, "-c", program))
    monkeypatch.setenv("PENSTOCK_BOOTSTRAP_SERVERS", UNREACHABLE)
    asked = open_console(tmp_path, UNREACHABLE)
    yield asked
    for each in asked("GET", "/lab/runs").json():
        asked("POST", f"/lab/runs/{each['run_id']}/stop")


def started(ask: Asked, seed: int, **options: Any) -> str:
    said = ask("POST", "/lab/runs", {"kind": "scenario", "name": "poison", "seed": seed, **options})
    assert 201 == said.status_code, said.json()
    return str(said.json()["run_id"])


def run_of(ask: Asked, run_id: str) -> dict[str, Any]:
    return ask("GET", f"/lab/runs/{run_id}").json()  # type: ignore[no-any-return]


def ended(ask: Asked, run_id: str) -> dict[str, Any]:
    return eventually(lambda: run_of(ask, run_id), lambda found: found["run"]["state"] != "running")


def says(ask: Asked, run_id: str, words: str) -> None:
    until(lambda: any(words in line for line in run_of(ask, run_id)["output"]))


def processes_of(folder: Path) -> list[int]:
    """Find the servers that runs have started; the last word of their command is their folder."""
    running = psutil.process_iter(["cmdline"])
    return [each.pid for each in running if each.info["cmdline"] and str(folder) in each.info["cmdline"][-1]]


def test_everything_that_the_commands_have_can_be_started_with_their_options(ask: Asked) -> None:
    offers = ask("GET", "/lab/catalog").json()
    named = {(each["kind"], each["name"]): each["options"] for each in offers}

    assert {*(("scenario", name) for name in ABOUT), *(("drill", name) for name in NAMES)} == set(named)
    assert ["players", "games", "workers", "sink", "seed"] == named["scenario", "poison"]
    assert ["events", "store", "workers", "seed"] == named["scenario", "midnight"]
    assert [] == named["drill", "keys"]
    assert all(each["about"] for each in offers)


def test_a_run_is_followed_to_its_verdict_and_leaves_nothing_behind(ask: Asked, tmp_path: Path) -> None:
    found = ended(ask, started(ask, 1, players=4))

    assert ("right", {"players": 4, "seed": 1}) == (found["run"]["state"], found["run"]["options"])
    assert "playing" == found["output"][-1]
    assert {"scenario": "poison", "events": 7, "seconds": 0.1} == found["verdict"]["figures"]
    assert [{"user": "ada", "wins": 1, "true_wins": 1}] == found["verdict"]["tables"]["standings"]
    assert [] == processes_of(tmp_path)


def test_a_run_sees_neither_the_project_nor_its_cluster(ask: Asked, tmp_path: Path) -> None:
    run_id = started(ask, 1)
    told = json.loads(ended(ask, run_id)["output"][0])
    place = tmp_path / "console" / "lab" / run_id / "place"

    assert (str(place / "scenario-1"), str(place)) == (told["home"], told["cwd"])
    assert ["PENSTOCK_CACHE"] == [name for name in told["env"] if name.startswith("PENSTOCK_")]
    assert "cluster: {type: local}\n" == (place / "penstock.yaml").read_text()


@pytest.mark.parametrize(
    ("seed", "state", "reason"), [(3, "failed", "no PostgreSQL here. Nothing was started"), (4, "wrong", "")]
)
def test_what_goes_wrong_is_said(seed: int, state: str, reason: str, ask: Asked) -> None:
    run = ended(ask, started(ask, seed))["run"]

    assert (state, reason) == (run["state"], run["reason"])


def test_one_runs_at_a_time_and_is_stopped_with_its_servers(ask: Asked, tmp_path: Path) -> None:
    run_id = started(ask, 2)
    says(ask, run_id, "playing")
    second = ask("POST", "/lab/runs", {"kind": "drill", "name": "keys"})
    servers = processes_of(tmp_path)
    now = run_of(ask, run_id)["run"]["now"]
    stopped = ask("POST", f"/lab/runs/{run_id}/stop").json()

    assert (409, "scenario 'poison' is running, and one runs at a time") == (
        second.status_code,
        second.json()["error"]["message"],
    )
    assert (1, "playing") == (len(servers), now)
    assert "stopped" == stopped["state"]
    assert [] == processes_of(tmp_path)
    assert ["stopped"] == [each["state"] for each in ask("GET", "/lab/runs").json()]


def test_a_console_that_is_started_again_finds_the_run_and_stops_it(ask: Asked, tmp_path: Path) -> None:
    run_id = started(ask, 2)
    says(ask, run_id, "playing")
    again = open_console(tmp_path, UNREACHABLE)
    found = run_of(again, run_id)["run"]["state"]
    again("POST", f"/lab/runs/{run_id}/stop")

    assert ["running", "stopped"] == [found, run_of(ask, run_id)["run"]["state"]]
    assert [] == processes_of(tmp_path)


def test_what_a_killed_run_has_left_is_ended_before_the_next_begins(ask: Asked, tmp_path: Path) -> None:
    killed = started(ask, 2)
    says(ask, killed, "playing")
    process = ask.client.app.state.console.lab_runs._processes[killed]  # type: ignore[attr-defined]
    os.kill(process.pid, 9)
    process.wait()
    left = processes_of(tmp_path)
    state = run_of(ask, killed)["run"]["state"]
    following = ended(ask, started(ask, 1))["run"]["state"]

    assert (1, "failed", "right") == (len(left), state, following)
    assert [] == processes_of(tmp_path)


def test_a_double_click_starts_one_and_the_newest_twenty_are_kept(ask: Asked, tmp_path: Path) -> None:
    body = {"kind": "scenario", "name": "poison", "seed": 3}
    first, second = (ask("POST", "/lab/runs", body, action_id="a-double-click").json() for _ in range(2))
    ended(ask, first["run_id"])
    folder = tmp_path / "console" / "lab"
    record = (folder / first["run_id"] / "run.json").read_bytes()
    for number in range(25):
        old = folder / f"20200101-0000{number:02}-0"
        old.mkdir()
        (old / "run.json").write_bytes(record)
        (old / "said.log").touch()
        (old / "outcome.json").touch()
    ended(ask, started(ask, 3))

    assert first == second
    assert 20 == len(ask("GET", "/lab/runs").json())


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ({"kind": "scenario", "name": "poisen"}, "there is no scenario 'poisen'"),
        ({"kind": "drill", "name": "--help"}, "there is no drill '--help'"),
        ({"kind": "drill", "name": "keys", "players": 4}, "players is not for the drill 'keys'"),
        ({"kind": "scenario", "name": "midnight", "games": 4}, "games is not for the scenario 'midnight'"),
        ({"kind": "scenario", "name": "poison", "players": 1}, "players"),
    ],
)
def test_what_cannot_be_started_is_refused(body: dict[str, Any], words: str, ask: Asked) -> None:
    said = ask("POST", "/lab/runs", body)

    assert 422 == said.status_code
    assert words in said.json()["error"]["message"]
    assert [] == ask("GET", "/lab/runs").json()


@pytest.mark.parametrize("run_id", ["..", "%2e%2e%2f", "nobody", "0"])
def test_no_id_leads_out_of_the_folder_of_runs(run_id: str, ask: Asked) -> None:
    assert ask("GET", f"/lab/runs/{run_id}/cluster").status_code in {404, 422}


def test_without_the_lab_one_line_says_what_to_install(ask: Asked, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "websockets", None)
    refused = [ask("GET", "/lab/catalog"), ask("POST", "/lab/runs", {"kind": "drill", "name": "keys"})]

    assert [503, 503] == [each.status_code for each in refused]
    assert {"Run: pip install 'penstock[lab]'"} == {each.json()["error"]["fix"] for each in refused}


def test_games_that_were_never_started_are_said_to_be_stopped_and_take_kafka(ask: Asked) -> None:
    found = ask("GET", "/lab/simulator").json()
    refused = ask("POST", "/lab/simulator", {"players": 4})
    several = ask("POST", "/lab/simulator", {"servers": 3})

    assert ("stopped", None, {"players": 12, "think_s": 0.5, "servers": 1}) == (
        found["state"],
        found["crowd"],
        found["usual"],
    )
    assert 503 == refused.status_code
    assert (422, True) == (several.status_code, "Redis" in several.json()["error"]["message"])
    assert "stopped" == ask("POST", "/lab/simulator/stop").json()["state"]


def test_a_scenario_is_scaled_while_it_runs_and_not_afterwards(ask: Asked, tmp_path: Path) -> None:
    run_id = started(ask, 2, name="players", players=4)
    place = tmp_path / "console" / "lab" / run_id / "place" / "scenario-1"
    until(place.is_dir)
    told = [
        ask("POST", f"/lab/runs/{run_id}/scale", body)
        for body in ({"players": 8}, {"workers": 2}, {}, {"players": 1}, {"workers": 5}, {"games": 3})
    ]
    asked = json.loads((place / "scale.json").read_text())
    ask("POST", f"/lab/runs/{run_id}/stop")
    over = ask("POST", f"/lab/runs/{run_id}/scale", {"players": 9})

    assert [200, 200, 422, 422, 422, 422] == [each.status_code for each in told]
    assert (["players", "workers"], {"players": 8, "workers": 2}) == (
        told[1].json()["by_hand"],
        told[1].json()["scale"],
    )
    assert {"players": 8, "workers": 2} == asked
    assert (409, "scenario 'players' is over") == (over.status_code, over.json()["error"]["message"])


def test_a_scenario_that_cannot_be_scaled_says_so(ask: Asked) -> None:
    run_id = started(ask, 2)
    said = ask("POST", f"/lab/runs/{run_id}/scale", {"players": 8})

    assert (409, "scenario 'poison' does not let players be scaled") == (
        said.status_code,
        said.json()["error"]["message"],
    )
