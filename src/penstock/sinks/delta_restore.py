"""Positions in a Delta table that somebody has put back to an older version (RESTORE).

RESTORE brings back the rows of that version and leaves the transaction actions of later ones in the log, so the newest
snapshot has positions of rows that are gone. Rows and positions of the version that was brought back belong together:
its positions count, until a commit with positions comes on top. That one has to settle all that are stale, those of
partitions, too, that its writer knows nothing of.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa

from penstock.errors import PositionLost

NONE = -1
"""Version of a transaction action that takes a position back: there was none in the version that was restored."""
_COMMITS_AT_ONCE = 100
"""How many commits are gone through from one file list on, which costs as much as a few hundred of them."""


@dataclass(frozen=True)
class _Commit:
    operation: str
    apps: frozenset[str]
    is_there: dict[str, bool]
    """The files that it names, and whether they are part of the table after it."""


class Restores:
    """Looks for RESTORE in the log, at each commit once, from the newest back to the last one with our positions."""

    def __init__(self, path: Path, pipeline: str, sink: str) -> None:
        self._path = path
        self._pipeline = pipeline
        self._ours = f"penstock/{pipeline}/{sink}/"
        self._looked_at = -1
        self._restored: Any = None
        """The table as of the version whose positions count; None if that is the newest."""
        self._later: frozenset[str] = frozenset()
        """The transaction actions of ours that came after that version."""

    def app(self, topic_id: str, partition: int) -> str:
        """Return the name that the position of a partition has in the log."""
        return f"{self._ours}{topic_id}/{partition}"

    def positions(self, table: Any, apps: frozenset[str]) -> dict[str, int]:
        """Return the positions that are true of the rows in the newest snapshot, which `table` is at."""
        self._look(table)
        at = table if self._restored is None else self._restored
        found = {app: at.transaction_version(app) for app in apps}
        return {app: version for app, version in found.items() if version is not None and version != NONE}

    def stale(self, table: Any) -> dict[str, int]:
        """Return what transaction actions must say, where they are those of rows that are gone; of all partitions."""
        true = self.positions(table, self._later)
        return {app: true.get(app, NONE) for app in self._later}

    def _look(self, table: Any) -> None:
        from deltalake import DeltaTable

        newest = table.version()
        version = self._true_version(newest, self._looked_at)
        if version == newest:
            self._restored, self._later = None, frozenset()
        elif version is not None:
            self._restored = DeltaTable(str(self._path), version=version)
            commits = map(self._commit, range(version + 1, newest + 1))
            self._later = frozenset(app for commit in commits if commit for app in commit.apps)
        self._looked_at = newest

    def _true_version(self, newest: int, until: int) -> int | None:
        """Find the version whose positions count; None if nothing has changed since `until`."""
        for version in range(newest, until, -1):
            commit = self._commit(version)
            if commit is None or commit.apps:
                return newest
            if commit.operation == "RESTORE":
                return self._true_version(self._restored_by(version), -1)
        return newest if until < 0 else None

    def _restored_by(self, version: int) -> int:
        """Find the version that this commit brought back: the last one with exactly the files that there were after it.

        What the commit says of itself differs from writer to writer, and may be a time of day. What commits say of
        files does not say how it was before them: a file may be added that is there already.
        """
        wanted = self._files(version)
        end = version
        while end > 0:
            start = max(0, end - _COMMITS_AT_ONCE)
            different = self._files(start) ^ wanted
            found = None if different else start
            for after in range(start + 1, end):
                for path, is_there in self._required_commit(after).is_there.items():
                    (different.discard if is_there == (path in wanted) else different.add)(path)
                found = found if different else after
            if found is not None:
                return found
            end = start
        raise self._unknown()

    def _files(self, version: int) -> set[str]:
        """Return the table's files at a version, by the names that they have in the log."""
        from deltalake import DeltaTable
        from deltalake.exceptions import DeltaError

        try:
            actions = DeltaTable(str(self._path), version=version).get_add_actions()
        except DeltaError:
            raise self._unknown() from None
        return set(pa.table(actions).column("path").to_pylist())

    def _required_commit(self, version: int) -> _Commit:
        commit = self._commit(version)
        if commit is None:
            raise self._unknown()
        return commit

    def _unknown(self) -> PositionLost:
        return PositionLost(
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
        apps = (each["txn"]["appId"] for each in actions if "txn" in each)
        return _Commit(
            operation or "",
            frozenset(app for app in apps if app.startswith(self._ours)),
            {each["remove"]["path"]: False for each in actions if "remove" in each}
            | {each["add"]["path"]: True for each in actions if "add" in each},
        )
