"""Positions in a Delta table that somebody has put back to an older version (RESTORE).

RESTORE brings back the rows of that version and leaves the transaction actions of later ones in the log, so the newest
snapshot has positions of rows that are gone. Rows and positions of the version that was brought back belong together:
its positions count, until a commit with positions comes on top. That one has to settle all that are stale.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from penstock.errors import PositionLost

NONE = -1
"""Version of a transaction action that takes a position back: there was none in the version that was restored."""


@dataclass(frozen=True)
class _Commit:
    operation: str
    apps: frozenset[str]
    files: frozenset[str]
    """The files that came or went with it."""


class Restores:
    """Looks for RESTORE in the log, at each commit once, from the newest back to the last one with our positions."""

    def __init__(self, path: Path, pipeline: str) -> None:
        self._path = path
        self._pipeline = pipeline
        self._looked_at = -1
        self._restored: Any = None
        """The table as of the version whose positions count; None if that is the newest."""

    def positions(self, table: Any, apps: frozenset[str]) -> dict[str, int]:
        """Return the positions that are true of the rows in the newest snapshot, which `table` is at."""
        self._look(table, apps)
        at = table if self._restored is None else self._restored
        found = {app: at.transaction_version(app) for app in apps}
        return {app: version for app, version in found.items() if version is not None and version != NONE}

    def stale(self, table: Any, apps: frozenset[str]) -> dict[str, int]:
        """Return what transaction actions must say, where they are those of rows that are gone."""
        true = self.positions(table, apps)
        said = {app: table.transaction_version(app) for app in apps}
        return {
            app: true.get(app, NONE)
            for app, version in said.items()
            if version is not None and version != true.get(app, NONE)
        }

    def _look(self, table: Any, apps: frozenset[str]) -> None:
        from deltalake import DeltaTable

        newest = table.version()
        if any(table.transaction_version(app) is not None for app in apps):
            version = self._true_version(newest, self._looked_at, apps)
            if version == newest:
                self._restored = None
            elif version is not None:
                self._restored = DeltaTable(str(self._path), version=version)
        self._looked_at = newest

    def _true_version(self, newest: int, until: int, apps: frozenset[str]) -> int | None:
        """Find the version whose positions count; None if nothing has changed since `until`."""
        for version in range(newest, until, -1):
            commit = self._commit(version)
            if commit is None or commit.apps & apps:
                return newest
            if commit.operation == "RESTORE":
                return self._true_version(self._restored_by(version), -1, apps)
        return newest if until < 0 else None

    def _restored_by(self, version: int) -> int:
        """Find the version that this commit brought back: the last one with exactly the files that there were after it.

        What the commit says of itself differs from writer to writer, and may be a time of day.
        """
        different: frozenset[str] = frozenset()
        for before in range(version, 0, -1):
            commit = self._commit(before)
            if commit is None:
                break
            different ^= commit.files
            if not different:
                return before - 1
        raise PositionLost(
            f"the table {self._path} was restored to an older version, of which its log has nothing any more: what it"
            " holds is not known",
            safe="Nothing was written",
            fix="Give the sink another `path`; to fill that from the source's start, run: penstock pipeline rebuild"
            f" {self._pipeline}",
        )

    def _commit(self, version: int) -> _Commit | None:
        """Read one commit of the log; None if it was cleaned up."""
        try:
            lines = (self._path / "_delta_log" / f"{version:020d}.json").read_bytes().splitlines()
        except FileNotFoundError:
            return None
        actions = [orjson.loads(line) for line in lines if line.strip()]
        operation = next((each["commitInfo"].get("operation") for each in actions if "commitInfo" in each), None)
        return _Commit(
            operation or "",
            frozenset(each["txn"]["appId"] for each in actions if "txn" in each),
            frozenset(each[kind]["path"] for each in actions for kind in ("add", "remove") if kind in each),
        )
