"""Data files on their way into a Delta table: put into its folder before the commit that names them.

Which these are is on record first, in the staging folder, so that whoever finds that folder can take back what no
commit has named.
"""

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

from penstock.delivery.durable import read_versioned, sync_all, write_versioned
from penstock.record.formats import DELTA_TABLE

_RECORD = "offered.json"


class Offered(NamedTuple):
    """A staged file that a commit is to name."""

    file: str
    place: str
    """Where it belongs in the table's folder."""
    app: str
    end: int
    """With `app`, the position that the commit moves."""


def offer(table: Any, folder: Path, staging: Path, files: Iterable[Offered]) -> None:
    """Put staged files where the table's log can name them."""
    withdraw(table, folder, staging)
    offered = list(files)
    record = [{"file": each.place, "app": each.app, "end": each.end} for each in offered]
    write_versioned(staging / _RECORD, DELTA_TABLE, {"files": record})
    folders = {folder}
    for each in offered:
        final = folder / each.place
        final.parent.mkdir(parents=True, exist_ok=True)
        # A vacuum goes by the age of files, and a batch may have been running for hours.
        os.utime(staging / each.file)
        os.link(staging / each.file, final)
        folders |= {parent for parent in final.parents if parent.is_relative_to(folder)}
    sync_all(folders)


def withdraw(table: Any, folder: Path, staging: Path) -> None:
    """Remove the files that a driver had put into the table's folder and that its log has never named.

    A position that was reached says this of files, too, that a compaction has replaced since. One that was not
    says nothing: it may have been lost, and without a file that the log names nobody could read the table.
    """
    try:
        offered = read_versioned(staging / _RECORD, DELTA_TABLE)["files"]
    except (FileNotFoundError, KeyError, ValueError):
        return
    table.update_incremental()
    doubtful = [each for each in offered if (table.transaction_version(each["app"]) or 0) < each["end"]]
    named = {Path(uri).name for uri in table.file_uris()} if doubtful else set()
    for each in doubtful:
        if Path(each["file"]).name not in named:
            (folder / each["file"]).unlink(missing_ok=True)
