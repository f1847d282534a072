"""JSON lines, gzipped, one file per topic partition and stretch of offsets.

Guarantee: exactly once. A file's name says which offsets it covers, and the names together are the positions. Tasks
write aside; the driver puts the files of the winning attempts in place, never over an existing one. Where nothing of a
stretch was to be written, an empty marker takes the file's place. Each file appears whole; a batch of several
partitions appears file by file.

Needs a file system with hard links that all of Spark's workers share; a lock file keeps two drivers apart.
"""

import gzip
import os
import re
import uuid
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, BinaryIO, Literal

import orjson
import pyarrow as pa
from pydantic import BaseModel, Field

from penstock.decoders.decoded import Fault
from penstock.delivery.crash_points import crash_point
from penstock.delivery.durable import locked, make_folder, sync
from penstock.delivery.positions import Place, Positions, Stretch, require_unmoved
from penstock.errors import WorkLost
from penstock.pipeline.columns import COORDINATES
from penstock.secret import PathFromFile
from penstock.sinks.rows import plain_rows
from penstock.sinks.sink import Sink, Staged

_STAGING = ".staging"
_LONGEST_TOPIC = 100
_DONE = re.compile(r"_?(?P<topic>.+)\.(?P<id>[^.]+)\.p(?P<partition>\d+)\.(?P<start>\d+)-(?P<end>\d+)\.(jsonl.*|empty)")


class Json(BaseModel, frozen=True, extra="forbid"):
    """Files of JSON lines on a disk that all workers share. Exactly once."""

    type: Literal["json"] = Field("json", description="JSON lines.")
    name: str | None = Field(None, description="Name of the sink in reports and positions; its type if left out.")
    path: PathFromFile = Field(
        description="Folder of the files; made if it is not there. One pipeline and sink a folder."
    )
    where: str | None = Field(None, description="SQL condition: only rows that meet it go to this sink.")
    coordinates: bool = Field(
        default=True, description="Also write _topic_id, _partition and _offset, which name the record of each row."
    )
    gzip: bool = Field(default=True, description="Compress the files.")

    @property
    def reserved_columns(self) -> tuple[str, ...]:
        """The columns of Penstock that go into the files."""
        return COORDINATES if self.coordinates else ()

    def sink(self, name: str, _pipeline: str) -> "JsonSink":
        """Make the driver's part."""
        return JsonSink(self, name)


class JsonSink(Sink):
    """Puts finished files in place."""

    def __init__(self, spec: Json, name: str) -> None:
        super().__init__(name)
        self._spec = spec

    def open(self, _schema: pa.Schema) -> None:
        """Make the folders."""
        make_folder(self._spec.path / _STAGING)

    def positions(self, places: Iterable[Place]) -> Positions | None:
        """Read the positions from the names of the files."""
        wanted = {(place.topic_id, place.partition): place for place in places}
        found: Positions = {}
        for _, match in self._done():
            place = wanted.get((match["id"], int(match["partition"])))
            if place is not None:
                found[place] = max(found.get(place, 0), int(match["end"]))
        return found

    def _done(self) -> Iterator[tuple[Path, re.Match[str]]]:
        if self._spec.path.is_dir():
            for entry in os.scandir(self._spec.path):
                match = _DONE.fullmatch(entry.name)
                if match is not None:
                    yield Path(entry.path), match

    def stager(self) -> "JsonStagerFactory":
        """Give what tasks write lines with."""
        return JsonStagerFactory(self._spec.path / _STAGING, compress=self._spec.gzip)

    def commit(self) -> None:
        """Put each file in place; one partition's file is that partition's commit."""
        try:
            with locked(self._spec.path / ".penstock.lock"):
                require_unmoved(self.name, self._expected, self.positions(self._expected) or {})
                self._put_in_place()
        except FileNotFoundError as error:
            raise WorkLost(f"what was staged for sink '{self.name}' is gone: {error.filename}") from None

    def _put_in_place(self) -> None:
        stale = self._markers()
        for each in self._staged:
            final = self._spec.path / self._final_name(each)
            if each.rows:
                aside = self._spec.path / _STAGING / each.detail["file"]
                os.link(aside, final)
                aside.unlink()
            else:
                final.touch(exist_ok=False)
            # A marker only says how far it went; the newer file says more.
            for marker in stale.get(each.stretch.place, []):
                marker.unlink(missing_ok=True)
            crash_point("in_commit", self.name)
        sync(self._spec.path)

    def _markers(self) -> dict[Place, list[Path]]:
        by_key = {(place.topic_id, place.partition): place for place in self._expected}
        found: dict[Place, list[Path]] = {}
        for path, match in self._done():
            place = by_key.get((match["id"], int(match["partition"])))
            if place is not None and path.suffix == ".empty":
                found.setdefault(place, []).append(path)
        return found

    def _final_name(self, each: Staged) -> str:
        place = each.stretch.place
        # The id is what identifies; the topic is there for people. Readers of folders skip names that begin with _ or .
        topic = re.sub(r"[^A-Za-z0-9._-]", "_", place.topic)[-_LONGEST_TOPIC:].lstrip("._") or "topic"
        core = f"{topic}.{place.topic_id}.p{place.partition}.{each.stretch.start:020d}-{each.stretch.end:020d}"
        return f"{core}.jsonl{'.gz' if self._spec.gzip else ''}" if each.rows else f"_{core}.empty"


class JsonStagerFactory:
    """Opens a file per stretch, aside."""

    def __init__(self, folder: Path, *, compress: bool) -> None:
        self._folder = folder
        self._compress = compress

    def __call__(self, _stretch: Stretch) -> "JsonStager":
        """Open the file."""
        return JsonStager(self._folder / uuid.uuid4().hex, compress=self._compress)


class JsonStager:
    """Writes one file of lines."""

    def __init__(self, path: Path, *, compress: bool) -> None:
        self._path = path
        self._compress = compress
        self._file: BinaryIO | None = None
        self._lines: gzip.GzipFile | BinaryIO | None = None

    def write(self, rows: pa.RecordBatch, _offsets: pa.Array) -> list[tuple[int, Fault]]:
        """Append one line per row."""
        if self._lines is None:
            self._file = self._path.open("wb")
            # Neither name nor time in the header: the same rows give the same bytes.
            self._lines = gzip.GzipFile("", "wb", 1, self._file, mtime=0) if self._compress else self._file
        self._lines.writelines(orjson.dumps(row, option=orjson.OPT_APPEND_NEWLINE) for row in plain_rows(rows))
        return []

    def finish(self) -> dict[str, Any]:
        """Close the file and flush it to disk."""
        if self._file is None or self._lines is None:
            return {"file": None}
        if self._compress:
            self._lines.close()
        self._file.flush()
        os.fsync(self._file.fileno())
        self._file.close()
        return {"file": self._path.name}
