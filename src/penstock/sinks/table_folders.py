"""The folders of tables nearby: what Tab offers, and what somebody may have meant who mistyped one."""

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

_DEEPEST = 3


def is_iceberg(path: Path) -> bool:
    """Return whether the folder holds an Iceberg table."""
    return any(path.glob("metadata/*.metadata.json")) and not (path / "_delta_log").is_dir()


def table_folders(base: Path) -> Iterator[str]:
    """Return the Delta and Iceberg tables in a folder and up to two below it, as they are named from there.

    A folder that may not be read, or is gone meanwhile, holds none.
    """
    level = [Path()]
    for _ in range(_DEEPEST):
        level = [each for parent in level for each in _folders(base, parent)]
        yield from (str(each) for each in level if _is_table(base / each))


def _folders(base: Path, parent: Path) -> list[Path]:
    with suppress(OSError), os.scandir(base / parent) as entries:
        return sorted(parent / each.name for each in entries if each.name[0] != "." and _is_folder(Path(each)))
    return []


def _is_folder(path: Path) -> bool:
    with suppress(OSError):  # a mount that no longer answers, for instance
        return path.is_dir()
    return False


def _is_table(folder: Path) -> bool:
    with suppress(OSError):
        log = folder / "_delta_log"
        return (log.is_dir() and any(log.iterdir())) or is_iceberg(folder)
    return False
