"""Drivers as users have them: `penstock pipeline run` in a process of its own, which a test may kill."""

import os
import signal
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from support.waiting import until

_TIMEOUT_S = 180


@dataclass
class Driver:
    """One driver process and everything that it started."""

    process: "subprocess.Popen[bytes]"
    log: Path
    _family: list[psutil.Process] = field(default_factory=list)

    def wait(self, timeout_s: float = _TIMEOUT_S) -> int:
        """Wait for its end, and for the end of Spark, which notices a moment later."""
        code = self.process.wait(timeout_s)
        until(lambda: not session_of(self.process.pid), 60)
        return code

    def kill(self) -> None:
        """End the driver as `kill -9` does."""
        self.process.send_signal(signal.SIGKILL)
        self.wait()

    @property
    def said(self) -> str:
        return self.log.read_text(errors="replace")


def session_of(leader: int) -> list[int]:
    """Give the processes of a session that are not over; one by one, for they come and go."""
    found = []
    for process in psutil.process_iter():
        try:
            if os.getsid(process.pid) == leader and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process.pid)
        except (psutil.Error, ProcessLookupError):
            continue
    return found


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
    return Driver(process, log)
