"""A worker as users have it: `penstock pipeline run` in a process and a session of its own, which can be killed."""

import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil

from penstock.errors import BatchAborted
from penstock.interpreter import SAFE_PYTHON

_LOOK_EVERY_S = 0.05
_LONGEST_S = 300.0
_STOP_S = 120.0
_LAST_WORDS = 500


class DriverProcess:
    """One driver, and the Spark that it started."""

    def __init__(self, folder: Path, file: Path, *options: str) -> None:
        self.log = folder / f"driver-{file.stem}.log"
        command = [*SAFE_PYTHON, "-m", "penstock", "--home", str(folder), "pipeline", "run", str(file), *options]
        # The user's own settings name another cluster, perhaps: in `folder` is a project file that names this one.
        kept = {name: value for name, value in os.environ.items() if not name.startswith("PENSTOCK_")}
        if cache := os.environ.get("PENSTOCK_CACHE"):
            kept["PENSTOCK_CACHE"] = cache
        # Its Spark lives for seconds: code that never gets hot need not be compiled well.
        kept.setdefault("JAVA_TOOL_OPTIONS", "-XX:TieredStopAtLevel=1")
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=folder, start_new_session=True, env=kept
            )

    def reach(self, condition: Callable[[], bool], what: str) -> None:
        """Wait until something is so; a driver that ends before is `BatchAborted`, with what it said last."""
        deadline = time.monotonic() + _LONGEST_S
        while not condition():
            if self._process.poll() is not None:
                raise BatchAborted(
                    f"the worker ended with {self._process.returncode} before {what}: {self._last_words()}"
                )
            if time.monotonic() > deadline:
                raise BatchAborted(f"not {what} within {_LONGEST_S:.0f} s: {self._last_words()}")
            time.sleep(_LOOK_EVERY_S)

    def finish(self) -> None:
        """Wait for the end of a driver that ends by itself."""
        self._wait_for_end(_LONGEST_S)

    def stop(self) -> None:
        """Let it finish its batch."""
        self._process.terminate()
        self._wait_for_end(_STOP_S)

    def kill(self) -> None:
        """End the driver, and the Spark and workers that it started, with `kill -9`, as a container is ended."""
        self._process.kill()  # nothing happens to one that is over
        for pid in session_of(self._process.pid):
            with suppress(ProcessLookupError):  # it ended just now by itself
                os.kill(pid, signal.SIGKILL)
        self._process.wait()

    def _wait_for_end(self, timeout_s: float) -> None:
        try:
            code = self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            raise BatchAborted(f"the worker did not end within {timeout_s:.0f} s: {self._last_words()}") from None
        if code != 0:
            raise BatchAborted(f"the worker ended with {code}: {self._last_words()}")

    def _last_words(self) -> str:
        return self.log.read_text(encoding="utf-8", errors="replace").strip()[-_LAST_WORDS:] or "it said nothing"


@contextmanager
def driver(folder: Path, file: Path, *options: str) -> Iterator[DriverProcess]:
    """Run a driver; whatever happens in the block, nothing of it is left."""
    started = DriverProcess(folder, file, *options)
    try:
        yield started
    finally:
        started.kill()


def session_of(leader: int) -> list[int]:
    """Return the processes of a session that are not over; one by one, for they come and go."""
    found = []
    for process in psutil.process_iter():
        try:
            if os.getsid(process.pid) == leader and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process.pid)
        except (psutil.Error, ProcessLookupError):
            continue
    return found
