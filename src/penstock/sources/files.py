"""Files of events, for tests and backfill: the same path through decode, steps and sinks, without a broker.

Guarantee: every line of every file once, in order. A line is an event's value; a file is a place, and the number of a
line its offset. Files must not change once they are there; new files may come.
"""

import gzip
import hashlib
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Literal

import pyarrow as pa
from pydantic import BaseModel, Field

from penstock.delivery.positions import Place, Positions, Stretch
from penstock.errors import NotFound
from penstock.secret import PathFromFile
from penstock.sources.extent import Extent
from penstock.sources.records import records

_CHUNK_EVENTS = 10_000


class Files(BaseModel, frozen=True, extra="forbid"):
    """Files with one value a line, `.gz` or plain."""

    type: Literal["files"] = Field("files", description="Files of lines.")
    path: PathFromFile = Field(description="A file, or a folder of files.")


class FilesFeed:
    """The driver's view of the source."""

    def __init__(self, spec: Files) -> None:
        self._path = spec.path

    def _files(self) -> list[Path]:
        if not self._path.exists():
            raise NotFound(f"{self._path} is not there")
        listed = sorted(self._path.iterdir()) if self._path.is_dir() else [self._path]
        return [path for path in listed if path.is_file() and not path.name.startswith((".", "_"))]

    def extents(self) -> list[Extent]:
        """Count the lines of each file."""
        return [Extent(_place(path), 0, _count(path)) for path in self._files()]

    def topic_ids(self) -> dict[str, str]:
        """Give the files' ids."""
        return {place.topic: place.topic_id for place in map(_place, self._files())}

    def starts(self, extents: list[Extent]) -> Positions:
        """Begin with the first line."""
        return {each.place: 0 for each in extents}

    def reader(self) -> "FilesReader":
        """Give what tasks read with."""
        return FilesReader()


class FilesReader:
    """Reads stretches of lines inside of a task."""

    def chunks(
        self, stretch: Stretch, max_bytes: int | None = None, _rejected: Collection[int] = ()
    ) -> Iterator[tuple[pa.RecordBatch, int]]:
        """Give lines as columns, each chunk with the offset it reaches."""
        read_bytes, values, first = 0, [], stretch.start
        with _open(Path(stretch.place.topic)) as file:
            for number, line in enumerate(file):
                if not stretch.start <= number < stretch.end:
                    continue
                values.append(line.rstrip(b"\r\n"))
                read_bytes += len(line)
                full = max_bytes is not None and read_bytes >= max_bytes
                if len(values) == _CHUNK_EVENTS or full:
                    yield _columns(values, first, stretch.place), number + 1
                    values, first = [], number + 1
                if full:
                    return
        yield _columns(values, first, stretch.place), stretch.end


def _place(path: Path) -> Place:
    resolved = str(path.resolve())
    return Place(resolved, f"file-{hashlib.sha256(resolved.encode()).hexdigest()[:16]}", 0)


def _open(path: Path) -> "gzip.GzipFile":
    return gzip.open(path, "rb") if path.suffix == ".gz" else path.open("rb")  # type: ignore[return-value]


def _count(path: Path) -> int:
    with _open(path) as file:
        return sum(1 for _ in file)


def _columns(values: list[bytes], first: int, place: Place) -> pa.RecordBatch:
    count = len(values)
    written_ms = Path(place.topic).stat().st_mtime_ns // 1_000_000
    return records(
        place,
        offsets=pa.array(range(first, first + count), pa.int64()),
        timestamps_ms=pa.repeat(pa.scalar(written_ms, pa.int64()), count),
        keys=pa.nulls(count, pa.binary()),
        values=pa.array(values, pa.binary()),
        headers=[None] * count,
    )
