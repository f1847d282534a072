"""A pipeline in the background: its driver is restarted after outages and crashes, not after permanent errors.

What decides is the driver's exit code: 4 (an outage that lasted) and death by a signal are tried again, with pauses
that grow; every other error ends the supervisor, and `penstock pipeline status` says why.
"""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil

from penstock.config.settings import Settings
from penstock.delivery.holding import held, holder
from penstock.driver.paths import PipelinePaths
from penstock.errors import BrokerUnavailable, Conflict, EnvironmentNotReady, NotFound, Transient
from penstock.interpreter import SAFE_PYTHON
from penstock.operate import status as states
from penstock.operate.belonging import require_own_name
from penstock.operate.known_pipelines import known_paths, paths_of
from penstock.operate.restarts import Restarts
from penstock.operate.status import Status
from penstock.pauses import Pauses
from penstock.private import make_missing_private, make_private
from penstock.uninterrupted import to_the_end

_LOOK_EVERY_S = 0.1
_KILLED_S = 10.0
_OUTAGE_S = 5.0
_STREAM = ["--stream"]


def _lock(settings: Settings, name: str) -> Path:
    return paths_of(settings, name).folder / states.SUPERVISOR_LOCK


def _running_already(name: str) -> Conflict:
    return Conflict(f"pipeline '{name}' is running already", fix=f"See it with: penstock pipeline status {name}")


def start(name: str, settings: Settings, file: Path, root: list[str], master: str, *, stream: bool = False) -> None:
    """Put a supervisor into the background, with a log of its own; it is running when this returns.

    With `stream` the pipeline goes on when it has caught up, whatever its file says.
    """
    paths = paths_of(settings, name)
    require_own_name(paths.folder, name, file)
    if is_running(name, settings):
        raise _running_already(name)
    make_private(paths.folder)
    make_missing_private(paths.logs)
    options = ["--master", master, *_STREAM[:stream]]
    command = [*_command(root, settings), "supervise", str(file.resolve()), *options]
    spawned: list[subprocess.Popen[bytes]] = []

    def spawn() -> None:
        with paths.driver_log.open("ab") as log:
            spawned.append(
                subprocess.Popen(
                    command,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    start_new_session=True,
                    cwd=file.resolve().parent,
                )
            )

    try:
        # From the first moment: the state of the run before is nobody's any more.
        Status(pipeline=name, state="starting", pid=os.getpid(), file=str(file.resolve())).save(paths.folder)
        to_the_end(spawn)  # one whose start is interrupted half way would run on, and nobody would know it
        process = spawned[0]
        while (found := holder(_lock(settings, name))) is None and process.poll() is None:
            time.sleep(_LOOK_EVERY_S)
    except KeyboardInterrupt as interrupt:
        _take_back(paths, spawned)
        interrupt.add_note(f"pipeline '{name}' was not started")
        raise
    if found is not None and found.pid != process.pid:
        raise _running_already(name)
    if found is None and process.returncode != 0:  # one with little to do may be over already
        raise EnvironmentNotReady(
            f"the supervisor of pipeline '{name}' did not start", fix=f"Read: penstock pipeline logs {name}"
        )


def _take_back(paths: PipelinePaths, spawned: "list[subprocess.Popen[bytes]]") -> None:
    """End a supervisor that has not reported yet: it would start after `stop` has said that nothing runs."""
    for process in spawned:
        process.terminate()
        process.wait()
    left = states.saved(paths.folder)
    if left is not None and not left.has_ended:
        left.end("stopped")
        left.save(paths.folder)


def wait_for_first_batch(name: str, settings: Settings, show: Callable[[Status], None]) -> Status:
    """Return the state once the pipeline has done a batch, has nothing to read, has ended, or keeps waiting."""
    folder, waiting_since = paths_of(settings, name).folder, None
    while True:
        status = states.load(folder)
        if status is not None:
            # A driver that has given up an outage may not be gone yet; its supervisor will start another.
            if status.exit_code == Transient.exit_code and holder(_lock(settings, name)) is not None:
                status.state = "waiting"
            show(status)
            if status.state not in {"starting", "waiting"}:
                return status
            now = time.monotonic()
            waiting_since = (waiting_since or now) if status.state == "waiting" else None
            if waiting_since is not None and now - waiting_since >= _OUTAGE_S:
                return status
        time.sleep(_LOOK_EVERY_S)


def _command(root: list[str], settings: Settings) -> list[str]:
    return [*SAFE_PYTHON, "-m", "penstock", *root, "--home", str(settings.home), "pipeline"]


