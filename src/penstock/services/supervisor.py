"""The process that supervises one service: a program that dies is restarted, after a growing pause.

It knows nothing of what it runs: `launch.json` in the service's folder names the programs. SIGTERM ends them, the last
one first, and then it. If it is killed itself, the programs go on; `penstock up` and `penstock down` find them.
"""

import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from penstock.delivery.holding import held
from penstock.pauses import Pauses
from penstock.private import OWNER_ONLY, make_missing_private
from penstock.services import launch
from penstock.services.launch import Program
from penstock.services.status import ServiceStatus, lock_of

STOP_TIMEOUT_S = 20.0
_LOOK_EVERY_S = 0.1
_LOG_MAX_BYTES = 10_000_000


def console_log(folder: Path) -> Path:
    """Return the file that takes what programs say on their own, and what the supervisor says."""
    return folder / "logs" / "console.log"


@dataclass
class _Running:
    """One program: its process if it has one, or when it is started again."""

    program: Program
    process: subprocess.Popen[bytes] | None = None
    began: float = 0.0
    again_at: float = 0.0
    pauses: Pauses = field(default_factory=Pauses)


class Supervisor:
    """Runs the programs of one service until it is stopped."""

    def __init__(self, folder: Path, programs: tuple[Program, ...]) -> None:
        self._folder = folder
        self._running = [_Running(each) for each in programs]
        self._status = ServiceStatus()
        self._stopping = False

    def run(self) -> None:
        """Run until SIGTERM."""
        for each in (signal.SIGTERM, signal.SIGINT):
            signal.signal(each, self._stop)
        while not self._stopping:
            changed = [self._look_at(each) for each in self._running]
            if any(changed):
                self._save_status()
            time.sleep(_LOOK_EVERY_S)
        self._end()

    def _stop(self, _signal: int, _frame: Any) -> None:
        self._stopping = True

    def _look_at(self, each: _Running) -> bool:
        """Start a program whose time has come, note one that has ended; return whether anything changed."""
        now = time.monotonic()
        if each.process is None:
            if now < each.again_at:
                return False
            each.process, each.began = self._start(each.program), now
            return True
        code = each.process.poll()
        if code is None:
            return False
        each.process = None
        pause_s = each.pauses.after(now - each.began)
        each.again_at = now + pause_s
        ended = f"signal {-code}" if code < 0 else f"exit code {code}"
        self._status.restarts += 1
        self._status.reason = f"{each.program.name} ended with {ended}; started again after {pause_s:.0f} s"
        self._say(self._status.reason)
        return True

    def _start(self, program: Program) -> subprocess.Popen[bytes]:
        log = console_log(self._folder)
        if log.exists() and log.stat().st_size > _LOG_MAX_BYTES:
            log.replace(log.with_suffix(".log.1"))
        with log.open("ab") as said:
            log.chmod(OWNER_ONLY)
            return subprocess.Popen(
                program.command,
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=said,
                env=launch.environment([program]),
                cwd=self._folder,
                umask=0o077,
            )

    def _save_status(self) -> None:
        self._status.pids = {each.program.name: each.process.pid for each in self._running if each.process}
        self._status.state = "running" if len(self._status.pids) == len(self._running) else "restarting"
        self._status.save(self._folder)

    def _say(self, line: str) -> None:
        with console_log(self._folder).open("a", encoding="utf-8") as log:
            log.write(f"[{time.strftime('%Y-%m-%d %H:%M:%S')}] {line}\n")

    def _end(self) -> None:
        for each in reversed(self._running):
            if each.process is None:
                continue
            each.process.terminate()
            try:
                each.process.wait(STOP_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                each.process.kill()
                each.process.wait()
        self._status.state, self._status.pids, self._status.reason = "stopped", {}, ""
        self._status.save(self._folder)


def main() -> int:
    """Supervise the service whose folder is the one argument."""
    folder = Path(sys.argv[1])
    make_missing_private(console_log(folder).parent)
    found = launch.load(folder)
    if found is None:
        sys.stderr.write(f"there is nothing to start in {folder}\n")
        return 1
    try:
        with held(lock_of(folder)):
            Supervisor(folder, found.programs).run()
    except BlockingIOError:
        return 0  # another one was faster
    return 0


if __name__ == "__main__":
    sys.exit(main())
