"""Looking after tables, Delta and Iceberg: compacting, deleting old files, history, bringing back a version."""

import datetime
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa
from pydantic import BaseModel, Field

from penstock.errors import BadInput, NotFound, PenstockError
from penstock.quantities import parse_duration_ms, parse_size_bytes
from penstock.sinks.delta_compaction import compact as join
from penstock.sinks.delta_compaction import vacuum as clear
from penstock.sinks.delta_log import load_table
from penstock.sinks.delta_table import is_table, table_lock
from penstock.sinks.iceberg_view import IcebergView
from penstock.sinks.table_folders import is_iceberg, table_folders
from penstock.wording import nearest

_MS_PER_HOUR = 3_600_000
_TARGET = "128MB"
_SMALLEST = 1_000_000
_MOST = 2**31
"""More commits than a table has, and no more than its library can count."""


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


class Landed(BaseModel, frozen=True):
    """A table that is there."""

    table: str = Field(description="Its folder.")
    format: Literal["delta", "iceberg"] = Field(description="Its format.")
    version: int | None = Field(description="The newest version; only its catalog knows that of an Iceberg table.")
    at: str | None = Field(description="When that was committed.")


def landed(base: Path) -> list[Landed]:
    """Return the tables in a folder and up to two below it."""
    return [_landed(base, name) for name in table_folders(base)]


def _landed(base: Path, name: str) -> Landed:
    version, at = None, None
    # One that cannot be read, or whose catalog is elsewhere or cannot be asked here, is there all the same.
    with suppress(PenstockError):
        for newest in history(base / name, 1):
            version, at = newest.version, newest.at
    return Landed(table=name, format="iceberg" if is_iceberg(base / name) else "delta", version=version, at=at)


def is_landed(path: Path) -> bool:
    """Return whether there is a table of either format in this folder."""
    return is_iceberg(path) or is_table(path)


def open_table(path: Path, as_of: str = "") -> Any:
    """Open a table that is there, as it is now, or as of a version or a time."""
    from deltalake.exceptions import DeltaError

    if is_iceberg(path):
        return IcebergView(path, _version_or_time(as_of))
    if not is_table(path):
        raise missing(str(path), Path(), f"at {path}")
    table, wanted = load_table(path), _version_or_time(as_of)
    if wanted is None:
        return table
    newest, oldest = table.version(), table.history()[-1]
    if isinstance(wanted, datetime.datetime) and wanted.timestamp() * 1000 < oldest["timestamp"]:
        raise NotFound(
            f"the table {path} was not there at {as_of}: its first commit is of {_moment(oldest['timestamp'])}"
        )
    try:
        table.load_as_version(wanted)
    except (DeltaError, ValueError, OverflowError):
        raise NotFound(f"the table {path} has no version {as_of}; the newest is {newest}") from None
    return table


def missing(name: str, base: Path, where: str) -> NotFound:
    """Say that a table is not there, and which one may be meant."""
    there = list(table_folders(base))
    # People leave the folder out, and mistype the last part.
    by_name = {Path(each).name: each for each in there}
    meant = nearest(name, there) or by_name.get(nearest(Path(name).name, by_name) or "")
    listed = (
        f"There are {', '.join(there)}"
        if there
        else "A `delta` or `iceberg` sink makes one with its first batch: penstock pipeline run FILE"
    )
    return NotFound(f"there is no table {where}", fix=f"Did you mean {meant}?" if meant else listed)


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


@contextmanager
def _held(path: Path) -> Iterator[Any]:
    """Open a table once nobody else writes to it: what was committed before that has to be known."""
    if not is_landed(path):
        raise missing(str(path), Path(), f"at {path}")
    with table_lock(path):
        yield open_table(path)


def compact(path: Path, keep: str, target: str = _TARGET) -> Compaction:
    """Join small files; rows and positions stay as they are, and readers notice nothing."""
    keep_ms, size = _kept(keep), _parsed("--target", parse_size_bytes, target)
    if size < _SMALLEST:
        raise BadInput("--target: files become at least 1MB", safe="No file was touched")
    with _held(path) as table:
        before = _files(table)
        if isinstance(table, IcebergView):
            table.compact(size)
            deleted = table.vacuum(keep_ms)
        else:
            join(table, path, size)
            deleted = clear(table, path, keep_ms)
    return Compaction(files_before=before, files_after=_files(table), deleted=len(deleted))


def _files(table: Any) -> int:
    return table.files() if isinstance(table, IcebergView) else len(table.file_uris())


def file_sizes(table: Any) -> list[int]:
    """Return how many bytes each file of an opened table has."""
    if isinstance(table, IcebergView):
        return table.file_sizes()
    return [int(each) for each in pa.table(table.get_add_actions()).column("size_bytes").to_pylist()]


def vacuum(path: Path, keep: str, *, dry_run: bool) -> list[str]:
    """Delete files that no version of the time kept needs, or only return them."""
    keep_ms = _kept(keep)
    with _held(path) as table:
        if isinstance(table, IcebergView):
            return table.vacuum(keep_ms, dry_run=dry_run)
        return clear(table, path, keep_ms, everything=True, dry_run=dry_run)


def restore(path: Path, to: str) -> Commit:
    """Bring back an older version, in a new one; a pipeline writes again what the table lacks then."""
    from deltalake.exceptions import DeltaError

    older = open_table(path, to)
    if isinstance(older, IcebergView):
        older.restore()
        return history(path, 1)[0]
    with table_lock(path):
        table = open_table(path)
        if table.version() == older.version():
            return history(path, 1)[0]  # it is the newest: there is nothing to bring back
        try:
            table.restore(older.version())
        except DeltaError:
            raise NotFound(
                f"version {older.version()} of the table {path} cannot be brought back: its files were deleted",
                safe="The table is as it was",
                fix=f"See which versions there are with: penstock table history {path}",
            ) from None
    [newest] = history(path, 1)
    return newest


def _kept(keep: str) -> int:
    keep_ms = _parsed("--keep", parse_duration_ms, keep)
    if keep_ms < _MS_PER_HOUR:
        raise BadInput(
            "--keep: files are kept for at least 1h: a batch that is being written has files that no version names yet",
            safe="No file was deleted",
        )
    return keep_ms


def _parsed(option: str, parse: Callable[[str], int], text: str) -> int:
    try:
        return parse(text)
    except ValueError as error:
        raise BadInput(f"{option}: {error}", safe="No file was deleted") from None


def history(path: Path, limit: int) -> list[Commit]:
    """Return the newest commits, newest first."""
    return [
        Commit(
            version=each["version"],
            at=_moment(each["timestamp"]),
            operation=each.get("operation", ""),
        )
        for each in open_table(path).history(min(limit, _MOST))
    ]


def _moment(timestamp_ms: int) -> str:
    """Write a time; one that no calendar has, as another writer may have left it, in milliseconds."""
    try:
        return datetime.datetime.fromtimestamp(timestamp_ms / 1000, datetime.UTC).isoformat(timespec="seconds")
    except (OverflowError, ValueError, OSError):
        return f"{timestamp_ms} ms"
