"""Servers under test end with the process that runs the tests, whatever ends it: an interrupted run leaves none behind.

Nodes, services and drivers outlive whoever starts them, and so they would a pytest that was killed. A process of its
own waits for that, and then ends all whose command line or working folder is in a folder of the run.
"""

import os
import subprocess
import sys
import time
from pathlib import Path

import psutil

_LOOK_EVERY_S = 0.2
_QUIET_LOOKS = 5
"""So often nothing is found before it is believed: a supervisor may have started something just now."""


class Watcher:
    """Ends what works in these folders if this process ends before it has dismissed the watcher."""

    def __init__(self, *folders: Path) -> None:
        theirs, self._ours = os.pipe()
        try:
            # A session of its own: Ctrl-C in the terminal is not for it.
            self._process = subprocess.Popen(
                [sys.executable, __file__, *map(str, folders)], stdin=theirs, start_new_session=True
            )
        finally:
            os.close(theirs)

    def dismiss(self) -> None:
        """Let everything be: this process has ended its servers itself."""
        os.write(self._ours, b".")
        os.close(self._ours)
        self._process.wait()


def _works_in(folders: list[str], process: psutil.Process) -> bool:
    try:
        told = [*process.cmdline(), f"{process.cwd()}/"]
    except (psutil.Error, OSError):
        return False  # it has ended, or belongs to somebody else
    return any(folder in each for folder in folders for each in told)


def _end_all_in(folders: list[str]) -> None:
    quiet = 0
    while quiet < _QUIET_LOOKS:
        found = [each for each in psutil.process_iter() if each.pid != os.getpid() and _works_in(folders, each)]
        for each in found:
            try:
                each.kill()
            except psutil.Error:
                continue
        quiet = 0 if found else quiet + 1
        time.sleep(_LOOK_EVERY_S)


if __name__ == "__main__":
    if not os.read(0, 1):
        _end_all_in([f"{each}/" for each in sys.argv[1:]])
