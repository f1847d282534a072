"""A copy of a Delta table's log: what the library commits there becomes the table's next version, or nothing.

delta-rs puts a compaction on top of whatever was committed since its files were read, and of another compaction it does
not notice: the rows of both would be in the table. The name of the next commit in the log is one that only one writer
can get, so whoever works on a copy and then takes that name has compared with the very version that was copied.
"""

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import orjson

from penstock.delivery.durable import sync, sync_all
from penstock.errors import SinkUnavailable

_LOG = "_delta_log"
_LAST_CHECKPOINT = "_last_checkpoint"
_FOLDER = ".log-copy-"


@contextmanager
def with_copied_log(path: Path) -> Iterator[Any]:
    """Yield the table at its newest version, with files where they are and a log of its own; for who holds its lock."""
    from deltalake import DeltaTable

    for left in path.glob(f"{_FOLDER}*"):  # by one that was killed
        shutil.rmtree(left, ignore_errors=True)
    with tempfile.TemporaryDirectory(prefix=_FOLDER, dir=path) as folder:
        copy = Path(folder)
        for each in path.iterdir():
            if each.name != _LOG and not each.name.startswith("."):
                (copy / each.name).symlink_to(each.resolve())
        (copy / _LOG).mkdir()
        _copy_log(path / _LOG, copy / _LOG)
        yield DeltaTable(str(copy))


def _copy_log(log: Path, copy: Path) -> None:
    """Link what a reader needs: the last checkpoint and the commits since."""
    first = ""
    # Readers do without a note that is damaged, and look for the checkpoint themselves.
    with suppress(FileNotFoundError, ValueError, KeyError, TypeError):
        noted = (log / _LAST_CHECKPOINT).read_bytes()
        first = f"{orjson.loads(noted)['version']:020d}"
        (copy / _LAST_CHECKPOINT).write_bytes(noted)
    for each in log.iterdir():
        if each.is_dir():  # of checkpoints that are in parts
            (copy / each.name).symlink_to(each.resolve())
        elif each.name[:1].isdigit() and each.name >= first:
            os.link(each, copy / each.name)


def make_next_version(path: Path, table: Any, version: int) -> None:
    """Make what was committed to the copy the version after this one; raise if another writer was faster."""
    name = f"{version + 1:020d}.json"
    copy = Path(table.table_uri.removeprefix("file://"))
    files = [*_put_in_place(path, copy), *_in_place(path, copy / _LOG / name)]
    sync_all(files)
    sync_all({each.parent for each in files})
    sync(copy / _LOG / name)
    try:
        os.link(copy / _LOG / name, path / _LOG / name)
    except FileExistsError:
        for file in files:
            file.unlink(missing_ok=True)
        raise SinkUnavailable("another writer has committed to it meanwhile") from None
    sync(path / _LOG)


def _put_in_place(path: Path, copy: Path) -> Iterator[Path]:
    """Link the new files of the copy's own folders into the table's."""
    for folder, _, names in os.walk(copy):  # which follows no links
        into = path / Path(folder).relative_to(copy)
        if into.name != _LOG:
            into.mkdir(exist_ok=True)
            for name in names:
                if not (Path(folder) / name).is_symlink():
                    os.link(Path(folder) / name, into / name)
                    yield into / name


def _in_place(path: Path, commit: Path) -> Iterator[Path]:
    """Return the new files that were written through links. Of some names the log and the disk have their own.

    The one in the log is the longer one, and may be too long for a disk.
    """
    actions = [orjson.loads(line) for line in commit.read_bytes().splitlines() if line.strip()]
    for file in (each["add"]["path"] for each in actions if "add" in each):
        yield from (path / each for each in {file, unquote(file)} if os.path.exists(path / each))  # noqa: PTH110 - as said
