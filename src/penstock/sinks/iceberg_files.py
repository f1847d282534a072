"""Writes an Iceberg table's metadata files: each is synced to disk before anything refers to it."""

import os
from pathlib import Path
from typing import Any, Self

from pyiceberg.io.pyarrow import PyArrowFile, PyArrowFileIO

from penstock.delivery.durable import sync
from penstock.errors import Conflict

FOLDER = "penstock.folder"
"""The property that names the table's folder."""


class DurableFiles(PyArrowFileIO):  # type: ignore[misc]  # its types are not looked at
    """The library's files, flushed to disk when they are closed. None is written or deleted outside the table's folder.

    What a table's metadata name may be anything: its writers and its catalog are not ours alone.
    """

    def delete(self, location: Any) -> None:
        """Delete a file."""
        self._require_inside(location if isinstance(location, str) else location.location)
        super().delete(location)

    def _require_inside(self, location: str) -> None:
        folder = Path(self.properties[FOLDER])
        if not is_local(location) or not Path(local_path(location)).resolve().is_relative_to(folder):
            raise Conflict(
                f"the metadata of the Iceberg table in {folder} name {location}, which is elsewhere",
                safe="That was left as it is",
                fix="See who writes to the table's folder or catalog",
            )

    def new_output(self, location: str) -> Any:
        """Return a file to write."""
        self._require_inside(location)
        return _DurableFile(location, local_path(location), super().new_output(location)._filesystem)  # noqa: SLF001 - of our base


class _DurableFile(PyArrowFile):  # type: ignore[misc]  # as above
    def create(self, overwrite: bool = False) -> Any:  # noqa: FBT001, FBT002 - as the library calls it
        return _Durable(Path(self._path), super().create(overwrite))


class _Durable:
    """A stream that is on disk once it is closed, and its name, too."""

    def __init__(self, path: Path, stream: Any) -> None:
        self._path = path
        self._stream = stream

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        if not self._stream.closed:
            self._stream.close()
            sync(self._path)
            sync(self._path.parent)


def local_path(location: str) -> str:
    """Return the path of a location on this machine's file system."""
    return os.path.abspath(location.removeprefix("file:").removeprefix("//"))  # noqa: PTH100 - as the library does, without links


def is_local(location: str) -> bool:
    """Return whether a location is in a file system of this machine."""
    return location.startswith(("/", "file:/"))
