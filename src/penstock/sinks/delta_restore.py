"""Positions in a Delta table that somebody has put back to an older version (RESTORE), or recreated in its place.

RESTORE brings back the rows of that version and leaves the transaction actions of later ones in the log, so the newest
snapshot has positions of rows that are gone. Rows and positions of the version that was brought back belong together:
its positions count, until a commit with positions comes on top. That one has to settle all that are stale, those of
partitions, too, that its writer knows nothing of.

A table that is recreated (CREATE OR REPLACE) has another id, and none of the rows; its log goes on, positions included.
Of these none counts.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from penstock.errors import Conflict, PositionLost
from penstock.sinks.delta_commits import actions_in, commit_file

NONE = -1
"""Version of a transaction action that takes a position back: there was none in the version that was restored.

As a version of the table it is the one before the first: a table that was recreated has no positions of before.
"""
_COMMITS_AT_ONCE = 100
"""How many commits are gone through from one file list on, which costs as much as a few hundred of them."""


@dataclass(frozen=True)
class _Commit:
    operation: str
    apps: dict[str, int]
    """Our transaction actions: positions, by the names that they have."""
    is_there: dict[str, bool]
    """The files that it names, and whether they are part of the table after it."""
    table_id: str | None
    """The table's id, if it says anything of the table itself."""


class _Nothing:
    """A table before its first version, as far as positions go."""

    def transaction_version(self, _app: str) -> None:
        """Return that there is none."""


class Restores:
    """Looks for RESTORE and for a table recreated in the log, from the newest commit back to the last of ours."""

    def __init__(self, path: Path, pipeline: str, sink: str) -> None:
        self._path = path
        self._pipeline = pipeline
        self._ours = f"penstock/{pipeline}/{sink}/"
        self._looked_at = -1
        self._restored: Any = None
        """The table as of the version whose positions count; None if that is the newest."""
        self._later: frozenset[str] = frozenset()
        """The transaction actions of ours that came after that version."""
        self._found: dict[str, int | None] = {}
        """What was found in the version that was looked at last: asking for it means reading the log again."""

    def app(self, topic_id: str, partition: int) -> str:
        """Return the name that the position of a partition has in the log."""
        return f"{self._ours}{topic_id}/{partition}"

    def is_restored(self, table: Any) -> bool:
        """Return whether the newest snapshot, which `table` is at, has rows and columns of an older version."""
        self._look(table)
        return self._restored is not None

    def positions(self, table: Any, apps: frozenset[str]) -> dict[str, int]:
        """Return the positions that are true of the rows in the newest snapshot, which `table` is at."""
        self._look(table)
        at = table if self._restored is None else self._restored
        self._found |= {app: at.transaction_version(app) for app in apps - self._found.keys()}
        found = {app: self._found[app] for app in apps}
        return {app: version for app, version in found.items() if version is not None and version != NONE}

    def stale(self, table: Any) -> dict[str, int]:
        """Return what transaction actions must say, where they are those of rows that are gone; of all partitions."""
        true = self.positions(table, self._later)
        # The log of a table that was recreated may not reach back to all that there were.
        asked = self._found if isinstance(self._restored, _Nothing) else {}
        return {app: true.get(app, NONE) for app in {*self._later, *asked}}

    def _look(self, table: Any) -> None:
        from deltalake import DeltaTable

        newest = table.version()
        if newest != self._looked_at:
            self._found = self._carried_on(newest) if self._found else {}
        version = self._true_version(newest, self._looked_at)
        if version == newest:
            self._restored, self._later = None, frozenset()
        elif version is not None:
            self._restored = _Nothing() if version == NONE else DeltaTable(str(self._path), version=version)
            commits = map(self._commit, range(version + 1, newest + 1))
            self._later = frozenset(app for commit in commits if commit for app in commit.apps)
        self._looked_at = newest

    def _carried_on(self, newest: int) -> dict[str, int | None]:
        """Return what was found before, with what the commits since say; nothing if they do not say it all."""
        found = dict(self._found)
        if newest - self._looked_at > _COMMITS_AT_ONCE:
            return {}
        for version in range(self._looked_at + 1, newest + 1):
            commit = self._commit(version)
            if commit is None or commit.operation == "RESTORE" or commit.table_id is not None:
                return {}
            found |= commit.apps
        return found

    def _true_version(self, newest: int, until: int) -> int | None:
        """Find the version whose positions count; None if nothing has changed since `until`."""
        for version in range(newest, until, -1):
            commit = self._commit(version)
            if commit is None or commit.apps:
                return newest
            if commit.operation == "RESTORE":
                return self._true_version(self._restored_by(version), -1)
            if commit.table_id is not None and self._is_recreated(version, commit.table_id):
                return NONE
        return newest if until < 0 else None

    def _is_recreated(self, version: int, table_id: str) -> bool:
        """Return whether the table was another one before this commit."""
        from deltalake import DeltaTable
        from deltalake.exceptions import DeltaError

        try:
            before = DeltaTable(str(self._path), version=version - 1).metadata().id if version else table_id
        except DeltaError:  # the log does not reach back so far
            return False
        return bool(before != table_id)

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
            actions = actions_in(commit_file(self._path, version).read_bytes())
        except FileNotFoundError:
            return None
        except ValueError:
            raise Conflict(
                f"the commit {version} in the log of the table {self._path} is damaged",
                safe="Nothing was written",
                fix="Put its file in _delta_log back, or write to another path",
            ) from None
        operation = next((each["commitInfo"].get("operation") for each in actions if "commitInfo" in each), None)
        moves = [each["txn"] for each in actions if "txn" in each]
        return _Commit(
            operation or "",
            {each["appId"]: each["version"] for each in moves if each["appId"].startswith(self._ours)},
            {each["remove"]["path"]: False for each in actions if "remove" in each}
            | {each["add"]["path"]: True for each in actions if "add" in each},
            next((each["metaData"]["id"] for each in actions if "metaData" in each), None),
        )
