"""The log of a Delta table under a running pipeline: reading what is new, and noticing that the table was replaced.

The library goes on from what it remembers. In a log that somebody has put back meanwhile, the next commit would be one
behind a gap, or on top of commits that nobody has compared; so the newest commit that was read has to be there still,
byte by byte. It also cannot commit behind one that is gone, though a checkpoint tells what was in it. And a commit of
others that has doubled rows ends the pipeline (`delta_rewrites`).
"""

import hashlib
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import orjson

from penstock.errors import Conflict, PositionLost
from penstock.sinks.delta_commits import commit_file
from penstock.sinks.delta_rewrites import Rewrites

_LOG = "_delta_log"
_LAYERS = re.compile(r"^((Kernel|Generic delta kernel) error: )+")
_DUMP = re.compile(r"\s*\b\w+ \{ .*")
UNSURE = "Whether this batch was committed is checked before the next one"


def load_table(path: Path) -> Any:
    """Read a table that is there."""
    from deltalake import DeltaTable

    with readable(path):
        return DeltaTable(str(path))


@contextmanager
def readable(path: Path, safe: str = "Nothing was written") -> Iterator[None]:
    """Turn the library's errors about a table that it cannot read into ours, except a conflict with another writer."""
    from deltalake.exceptions import CommitFailedError, DeltaError

    try:
        yield
    except CommitFailedError:
        raise
    except DeltaError as error:
        raise Conflict(
            f"the table {path} cannot be read: {_said(error)}",
            safe=safe,
            fix="Put back what is missing from it or its _delta_log, or write to another path",
        ) from None


def _said(error: Exception) -> str:
    """Return what the library says, without its layers and what its objects look like."""
    said = _LAYERS.sub("", str(error).splitlines()[0])
    return _DUMP.sub("", said).rstrip(" .:")


def require_newest_commit(table: Any, path: Path, pipeline: str) -> None:
    """Raise `Conflict` if the newest commit is known from a checkpoint alone."""
    commit = commit_file(path, table.version())
    if not commit.exists():
        raise Conflict(
            f"the newest commit of the table {path} is gone from its log, {_LOG}/{commit.name}: nothing can be"
            " committed behind it",
            safe="Its rows can still be read, and nothing was written",
            fix="Put that file back, or give the sink another `path`; to fill that from the source's start, run:"
            f" penstock pipeline rebuild {pipeline}",
        )


class DeltaLog:
    """The log that one sink reads and commits to."""

    def __init__(self, path: Path, sink: str, pipeline: str) -> None:
        self._path = path
        self._sink = sink
        self._pipeline = pipeline
        self._folder = os.open(path / _LOG, os.O_RDONLY)
        """Held open: no other folder can be mistaken for it."""
        self._checkpoint_seen: tuple[int, int, int] | None = None
        self._read: tuple[int, tuple[int, int, int], bytes] | None = None
        """The version that was read last, its file, and the digest of what is in it."""
        self._rewrites = Rewrites(path)

    def update(self, table: Any) -> None:
        """Take the newest snapshot; mostly that is at hand, and the library would read much of the log to see it.

        A commit is the file with the next number. That may be gone again only behind a newer checkpoint.
        """
        self._require_same()
        checkpoint = _identity(self._path / _LOG / "_last_checkpoint")
        if self._checkpoint_seen != checkpoint or commit_file(self._path, table.version() + 1).exists():
            with readable(self._path):
                table.update_incremental()
            self._checkpoint_seen = checkpoint
        require_newest_commit(table, self._path, self._pipeline)
        self._rewrites.require_single(table.version())
        self._note(table)

    def compare(self, table: Any) -> None:
        """Raise if the log that this table was just read from is not the one that was read before."""
        self._require_same()
        self._rewrites.require_single(table.version())
        if commit_file(self._path, table.version()).exists():
            self._note(table)

    def _require_same(self) -> None:
        self._require_same_folder()
        self._require_same_commit()

    def _note(self, table: Any) -> None:
        if self._read is None or self._read[0] != table.version():
            commit = commit_file(self._path, table.version())
            self._read = (table.version(), _identity(commit) or (0, 0, 0), _digest(commit))

    def _require_same_folder(self) -> None:
        """Raise if the table was dropped: the library would go on from what it remembers of it."""
        try:
            same = os.path.samestat(os.fstat(self._folder), (self._path / _LOG).stat())
        except (FileNotFoundError, NotADirectoryError):
            same = False
        if not same:
            raise PositionLost(
                f"the table {self._path} of sink '{self._sink}' was dropped or replaced while the pipeline ran",
                safe="Nothing was written",
                fix=f"To fill it again from the source's start, run: penstock pipeline rebuild {self._pipeline}",
            )

    def _require_same_commit(self) -> None:
        if self._read is None:
            return
        version, identity, digest = self._read
        commit = commit_file(self._path, version)
        found = _identity(commit)
        if found == identity or (found is not None and _digest(commit) == digest):
            return
        if found is None and self._checkpointed_version() >= version:
            return  # cleaned up, which the checkpoint tells
        raise Conflict(
            f"the log of the table {self._path} was put back to an older one, or replaced, while the pipeline ran",
            safe="Nothing was written to it since",
            fix="Start the pipeline again: it takes the positions that the table has now, and writes again what it"
            " lacks",
        )

    def _checkpointed_version(self) -> int:
        try:
            return int(orjson.loads((self._path / _LOG / "_last_checkpoint").read_bytes())["version"])
        except (OSError, ValueError, KeyError, TypeError):
            return -1

    def close(self) -> None:
        """Let go of the folder."""
        os.close(self._folder)


def _identity(file: Path) -> tuple[int, int, int] | None:
    try:
        found = file.stat()
    except FileNotFoundError:
        return None
    return found.st_ino, found.st_mtime_ns, found.st_size


def _digest(file: Path) -> bytes:
    return hashlib.blake2b(file.read_bytes()).digest()
