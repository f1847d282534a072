"""Who holds a file: told by the system, never by a number that somebody wrote down."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from penstock.config.settings import Settings
from penstock.config.settings import load as load_settings
from penstock.delivery.holding import held, holder
from penstock.errors import Conflict
from penstock.operate import supervisor
from penstock.operate.status import Status, load

HOLD = """
import sys
from pathlib import Path
from penstock.delivery.holding import held
with held(Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.read()
"""
ASK = """
import sys
from pathlib import Path
from penstock.delivery.holding import holder
print(holder(Path(sys.argv[1])).pid)
"""
# A driver that waits for good, and a signal that comes at the worst moment: it lives, and nobody knows its name yet.
SUPERVISE = """
import os, signal, subprocess, sys
from pathlib import Path
from penstock.config import settings
from penstock.operate import supervisor

class Popen(subprocess.Popen):
    def __init__(self, *arguments, **options):
        super().__init__(*arguments, **options)
        print(self.pid, flush=True)
        os.kill(os.getpid(), signal.SIGTERM)

subprocess.Popen = Popen
supervisor._command = lambda root, settings: [sys.executable, "-c", "import signal; signal.pause()"]
chosen = settings.load(home=Path(sys.argv[1]))
sys.exit(supervisor.supervise("combat", chosen, Path("none.yaml"), [], "local"))
"""


@contextmanager
def process_that_holds(path: Path) -> Iterator["subprocess.Popen[bytes]"]:
    command = [sys.executable, "-c", HOLD, str(path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert b"held\n" == process.stdout.readline()
        yield process


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return load_settings(home=tmp_path)


def test_the_holder_is_known_while_it_lives_and_nobody_after_it_was_killed(tmp_path: Path) -> None:
    path = tmp_path / "driver.lock"
    before = holder(path)
    with process_that_holds(path) as process:
        found = holder(path)
        process.kill()
        process.wait()
        after = holder(path)

    assert found is not None
    assert (None, process.pid, None) == (before, found.pid, after)


def test_asking_in_the_process_that_holds_a_file_does_not_let_go_of_it(tmp_path: Path) -> None:
    path = tmp_path / "driver.lock"
    with held(path):
        own = [holder(path), holder(path)]
        with pytest.raises(BlockingIOError), held(path):
            pass
        elsewhere = subprocess.run([sys.executable, "-c", ASK, str(path)], capture_output=True, text=True, check=True)

    assert [os.getpid(), os.getpid()] == [each.pid for each in own if each is not None]
    assert str(os.getpid()) == elsewhere.stdout.strip()
    assert holder(path) is None


def test_stop_leaves_a_stranger_alone_that_got_the_number_of_a_dead_driver(settings: Settings) -> None:
    folder = settings.home / "pipelines" / "combat"
    command = [sys.executable, "-c", "import signal; signal.pause()", "penstock", "pipeline", "supervise"]
    with subprocess.Popen([*command, str(settings.home)]) as stranger:
        Status(pipeline="combat", state="running", pid=stranger.pid, file="combat.yaml").save(folder)
        (folder / "supervisor.pid").write_text(f"{stranger.pid}\n")
        told = load(folder)
        with pytest.raises(Conflict) as caught:
            supervisor.stop("combat", settings, timeout_s=5)
        lives = stranger.poll() is None
        stranger.kill()

    assert told is not None
    assert "crashed" == told.state
    assert "pipeline 'combat' is not running: it has crashed" == caught.value.what
    assert lives


def test_stop_ends_the_driver_that_holds_the_lock_whatever_number_the_status_has(settings: Settings) -> None:
    folder = settings.home / "pipelines" / "combat"
    with process_that_holds(folder / "driver.lock") as driver:
        Status(pipeline="combat", state="running", pid=1, file="combat.yaml").save(folder)
        told = load(folder)

        forced = supervisor.stop("combat", settings, timeout_s=120)

        assert told is not None
        assert "running" == told.state
        assert not forced
        assert driver.poll() is not None


def test_a_supervisor_told_to_stop_while_it_starts_a_driver_leaves_none_behind(tmp_path: Path) -> None:
    command = [sys.executable, "-c", SUPERVISE, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=200, check=False)

    assert 0 == done.returncode, done.stderr
    assert not Path(f"/proc/{done.stdout.strip()}").exists()
