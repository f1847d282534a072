"""A pipeline in the background: its driver is started again after outages and crashes, not after errors that stay.

What decides is the driver's exit code: 4 (an outage that lasted) and death by a signal are tried again, with pauses
that grow; every other error ends the supervisor, and `penstock pipeline status` tells why.
"""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import psutil

from penstock.engine import status as states
from penstock.engine.driver import home_of
from penstock.errors import BrokerUnavailable, Conflict, NotFound
from penstock.private import make_missing_private, make_private
from penstock.settings import Settings

_FIRST_PAUSE_S = 1.0
_LONGEST_PAUSE_S = 60.0
_HEALTHY_AFTER_S = 60.0
_MARK = "supervise"


def _pid_file(settings: Settings, name: str) -> Path:
    return home_of(settings, name).folder / "supervisor.pid"


def _supervisor(settings: Settings, name: str) -> psutil.Process | None:
    """Find the running supervisor; a stale number, even one in use by another process, is none."""
    try:
        process = psutil.Process(int(_pid_file(settings, name).read_text(encoding="utf-8")))
        line = process.cmdline()
    except (OSError, ValueError, psutil.Error):
        return None
    return process if _MARK in line and str(settings.home) in line else None


def start(name: str, settings: Settings, file: Path, root: list[str], master: str) -> None:
    """Put a supervisor into the background, with a log of its own."""
    if _supervisor(settings, name) is not None:
        raise Conflict(f"pipeline '{name}' is running already", fix=f"See it with: penstock pipeline status {name}")
    home = home_of(settings, name)
    make_private(home.folder)
    make_missing_private(home.logs)
    command = [*_command(root, settings), _MARK, str(file.resolve()), "--master", master]
    with (home.logs / "driver.log").open("ab") as log:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True, cwd=file.resolve().parent
        )
    _pid_file(settings, name).write_text(f"{process.pid}\n", encoding="utf-8")


def _command(root: list[str], settings: Settings) -> list[str]:
    return [sys.executable, "-m", "penstock", *root, "--home", str(settings.home), "pipeline"]


def supervise(name: str, settings: Settings, file: Path, root: list[str], master: str) -> int:
    """Run drivers until one ends well, fails for good, or somebody says stop; give the last exit code."""
    child: subprocess.Popen[bytes] | None = None
    stopping = False

    def stop_driver(_signal: int, _frame: Any) -> None:
        nonlocal stopping
        stopping = True
        if child is not None:
            child.terminate()

    signal.signal(signal.SIGTERM, stop_driver)
    pause_s = _FIRST_PAUSE_S
    while True:
        began = time.monotonic()
        child = subprocess.Popen([*_command(root, settings), "run", str(file), "--master", master])
        code = child.wait()
        if stopping or not (code < 0 or code == BrokerUnavailable.exit_code):
            return max(code, 0)
        pause_s = _FIRST_PAUSE_S if time.monotonic() - began > _HEALTHY_AFTER_S else min(pause_s * 2, _LONGEST_PAUSE_S)
        ended = f"signal {-code}" if code < 0 else f"exit code {code}"
        sys.stderr.write(f"pipeline '{name}': the driver ended with {ended}; starting it again in {pause_s:.0f} s\n")
        deadline = time.monotonic() + pause_s
        while time.monotonic() < deadline and not stopping:
            time.sleep(0.1)
        if stopping:
            return 0


def stop(name: str, settings: Settings, timeout_s: float) -> bool:
    """Let the driver finish its batch; after `timeout_s` end it by force. Tell whether force was needed."""
    supervisor = _supervisor(settings, name)
    if supervisor is None:
        found = states.load(home_of(settings, name).folder)
        if found is None:
            raise NotFound(f"no pipeline '{name}' has run here", fix="List them with: penstock pipeline list")
        if found.state not in {"starting", "running", "waiting"}:
            raise Conflict(f"pipeline '{name}' is not running: it is {found.state}")
        processes = [psutil.Process(found.pid)]
    else:
        processes = [supervisor, *supervisor.children(recursive=True)]
    processes[0].terminate()
    _, alive = psutil.wait_procs(processes[:1], timeout=timeout_s)
    for process in processes if alive else []:
        if process.is_running():
            os.kill(process.pid, signal.SIGKILL)
    _pid_file(settings, name).unlink(missing_ok=True)
    return bool(alive)
