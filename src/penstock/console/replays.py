"""Replays of dead letters, each in a process of its own: the same command that a person would type, and its words.

A replay goes on when the console ends; one that does not run goes on with `penstock dead replay --resume`.
"""

import subprocess
from pathlib import Path

from penstock.config.settings import Settings
from penstock.driver.log_files import last_lines
from penstock.interpreter import SAFE_PYTHON
from penstock.private import make_missing_private

_LINES = 20


class Replays:
    """The replays that this console has begun."""

    def __init__(self, settings: Settings, root: list[str]) -> None:
        self._settings = settings
        self._root = root
        self._processes: dict[str, subprocess.Popen[bytes]] = {}

    def start(self, replay_id: str) -> None:
        """Run a replay that was begun."""
        log = self._log(replay_id)
        make_missing_private(log.parent)
        home = ["--home", str(self._settings.home)]
        command = [*SAFE_PYTHON, "-m", "penstock", *self._root, *home, "dead", "replay", "--resume", replay_id]
        with log.open("ab") as said:
            self._processes[replay_id] = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=said, stderr=said, start_new_session=True
            )

    def is_running(self, replay_id: str) -> bool:
        """Return whether the process of a replay lives."""
        process = self._processes.get(replay_id)
        return process is not None and process.poll() is None

    def said(self, replay_id: str) -> list[str]:
        """Return the last lines of a replay that was begun here."""
        log = self._log(replay_id)
        return last_lines(log, _LINES) if log.exists() else []

    def _log(self, replay_id: str) -> Path:
        return self._settings.home / "console" / "replays" / f"{replay_id}.log"
