"""Looking after Delta tables: opening, compacting, history."""

import datetime
from pathlib import Path
from typing import Any

from pydantic import BaseModel, Field

from penstock.errors import BadInput, NotFound
from penstock.quantities import parse_duration_ms
from penstock.sinks.delta import is_table, table_lock

_MS_PER_HOUR = 3_600_000


class Compaction(BaseModel, frozen=True):
    """What a compaction did."""

    files_before: int = Field(description="Files of the table before.")
    files_after: int = Field(description="Files of the table after.")
    deleted: int = Field(description="Files deleted that no version within the time kept needs.")


class Commit(BaseModel, frozen=True):
    """One commit of a table."""

    version: int = Field(description="Version that it made.")
    at: str = Field(description="When.")
    operation: str = Field(description="What it did.")


def open_table(path: Path, as_of: str = "") -> Any:
    """Open a table that is there, as it is now, or as of a version or a time."""
    from deltalake import DeltaTable
    from deltalake.exceptions import DeltaError

    if not is_table(path):
        raise NotFound(f"there is no Delta table at {path}")
    table, wanted = DeltaTable(str(path)), _version_or_time(as_of)
    if wanted is None:
        return table
    newest, oldest = table.version(), table.history()[-1]
    if isinstance(wanted, datetime.datetime) and wanted.timestamp() * 1000 < oldest["timestamp"]:
        raise NotFound(
            f"the table {path} was not there at {as_of}: its first commit is of {_moment(oldest['timestamp'])}"
        )
    try:
        table.load_as_version(wanted)
    except (DeltaError, ValueError):
        raise NotFound(f"the table {path} has no version {as_of}; the newest is {newest}") from None
    return table


def _version_or_time(as_of: str) -> int | datetime.datetime | None:
    if not as_of:
        return None
    if as_of.isdecimal():
        return int(as_of)
    try:
        found = datetime.datetime.fromisoformat(as_of)
    except ValueError:
        raise BadInput(f"'{as_of}' is neither a version nor a time such as 2026-01-31T12:00:00Z") from None
    return found if found.tzinfo else found.replace(tzinfo=datetime.UTC)


def compact(path: Path, keep: str) -> Compaction:
    """Join small files; rows and positions stay as they are, and readers notice nothing."""
    try:
        keep_hours = parse_duration_ms(keep) // _MS_PER_HOUR
    except ValueError as error:
        raise BadInput(str(error)) from None
    if keep_hours < 1:
        raise BadInput(
            "files are kept for at least 1h: a batch that is being written has files that no version names yet"
        )
    table = open_table(path)
    before = len(table.file_uris())
    with table_lock(path):
        table.optimize.compact()
        deleted = table.vacuum(retention_hours=keep_hours, enforce_retention_duration=False, dry_run=False)
    return Compaction(files_before=before, files_after=len(table.file_uris()), deleted=len(deleted))


def history(path: Path, limit: int) -> list[Commit]:
    """Return the newest commits, newest first."""
    return [
        Commit(
            version=each["version"],
            at=_moment(each["timestamp"]),
            operation=each.get("operation", ""),
        )
        for each in open_table(path).history(limit)
    ]


def _moment(timestamp_ms: int) -> str:
    """Write a time; one that no calendar has, as another writer may have left it, in milliseconds."""
    try:
        return datetime.datetime.fromtimestamp(timestamp_ms / 1000, datetime.UTC).isoformat(timespec="seconds")
    except (OverflowError, ValueError, OSError):
        return f"{timestamp_ms} ms"
