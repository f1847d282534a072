"""Which actions were done, by their ids, on disk: a restarted console still knows them."""

import sqlite3
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from penstock.private import make_missing_private, open_private

_MOST_KEPT = 1_000
_WAIT_S = 5.0
_TABLE = """
CREATE TABLE IF NOT EXISTS actions (
  number INTEGER PRIMARY KEY, who TEXT NOT NULL, action_id TEXT NOT NULL, asked TEXT NOT NULL,
  status INTEGER, body BLOB NOT NULL DEFAULT x'', UNIQUE (who, action_id)
)
"""


@dataclass(frozen=True)
class RecordedAction:
    """An action that was begun before."""

    asked: str
    status: int | None
    """None: how it ended is not on record, or its answer was too long for that."""
    body: bytes


class ActionLog:
    """The newest thousand actions of one home folder."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._is_made = False

    def begin(self, who: str, action_id: str, asked: str) -> RecordedAction | None:
        """Record an action before it is done; return the earlier record if it was begun before."""
        with closing(self._open()) as log:
            found = log.execute(
                "SELECT asked, status, body FROM actions WHERE who = ? AND action_id = ?", (who, action_id)
            ).fetchone()
            if found is not None:
                return RecordedAction(*found)
            log.execute("INSERT INTO actions (who, action_id, asked) VALUES (?, ?, ?)", (who, action_id, asked))
            log.execute("DELETE FROM actions WHERE number <= (SELECT max(number) FROM actions) - ?", (_MOST_KEPT,))
        return None

    def end(self, who: str, action_id: str, status: int, body: bytes) -> None:
        """Put on record what was answered."""
        self._do(
            "UPDATE actions SET status = ?, body = ? WHERE who = ? AND action_id = ?", (status, body, who, action_id)
        )

    def forget(self, who: str, action_id: str) -> None:
        """Forget an action that came to nothing."""
        self._do("DELETE FROM actions WHERE who = ? AND action_id = ?", (who, action_id))

    def _do(self, statement: str, values: tuple[object, ...]) -> None:
        with closing(self._open()) as log:
            log.execute(statement, values)

    def _open(self) -> sqlite3.Connection:
        if not self._is_made and not self._path.exists():
            make_missing_private(self._path.parent)
            open_private(self._path).close()
        log = sqlite3.connect(self._path, timeout=_WAIT_S, isolation_level=None)
        log.execute("PRAGMA synchronous = OFF")  # it has to outlive the console, not the machine
        if not self._is_made:
            log.execute(_TABLE)
            self._is_made = True
        return log
