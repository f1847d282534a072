"""Old snapshots of an Iceberg table, and the files that no snapshot names any more.

Guarantee: what a snapshot names that stays is never deleted, and nothing outside the table's folder. A snapshot is
as old as the moment in which another took its place, so that one which somebody has just begun to read stays. Of a
table with `gc.enabled: false`, whose files others may use, nothing goes at all.
"""

import os
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager
from itertools import pairwise
from pathlib import Path
from typing import Any

from penstock.errors import Conflict
from penstock.sinks.iceberg_files import local_path
from penstock.sinks.iceberg_offers import DATA, METADATA, named_files
from penstock.sinks.iceberg_positions import PositionsUnknown, in_property, positions_in

_MAY_GO = "gc.enabled"
_ENDINGS = (".parquet", ".avro", ".orc", ".puffin", ".stats", ".metadata.json")
"""What Iceberg's writers call their files; whatever else lies there is somebody's own."""


def keeps_all(metadata: Any) -> bool:
    """Return whether the table says that neither snapshots nor files of it may go."""
    return bool(metadata.properties.get(_MAY_GO, "true").lower() == "false")


def outdated(metadata: Any, keep_ms: int, most: int | None = None) -> list[int]:
    """Return the snapshots that no tag or branch names, and that were replaced longer ago than is kept, or too many."""
    if keeps_all(metadata):
        return []
    replaced_ms = {before.snapshot_id: after.timestamp_ms for before, after in pairwise(metadata.snapshot_log)}
    named = {each.snapshot_id for each in metadata.refs.values()}
    newest_first = sorted(metadata.snapshots, key=lambda each: each.timestamp_ms, reverse=True)
    oldest_ms = time.time() * 1000 - keep_ms
    return [
        each.snapshot_id
        for number, each in enumerate(newest_first)
        if each.snapshot_id not in named
        and (
            (most is not None and number >= most)
            or max(each.timestamp_ms, replaced_ms.get(each.snapshot_id, 0)) < oldest_ms
        )
    ]


def vacuum(
    table: Any, path: Path, keep_ms: int, committed: AbstractContextManager[None], *, dry_run: bool = False
) -> list[str]:
    """Expire old snapshots, and delete files that no other names and that are as old; return them.

    Files of a commit under way are younger than what is kept, which is an hour at least.
    """
    if keeps_all(table.metadata):
        raise Conflict(
            f"the Iceberg table in {path} says `{_MAY_GO}: false`: other tables may use its files",
            safe="Nothing was deleted",
            fix="If none does, set the property to true with an engine that writes Iceberg",
        )
    old = set(outdated(table.metadata, keep_ms))
    if old and not dry_run:
        with committed:
            table = _expired(table, sorted(old))
    named = set(_named(table, [each for each in table.metadata.snapshots if each.snapshot_id not in old]))
    there = {Path(os.path.realpath(each)): each for each in _files(path)}
    _require_all_there(path, named - set(there))
    oldest_s = time.time() - keep_ms / 1000
    found = [file for real, file in there.items() if real not in named and _is_older(file, oldest_s)]
    if not dry_run:
        for file in found:
            file.unlink(missing_ok=True)
    return sorted(str(file.relative_to(path)) for file in found)


def _is_older(file: Path, than_s: float) -> bool:
    try:
        return file.lstat().st_mtime < than_s
    except FileNotFoundError:  # another writer has deleted it meanwhile, as one does with the metadata of before
        return False


def _expired(table: Any, old: list[int]) -> Any:
    """Expire snapshots in one commit; the positions are put on record once more, for the newest snapshot."""
    from pyiceberg.table.update.snapshot import ExpireSnapshots

    transaction = table.transaction()
    try:
        there = positions_in(table) or None
    except PositionsUnknown:
        there = None
    if there is not None:
        transaction.set_properties(in_property(there, table.metadata.current_snapshot_id))
    with ExpireSnapshots(transaction) as expire:
        expire.by_ids(old)
    return transaction.commit_transaction()


def _named(table: Any, snapshots: list[Any]) -> Iterator[Path]:
    metadata = table.metadata
    kept = {each.snapshot_id for each in snapshots}
    statistics = [each for each in [*metadata.statistics, *metadata.partition_statistics] if each.snapshot_id in kept]
    locations = [
        table.metadata_location,
        *(each.metadata_file for each in metadata.metadata_log),
        *(each.statistics_path for each in statistics),
    ]
    for each in [*(Path(local_path(location)) for location in locations), *named_files(table, snapshots)]:
        yield Path(os.path.realpath(each))


def _files(path: Path) -> Iterator[Path]:
    for part in (DATA, METADATA):
        for folder, _, names in os.walk(path / part):
            yield from (Path(folder) / name for name in names if name.endswith(_ENDINGS))


def _require_all_there(path: Path, missing: set[Path]) -> None:
    """Raise if the table's files are not where they are looked for: none could then be told from one that is old."""
    lost = sorted(str(each) for each in missing if not each.name.endswith(_ENDINGS[-1]))
    if lost:
        raise Conflict(
            f"the Iceberg table in {path} names {lost[0]}, which is not in its folder",
            safe="Nothing was deleted",
            fix="See with the engine that writes to it whether the table can still be read",
        )
