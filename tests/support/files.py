"""Files of programs that run: what is listed may be gone, or have another name, when it is read."""

import os
from collections.abc import Iterator
from pathlib import Path


def paths_under(*folders: Path) -> Iterator[tuple[Path, os.stat_result]]:
    """Yield each folder, and everything in it that is still there, with what the system says of it."""
    for top in folders:
        for folder, inner, names in os.walk(top):
            for path in (Path(folder), *(Path(folder, each) for each in (*inner, *names))):
                try:
                    yield path, path.lstat()
                except FileNotFoundError:
                    continue


def contents_under(*folders: Path) -> Iterator[tuple[Path, bytes]]:
    """Yield every file in these folders that is still there, with what is in it."""
    for top in folders:
        for folder, _, names in os.walk(top):
            for path in (Path(folder, name) for name in names):
                try:
                    content = path.read_bytes() if path.is_file() else b""
                except FileNotFoundError:
                    continue
                yield path, content
