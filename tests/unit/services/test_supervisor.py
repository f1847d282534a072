import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from penstock.services import launch, status
from penstock.services.control import stop
from penstock.services.launch import Launch, Program

from support.waiting import eventually, until

_WAITS = "import signal; signal.pause()"


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Path]:
    """A home whose registry is two programs that wait."""
    folder = tmp_path / "services" / "registry"
    programs = tuple(Program(name=name, command=(sys.executable, "-c", _WAITS, str(folder), name)) for name in "ab")
    folder.mkdir(parents=True)
    Launch(programs=programs).save(folder)
    yield tmp_path
    stop(tmp_path, "registry")


@pytest.fixture
def supervisor(home: Path) -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(
        [sys.executable, "-m", "penstock.services.supervisor", str(home / "services" / "registry")]
    ) as started:
        until(lambda: status.load(home / "services" / "registry").state == "running")
        yield started
        started.terminate()


def test_a_program_that_is_killed_is_started_again_and_the_status_says_so(
    home: Path, supervisor: subprocess.Popen[bytes]
) -> None:
    folder = home / "services" / "registry"
    before = status.load(folder)
    os.kill(before.pids["a"], signal.SIGKILL)
    between = eventually(lambda: status.load(folder), lambda seen: seen.restarts > 0)
    after = eventually(lambda: status.load(folder), lambda seen: seen.state == "running" and seen.restarts > 0)

    # A second later it is started again, which may be before the look.
    assert (between.state, list(between.pids)) in [("restarting", ["b"]), ("running", ["a", "b"])]
    assert 1 == after.restarts
    assert "a ended with signal 9; started again after 1 s" == after.reason
    assert before.pids["b"] == after.pids["b"]
    assert before.pids["a"] != after.pids["a"]
    assert supervisor.poll() is None


@pytest.mark.usefixtures("supervisor")
def test_stopping_leaves_no_process(home: Path) -> None:
    folder = home / "services" / "registry"
    pids = status.load(folder).pids.values()

    assert stop(home, "registry")
    assert not any(psutil.pid_exists(pid) for pid in pids)
    assert "stopped" == status.load(folder).state
    assert not stop(home, "registry")


def test_programs_whose_supervisor_was_killed_are_found_and_ended(
    home: Path, supervisor: subprocess.Popen[bytes]
) -> None:
    folder = home / "services" / "registry"
    supervisor.kill()
    supervisor.wait()
    unsupervised = status.load(folder)
    left = {each.pid for each in launch.left_behind(folder)}

    assert "unsupervised" == unsupervised.state
    assert unsupervised.reason.endswith("Take over with: penstock up")
    assert set(unsupervised.pids.values()) == left
    assert stop(home, "registry")
    assert [] == launch.left_behind(folder)


def test_a_service_of_which_nothing_is_left_has_crashed_and_says_what_to_type(
    home: Path, supervisor: subprocess.Popen[bytes]
) -> None:
    folder = home / "services" / "registry"
    supervisor.kill()
    supervisor.wait()
    for each in launch.left_behind(folder):
        each.kill()
    until(lambda: not launch.left_behind(folder))

    found = status.load(folder)

    assert ("crashed", {}) == (found.state, found.pids)
    assert "all of it is gone. Start it with: penstock up" == found.reason
