"""Joining the small files of a Delta table, under the lock that commits take: rows and positions stay as they are.

Guarantee: a compaction that is killed or loses against another writer leaves the table as it was. What it has written
by then is not part of the table, and the next vacuum deletes it.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa

from penstock.delivery.crash_points import crash_point
from penstock.errors import SinkUnavailable
from penstock.sinks.compaction import Compact
from penstock.sinks.delta_commits import actions_in, commit_file
from penstock.sinks.delta_log_copy import make_next_version, with_copied_log
from penstock.sinks.delta_stats import library_settings
from penstock.sinks.delta_table import table_lock

_MS_PER_HOUR = 3_600_000
_COMMITS_PER_CHECKPOINT = 100
_COMPACTED = "OPTIMIZE"


class DeltaCompaction:
    """Compacts the table of one sink every so many batches, between two of them."""

    def __init__(self, path: Path, sink: str, wanted: Compact | None) -> None:
        self._path = path
        self._sink = sink
        self._wanted = wanted
        self._batches = 0

    def open(self, version: int) -> None:
        """Count the commits since the last compaction, which may have been another driver's."""
        if self._wanted is not None:
            self._batches = sum(1 for _ in self._since_compaction(version, self._wanted.every))

    def _since_compaction(self, version: int, most: int) -> Iterator[int]:
        for number in range(version, max(0, version - most), -1):
            try:
                actions = actions_in(commit_file(self._path, number).read_bytes())
            except (FileNotFoundError, ValueError):  # behind a checkpoint nobody needs it
                return
            found = (each.get("commitInfo", {}).get("operation") for each in actions)
            if _COMPACTED in found:
                return
            yield number

    def count(self) -> None:
        """Take note of a batch that was committed."""
        self._batches += 1

    def run_if_due(self, table: Any) -> bool:
        """Compact the table if it has had enough batches since the last time; return whether it had.

        After a failure it waits for as many more: events come first.
        """
        if self._wanted is None or self._batches < self._wanted.every:
            return False
        self._batches = 0
        crash_point("compacting", self._sink)
        with table_lock(self._path):
            table.update_incremental()
            compact(table, self._path, self._wanted.target)
            crash_point("compacted", self._sink)
            vacuum(table, self._path, self._wanted.keep)
        return True


def compact(table: Any, path: Path, target: int | None) -> None:
    """Join files up to a size, in one commit; raise `SinkUnavailable` if another writer commits meanwhile.

    `table` is at the newest version then, and whoever calls holds its lock.
    """
    from deltalake import PostCommitHookProperties

    with _explained(path, "compacted"):
        with with_copied_log(path) as copy:
            version = copy.version()
            copy.optimize.compact(
                target_size=target,
                writer_properties=library_settings(pa.schema(copy.schema().to_arrow())),
                post_commithook_properties=PostCommitHookProperties(
                    create_checkpoint=False, cleanup_expired_logs=False
                ),
            )
            if copy.version() > version:
                make_next_version(path, copy, version)
        table.update_incremental()
        # The library makes a checkpoint with every hundredth commit of its own, and this was none.
        if (table.version() + 1) % _COMMITS_PER_CHECKPOINT == 0:
            table.create_checkpoint()


def vacuum(table: Any, path: Path, keep_ms: int, *, everything: bool = False, dry_run: bool = False) -> list[str]:
    """Delete files that no version of the time that is kept needs; return them.

    With `everything` those, too, that were never part of the table, and that nobody is about to make part of it.
    """
    with _explained(path, "vacuumed"):
        found: list[str] = table.vacuum(
            retention_hours=keep_ms // _MS_PER_HOUR,
            enforce_retention_duration=False,
            dry_run=dry_run,
            full=everything,
        )
    return found


@contextmanager
def _explained(path: Path, what: str) -> Iterator[None]:
    from deltalake.exceptions import DeltaError

    try:
        yield
    except (DeltaError, OSError, SinkUnavailable) as error:
        reason = error.what if isinstance(error, SinkUnavailable) else str(error).splitlines()[0]
        raise SinkUnavailable(
            f"the table {path} could not be {what}: {reason}",
            safe="Rows and positions are as they were",
            fix="Try again, when nobody else writes to it",
        ) from None
