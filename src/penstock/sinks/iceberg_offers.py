"""Data files on their way into an Iceberg table: put into its folder before the commit that names them.

Which these are is on record first. After a commit that failed for sure they go at once. After one whose outcome is not
known, for the driver was killed or the catalog did not answer, they go when a later commit is in: until then the former
one may still get through, and the table would name files that are gone. One that got through is known by the snapshots
that the table has, and by the files that those name.
"""

import os
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from penstock.delivery.durable import make_folder, read_versioned, sync, write_versioned
from penstock.record.formats import ICEBERG_TABLE
from penstock.sinks.iceberg_files import local_path

_RECORD = "offered.json"
DATA, METADATA = "data", "metadata"


class Offers:
    """Files that one driver offers, from its own staging folder; those that killed ones have offered, too."""

    def __init__(self, table: Path, staging: Path) -> None:
        self._table = table
        self._staging = staging
        self._open: list[dict[str, Any]] = []

    @property
    def has_doubtful(self) -> bool:
        """Return whether there are any of which nobody knows whether they got in."""
        return bool(self._open)

    def inherit(self, staging: Path) -> None:
        """Take over what a driver that is gone has on record in its staging folder, before that is removed."""
        with suppress(FileNotFoundError, KeyError, ValueError):
            self._open += read_versioned(staging / _RECORD, ICEBERG_TABLE)["offers"]

    def keep(self) -> None:
        """Put on record here what was taken over."""
        if self._open:
            self._write()

    def offer(self, files: Iterable[str], snapshot_id: int, commit: str) -> None:
        """Put files where the table can name them, for this snapshot, whose manifests are named after the commit."""
        self._open.append({"files": list(files), "snapshot": snapshot_id, "commit": commit})
        self._write()
        make_folder(self._table / DATA)
        for file in self._open[-1]["files"]:
            # A vacuum goes by the age of files, and a batch may have been running for hours.
            os.utime(self._staging / file)
            os.link(self._staging / file, self._table / DATA / file)
        sync(self._table / DATA)

    def withdraw(self) -> None:
        """Take the last ones back: their commit has failed for sure."""
        self._remove(self._open.pop(), frozenset())
        self._write()

    def settle(self, table: Any) -> None:
        """After a commit: remove what earlier ones have left behind that did not get in."""
        snapshots = {each.snapshot_id for each in table.metadata.snapshots}
        doubtful = [each for each in self._open if each["snapshot"] not in snapshots]
        named = frozenset(named_files(table, table.metadata.snapshots)) if doubtful else frozenset()
        for each in doubtful:
            self._remove(each, named)
        self._open = []
        (self._staging / _RECORD).unlink(missing_ok=True)

    def _remove(self, offer: dict[str, Any], named: frozenset[Path]) -> None:
        files = [self._table / DATA / file for file in offer["files"]]
        files += (self._table / METADATA).glob(f"*{offer['commit']}*.avro")
        for file in files:
            if file not in named:
                file.unlink(missing_ok=True)

    def _write(self) -> None:
        write_versioned(self._staging / _RECORD, ICEBERG_TABLE, {"offers": self._open})


def named_files(table: Any, snapshots: Iterable[Any]) -> Iterator[Path]:
    """Return every file that these snapshots of the table name."""
    seen = set()
    for snapshot in snapshots:
        yield Path(local_path(snapshot.manifest_list))
        for manifest in snapshot.manifests(table.io):
            if manifest.manifest_path not in seen:
                seen.add(manifest.manifest_path)
                yield Path(local_path(manifest.manifest_path))
                for entry in manifest.fetch_manifest_entry(table.io):
                    yield Path(local_path(entry.data_file.file_path))
