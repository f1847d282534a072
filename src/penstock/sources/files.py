"""Files of events, for tests and backfill: the same path through decode, steps and sinks, without a broker.

Guarantee: every line of every file once, in order. Each line is an event's value; each file is a partition, and line
numbers are its offsets. Files must not change once they are there; new files may come, and those that were read to
their end may go. Whatever a file holds, only one chunk is in memory: a line of more than 64 MB, which a small `.gz`
can hide, is refused. So is a link in the folder that leads out of it.
"""

import gzip
import hashlib
import os
import stat
import zlib
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import BinaryIO, Literal

import pyarrow as pa
from pydantic import Field

from penstock.errors import BadInput, NotFound
from penstock.record.available_range import AvailableRange
from penstock.record.positions import OffsetRange, Positions, SourcePartition
from penstock.record.records import records
from penstock.record.target import Target
from penstock.secret import PathFromFile
from penstock.sources.source import Source, SourceContext, SourceModel

_CHUNK_EVENTS = 10_000
_LONGEST_LINE = 64 * 2**20


class Files(SourceModel, frozen=True):
    """Files with one value a line, `.gz` or plain."""

    type: Literal["files"] = Field("files", description="Files of lines.")
    path: PathFromFile = Field(description="A file, or a folder of files.")

    def targets(self) -> list[Target]:
        """Return where the files are."""
        return [Target("folder", str(self.path.resolve()))]

    def open(self, context: SourceContext) -> "FilesSource":  # noqa: ARG002 - files need nothing
        """Return the driver's view."""
        return FilesSource(self)


class FilesSource(Source):
    """The driver's view of the source."""

    def __init__(self, spec: Files) -> None:
        self._path = spec.path

    def _files(self) -> list[Path]:
        if not self._path.exists():
            raise NotFound(f"{self._path} is not there")
        listed = sorted(self._path.iterdir()) if self._path.is_dir() else [self._path]
        named = [path for path in listed if not path.name.startswith((".", "_"))]
        for path in named if self._path.is_dir() else ():
            # Below the folder is not enough: what lies there can become a link to anywhere.
            if path.is_symlink() and path.resolve().parent != self._path.resolve():
                raise BadInput(
                    f"{path} is a link that leads out of the folder: whoever may write there could have any file read",
                    safe="Nothing was read",
                    fix="Put the file itself there, or name it as `path`",
                )
        return list(dict.fromkeys(path.resolve() for path in named if path.is_file()))

    def available(self) -> list[AvailableRange]:
        """Count the lines of each file."""
        return [AvailableRange(_source_partition(path), 0, _count(path)) for path in self._files()]

    def topic_ids(self) -> dict[str, str]:
        """Return the files' ids."""
        return {
            source_partition.topic: source_partition.topic_id
            for source_partition in map(_source_partition, self._files())
        }

    def starts(self, available: list[AvailableRange]) -> Positions:
        """Begin with the first line."""
        return {each.source_partition: 0 for each in available}

    def reader(self) -> "FilesReader":
        """Return the reader, which is sent to tasks."""
        return FilesReader()


class FilesReader:
    """Reads offset ranges of lines inside a task."""

    def chunks(
        self, offset_range: OffsetRange, max_bytes: int | None = None, _rejected: Collection[int] = ()
    ) -> Iterator[tuple[pa.RecordBatch, int]]:
        """Return lines as columns, each chunk with the offset it reaches."""
        read_bytes, yielded_bytes, values, first = 0, 0, [], offset_range.start
        for number, line in enumerate(_lines(Path(offset_range.source_partition.topic))):
            if number < offset_range.start:
                continue
            if number >= offset_range.end:
                break
            values.append(line.rstrip(b"\r\n"))
            read_bytes += len(line)
            full = max_bytes is not None and read_bytes >= max_bytes
            if full or len(values) == _CHUNK_EVENTS or read_bytes - yielded_bytes >= _LONGEST_LINE:
                yield _columns(values, first, offset_range.source_partition), number + 1
                values, first, yielded_bytes = [], number + 1, read_bytes
            if full:
                return
        yield _columns(values, first, offset_range.source_partition), offset_range.end


def _source_partition(path: Path) -> SourcePartition:
    return SourcePartition(str(path), f"file-{hashlib.sha256(str(path).encode()).hexdigest()[:16]}", 0)


def _opened(path: Path) -> BinaryIO:
    """Open a file, but not a link or a pipe that has replaced it since it was listed."""
    file = os.fdopen(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), "rb")
    if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        file.close()
        raise BadInput(f"{path} is no longer a file", safe="Nothing of it was read")
    return file


def _lines(path: Path) -> Iterator[bytes]:
    number = 0
    try:
        with _opened(path) as raw, gzip.open(raw, "rb") if path.suffix == ".gz" else raw as file:
            while line := file.readline(_LONGEST_LINE + 1):
                number += 1
                if len(line) > _LONGEST_LINE:
                    raise BadInput(
                        f"line {number} of {path} has more than {_LONGEST_LINE // 2**20} MB: no event is that large",
                        fix="Remove the file, or break its lines where events end",
                    )
                yield line
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise BadInput(f"{path} is not a whole gzip file, after line {number}: {error}") from None
    except OSError as error:
        raise BadInput(f"{path} cannot be read, after line {number}: {error.strerror}") from None


def _count(path: Path) -> int:
    return sum(1 for _ in _lines(path))


def _columns(values: list[bytes], first: int, source_partition: SourcePartition) -> pa.RecordBatch:
    count = len(values)
    written_ms = Path(source_partition.topic).stat().st_mtime_ns // 1_000_000
    return records(
        source_partition,
        offsets=pa.array(range(first, first + count), pa.int64()),
        timestamps_ms=pa.repeat(pa.scalar(written_ms, pa.int64()), count),
        keys=pa.nulls(count, pa.binary()),
        values=pa.array(values, pa.binary()),
        headers=[None] * count,
    )
