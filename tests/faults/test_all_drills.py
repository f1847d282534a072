"""Every drill on a throwaway cluster of its own, as a user runs them."""

import json
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from penstock.lab.drills.catalog import DRILLS

from support.waiting import until


def start(home: Path, said: Path, *names: str) -> "subprocess.Popen[bytes]":
    command = [sys.executable, "-m", "penstock", "--home", str(home), "drill", *names, "--json"]
    with said.open("wb") as output, said.with_suffix(".json").open("wb") as data:
        return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=data, stderr=output, cwd=said.parent)


def left_behind(home: Path) -> list[list[str]]:
    """Return the command lines of processes that work in the home folder."""
    lines = [process.info["cmdline"] or [] for process in psutil.process_iter(["cmdline"])]
    return [line for line in lines if any(str(home / "drill-") in part for part in line)]


@pytest.mark.soak
@pytest.mark.timeout(900)
def test_every_drill_passes_one_after_the_other_and_nothing_is_left_behind(tmp_path: Path) -> None:
    home, said = tmp_path / "home", tmp_path / "said"

    code = start(home, said, "all").wait(800)

    steps = json.loads(said.with_suffix(".json").read_bytes())
    assert [] == [step for step in steps if not step["passed"]]
    assert (0, set(DRILLS)) == (code, {step["drill"] for step in steps})
    assert [] == left_behind(home)
    assert [] == list(home.iterdir())


@pytest.mark.soak
def test_ctrl_c_in_the_middle_of_a_drill_stops_the_cluster_and_removes_its_folder(tmp_path: Path) -> None:
    home, said = tmp_path / "home", tmp_path / "said"
    drill = start(home, said, "rebalance")
    until(lambda: "A third consumer joins" in said.read_text() or drill.poll() is not None, 120)
    running = left_behind(home)

    drill.send_signal(signal.SIGINT)

    assert 130 == drill.wait(90), said.read_text()
    assert len(running) > 3
    assert [] == left_behind(home)
    assert [] == list(home.iterdir())