def supervise(name: str, settings: Settings, file: Path, root: list[str], master: str, *, stream: bool = False) -> int:
    """Run drivers until one ends well, fails for good, or somebody says stop; return the last exit code."""
    try:
        with held(_lock(settings, name)):
            command = [*_command(root, settings), "run", str(file), "--master", master, *_STREAM[:stream]]
            return _supervised(name, settings, file, command)
    except BlockingIOError:
        raise _running_already(name) from None


def _supervised(name: str, settings: Settings, file: Path, command: list[str]) -> int:
    child: subprocess.Popen[bytes] | None = None
    stopping = False
    paths = paths_of(settings, name)

    def stop_driver(_signal: int, _frame: Any) -> None:
        nonlocal stopping
        stopping = True
        if child is not None:
            child.terminate()

    signal.signal(signal.SIGTERM, stop_driver)
    if states.driver_of(paths.folder) is None:
        Status(pipeline=name, state="starting", pid=os.getpid(), file=str(file)).save(paths.folder)
    pauses, restarts = Pauses(), Restarts()
    restarts.save(paths.folder)
    while True:
        began = time.monotonic()
        # Told to stop while a driver starts: 1. the signal comes before `child` is known: the line below ends the
        # driver. 2. It comes later: `stop_driver` does. A driver that has not set its handlers yet just dies.
        child = subprocess.Popen(command)
        if stopping:
            child.terminate()
        code = child.wait()
        if stopping or not (code < 0 or code == BrokerUnavailable.exit_code):
            _settle(paths, child.pid, code, stopping=stopping)
            return max(code, 0)
        pause_s = pauses.after(time.monotonic() - began)
        ended = f"signal {-code}" if code < 0 else f"exit code {code}"
        paths.roll_logs_over()
        restarts = Restarts(count=restarts.count + 1, reason=f"the driver ended with {ended}")
        restarts.save(paths.folder)
        sys.stderr.write(f"pipeline '{name}': the driver ended with {ended}; starting it again in {pause_s:.0f} s\n")
        deadline = time.monotonic() + pause_s
        while time.monotonic() < deadline and not stopping:
            time.sleep(_LOOK_EVERY_S)
        if stopping:
            _settle(paths, child.pid, code, stopping=True)
            return 0


def _settle(paths: PipelinePaths, driver: int, code: int, *, stopping: bool) -> None:
    """Record the last driver's end if it did not: it was stopped before it could, or could not read its file."""
    status = states.saved(paths.folder)
    if status is None or states.driver_of(paths.folder) is not None:
        return
    if stopping and (not status.has_ended or status.exit_code == BrokerUnavailable.exit_code):
        status.end("stopped")
    elif not stopping and not (status.pid == driver and status.has_ended):
        status.state, status.exit_code = "failed", code
        status.reason = f"the driver did not start. Read: penstock pipeline logs {status.pipeline}"
    status.save(paths.folder)


def is_running(name: str, settings: Settings) -> bool:
    """Return whether a pipeline has a supervisor or a driver."""
    return holder(_lock(settings, name)) is not None or states.driver_of(paths_of(settings, name).folder) is not None


def stop(name: str, settings: Settings, timeout_s: float) -> bool:
    """Let the driver finish its batch; after `timeout_s` end it by force. Return whether force was needed."""
    folder = known_paths(settings, name).folder
    supervisor, driver = holder(_lock(settings, name)), states.driver_of(folder)
    processes = [each for each in (supervisor, driver) if each is not None]
    if not processes:
        found = states.load(folder)
        if found is None:
            raise NotFound(f"no pipeline '{name}' has run here", fix="List them with: penstock pipeline list")
        ended = f"it {'is' if found.state == 'stopped' else 'has'} {found.state}"
        raise Conflict(
            f"pipeline '{name}' is not running: {ended}" + (f": {found.reason}" if found.reason else ""),
            fix=f"Start it with: penstock pipeline start {found.file}",
        )
    with suppress(psutil.NoSuchProcess):
        processes[0].terminate()  # a supervisor ends its driver
    _, alive = psutil.wait_procs(processes, timeout=timeout_s)
    for process in alive:
        _kill(process)
    left = states.saved(folder)
    if alive and left is not None and not left.has_ended:
        left.end("stopped")
        left.reason = "ended by force"
        left.save(folder)
    return bool(alive)


def _kill(process: psutil.Process) -> None:
    """End a process and what it has started; itself first, so that it starts nothing more."""
    with suppress(psutil.NoSuchProcess):
        children = process.children(recursive=True)
        process.kill()
        for child in children:
            with suppress(psutil.NoSuchProcess):
                child.kill()
        psutil.wait_procs([process, *children], timeout=_KILLED_S)
