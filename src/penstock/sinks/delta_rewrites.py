"""Compactions of a Delta table by others, on top of one that they have not seen: rows of files that were replaced.

delta-rs commits a compaction whatever was compacted since its files were read. It takes out files that are no longer
part of the table, and puts in one with their rows, which other files have by then: readers see these rows twice.
"""

from pathlib import Path
from urllib.parse import unquote

import pyarrow as pa

from penstock.errors import Conflict
from penstock.sinks.delta_commits import Actions, actions_in, commit_file

_MOST = 100
"""How many commits are gone through when a table is opened."""
_OURS = "penstock/"


class Rewrites:
    """Looks at the commits since the last position, and then at each that comes."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._looked_at: int | None = None

    def require_single(self, version: int) -> None:
        """Raise `Conflict` if a commit up to this version, the newest, has doubled rows."""
        start = self._first_look(version) if self._looked_at is None else self._looked_at
        for number in range(start + 1, version + 1):
            replaced = self._replaced(number)
            if replaced and not replaced <= self._files(number - 1, replaced):
                raise Conflict(
                    f"version {number} of the table {self._path} has rows twice: another program has compacted it from"
                    " an older version, and commits since had replaced those files",
                    safe="Nothing was written on top of it",
                    fix=f"Run: penstock table restore {self._path} --to {number - 1}; then start the pipeline again,"
                    " and let it compact the table alone",
                )
        self._looked_at = version

    def _first_look(self, newest: int) -> int:
        """Return the version of the last commit that has compared the table, or has brought a version back."""
        for version in range(newest, max(0, newest - _MOST), -1):
            for each in self._actions(version):
                is_position = str(each.get("txn", {}).get("appId", "")).startswith(_OURS)
                if is_position or each.get("commitInfo", {}).get("operation") == "RESTORE":
                    return version
        return max(0, newest - _MOST)

    def _replaced(self, version: int) -> set[str]:
        """Return the files that a commit replaces by others with the same rows."""
        actions = self._actions(version)
        if not any("add" in each for each in actions):
            return set()
        removed = [each["remove"] for each in actions if "remove" in each]
        return {unquote(each["path"]) for each in removed if not each.get("dataChange", True)}

    def _files(self, version: int, unless_known: set[str]) -> set[str]:
        """Return the files of a version; those that are asked for, if its log is gone."""
        from deltalake import DeltaTable
        from deltalake.exceptions import DeltaError

        try:
            actions = DeltaTable(str(self._path), version=version).get_add_actions()
        except DeltaError:
            return unless_known
        return {unquote(each) for each in pa.table(actions).column("path").to_pylist()}

    def _actions(self, version: int) -> Actions:
        """Return what a commit says, if it takes out files or has positions; nothing if it is gone or damaged."""
        try:
            text = commit_file(self._path, version).read_bytes()
            if b'"remove"' not in text and b'"txn"' not in text and b"RESTORE" not in text:
                return []
            return actions_in(text)
        except (FileNotFoundError, ValueError):
            return []
