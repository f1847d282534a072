"""What a run of tests has started ends with it, however that ends."""

import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import psutil

from support import leftovers
from support.waiting import until

RUN = """
import os, subprocess, sys
from pathlib import Path
from support.leftovers import Watcher

folder = Path(sys.argv[1])
watcher = Watcher(folder)
sleep = [sys.executable, "-c", "import time; time.sleep(300)"]
alone = {"start_new_session": True, "stdout": subprocess.DEVNULL}
by_folder = subprocess.Popen(sleep, cwd=folder, **alone)
by_command = subprocess.Popen([*sleep, str(folder / "server.properties")], **alone)
elsewhere = subprocess.Popen([*sleep, str(folder) + "-2/server.properties"], **alone)
print(by_folder.pid, by_command.pid, elsewhere.pid, flush=True)
sys.stdin.readline()
watcher.dismiss()
"""

TEST = """
import multiprocessing

def test_a_process_is_forked() -> None:
    process = multiprocessing.get_context("forkserver").Process(target=print)
    process.start()
    process.join()
"""


def run(folder: Path) -> "tuple[subprocess.Popen[str], list[psutil.Process]]":
    folder.mkdir()
    environment = {**os.environ, "PYTHONPATH": str(Path(leftovers.__file__).parents[1])}
    command = [sys.executable, "-c", RUN, str(folder)]
    process = subprocess.Popen(command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    return process, [psutil.Process(int(each)) for each in process.stdout.readline().split()]


def is_over(process: psutil.Process) -> bool:
    return not process.is_running() or process.status() == psutil.STATUS_ZOMBIE


def test_what_a_killed_run_has_left_is_ended_and_nothing_else(tmp_path: Path) -> None:
    process, (by_folder, by_command, elsewhere) = run(tmp_path / "run")
    with process:
        process.send_signal(signal.SIGKILL)
    try:
        until(lambda: is_over(by_folder) and is_over(by_command))
        assert not is_over(elsewhere)
    finally:
        elsewhere.kill()


def test_a_run_that_ends_by_itself_is_left_alone(tmp_path: Path) -> None:
    process, started = run(tmp_path / "run")
    try:
        with process:
            process.communicate("\n")

        assert 0 == process.returncode
        assert [False] * 3 == [is_over(each) for each in started]
    finally:
        for each in started:
            each.kill()


def test_a_run_that_has_forked_processes_ends_without_a_complaint(tmp_path: Path) -> None:
    tests = Path(leftovers.__file__).parents[1]
    (tmp_path / "test_fork.py").write_text(TEST)
    command = [sys.executable, "-m", "pytest", "-c", str(tests.parent / "pyproject.toml"), "-p", "conftest"]

    # A socket's path is short, and the folders of tests need not be.
    with tempfile.TemporaryDirectory(dir="/tmp") as short:
        ran = subprocess.run(
            [*command, "-p", "no:cacheprovider", str(tmp_path / "test_fork.py")],
            env={**os.environ, "PYTHONPATH": str(tests), "TMPDIR": short},
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
        )
        left = list(Path(short).glob("pymp-*"))

    assert (0, "") == (ran.returncode, ran.stderr), ran.stdout
    assert "1 passed" in ran.stdout
    assert not left
