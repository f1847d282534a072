"""Drivers as users have them: `penstock pipeline run` in a process of its own, which a test may kill."""

import fcntl
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import psutil

from penstock.lab.scenarios.driver_process import session_of

from support.waiting import until

_TIMEOUT_S = 480
_started: "list[Driver]" = []


@dataclass
class Driver:
    """One driver process and everything that it started."""

    process: "subprocess.Popen[bytes]"
    log: Path

    def wait(self, timeout_s: float = _TIMEOUT_S) -> int:
        """Wait for its end, and for the end of Spark, which notices a moment later."""
        code = self.process.wait(timeout_s)
        until(lambda: not session_of(self.process.pid))
        return code

    def reach(self, condition: Callable[[], bool], timeout_s: float = _TIMEOUT_S) -> None:
        """Wait until the driver has come so far; what it said tells why if it does not."""
        deadline = time.monotonic() + timeout_s
        while not condition():
            assert self.process.poll() is None, f"the driver ended before: {self.said}"
            assert time.monotonic() < deadline, f"the driver did not come so far: {self.said}"
            time.sleep(0.05)

    def kill(self) -> None:
        """End the driver as `kill -9` does."""
        self.process.send_signal(signal.SIGKILL)
        self.wait()

    def pause(self) -> None:
        """Stop the driver and everything that it started, as a machine that hangs does."""
        pids = session_of(self.process.pid)
        for pid in pids:
            os.kill(pid, signal.SIGSTOP)
        # Until they are stopped they go on, and may take a lock that a test has just found free.
        until(lambda: all(_is_still(pid) for pid in pids))

    def resume(self) -> None:
        """Resume it."""
        for pid in session_of(self.process.pid):
            os.kill(pid, signal.SIGCONT)

    @property
    def said(self) -> str:
        return self.log.read_text(errors="replace")


def start_driver(home: Path, file: Path, log: Path, *options: str, **environment: str) -> Driver:
    """Start a driver in a session of its own."""
    command = [sys.executable, "-m", "penstock", "--home", str(home), "pipeline", "run", str(file), *options]
    with log.open("ab") as output:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            cwd=file.parent,
            start_new_session=True,
            env={**os.environ, **environment},
        )
    driver = Driver(process, log)
    _started.append(driver)
    return driver


def _is_still(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() in {psutil.STATUS_STOPPED, psutil.STATUS_ZOMBIE}
    except psutil.NoSuchProcess:
        return True


def is_locked(path: Path) -> bool:
    """Return whether some process holds this lock file."""
    with path.open("ab") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


def end_leftovers() -> None:
    """End what a failed test left running; a driver that hangs cannot be waited for."""
    while _started:
        driver = _started.pop()
        for pid in session_of(driver.process.pid):
            os.kill(pid, signal.SIGKILL)
        driver.process.wait(60)
