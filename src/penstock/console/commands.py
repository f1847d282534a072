"""Long commands, each in a process of its own, with the same arguments that a person would type, and their output.

They go on when the console ends.
"""

import subprocess
from pathlib import Path

from penstock.config.settings import Settings
from penstock.driver.log_files import last_lines
from penstock.interpreter import SAFE_PYTHON
from penstock.private import make_missing_private

_LINES = 20


class Commands:
    """The commands that this console has started, by a name for each; a name is part of a file's name."""

    def __init__(self, settings: Settings, root: list[str]) -> None:
        self._settings = settings
        self._root = root
        self._processes: dict[str, subprocess.Popen[bytes]] = {}

    def start(self, name: str, words: list[str]) -> None:
        """Run a command in the background."""
        log = self._log(name)
        make_missing_private(log.parent)
        home = ["--home", str(self._settings.home)]
        with log.open("ab") as said:
            self._processes[name] = subprocess.Popen(
                [*SAFE_PYTHON, "-m", "penstock", *self._root, *home, *words],
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=said,
                start_new_session=True,
            )

    def is_running(self, name: str) -> bool:
        """Return whether the process of a command lives."""
        process = self._processes.get(name)
        return process is not None and process.poll() is None

    def exit_code(self, name: str) -> int | None:
        """Return what a command ended with; None if it runs, or was not started by this console."""
        process = self._processes.get(name)
        return None if process is None else process.poll()

    def said(self, name: str) -> list[str]:
        """Return the last lines of output of a command that was started here."""
        log = self._log(name)
        return last_lines(log, _LINES) if log.exists() else []

    def _log(self, name: str) -> Path:
        return self._settings.home / "console" / "commands" / f"{name}.log"
