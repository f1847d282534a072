"""JSON lines, gzipped, one file per topic partition and offset range.

Guarantee: exactly once. A file's name says which offsets it covers, and the names together are the positions. Tasks
stage files; the driver puts the files of the winning attempts in place, never over an existing one. Where nothing of
an offset range was to be written, an empty marker takes the file's place. Each file appears whole; a batch of several
partitions appears file by file. A driver looks through the folder when it starts, and from then on `.newest.json` names
the newest file of each partition; if it is not there, or what it names is not, the folder is looked through again.

Needs a file system with hard links that all of Spark's workers share; a lock file keeps two drivers apart.
"""

import gzip
import os
import re
import uuid
from collections.abc import Iterable
from pathlib import Path
from typing import Any, BinaryIO, Literal

import msgspec
import orjson
import pyarrow as pa
from pydantic import Field

from penstock.delivery.crash_points import crash_point
from penstock.delivery.durable import locked, read_versioned, sync, write_versioned
from penstock.errors import BatchAborted, Conflict, PositionsMoved
from penstock.record.columns import COORDINATES
from penstock.record.decoded import RecordError
from penstock.record.formats import JSON_FILES
from penstock.record.positions import OffsetRange, Positions, SourcePartition, require_unmoved
from penstock.record.target import Target
from penstock.secret import PathFromFile
from penstock.sinks.rows import fitting, plain_rows
from penstock.sinks.sink import Sink, SinkContext, SinkModel, Staged
from penstock.sinks.staging import Staging

_NEWEST = ".newest.json"
_LONGEST_TOPIC = 100
_DONE = re.compile(r"_?(?P<topic>.+)\.(?P<id>[^.]+)\.p(?P<partition>\d+)\.(?P<start>\d+)-(?P<end>\d+)\.(jsonl.*|empty)")


class Json(SinkModel, frozen=True):
    """Files of JSON lines on a disk that all workers share. Exactly once."""

    target_key = "path"

    type: Literal["json"] = Field("json", description="JSON lines.")
    path: PathFromFile = Field(
        description="Folder of the files; made if it is not there. One pipeline and sink a folder."
    )
    coordinates: bool = Field(
        default=True, description="Also write _topic_id, _partition and _offset, which name the record of each row."
    )
    gzip: bool = Field(default=True, description="Compress the files.")

    @property
    def reserved_columns(self) -> tuple[str, ...]:
        """The columns of Penstock that go into the files."""
        return COORDINATES if self.coordinates else ()

    def target(self) -> Target:
        """Return its folder."""
        return Target("folder", str(self.path.resolve()), is_shared=False)

    def open(self, context: SinkContext) -> "JsonSink":
        """Make the driver's part."""
        return JsonSink(self, context.name, context.pipeline)


class _Note(msgspec.Struct):
    """What `.newest.json` says."""

    newest: dict[str, list[str]]
    """By partition, the file that was about to be put in place, behind the one before it."""
    pipeline: str = ""
    """The pipeline whose files these are; empty if an older version wrote it."""


class JsonSink(Sink):
    """Puts finished files in place."""

    def __init__(self, spec: Json, name: str, pipeline: str) -> None:
        super().__init__(name)
        self._spec = spec
        self._pipeline = pipeline
        self._staging = Staging(spec.path)
        self._seen: dict[str, str] | None = None
        """The newest files as this driver saw them last; None before it has looked through the folder."""

    def open(self, _schema: pa.Schema) -> None:
        """Make the folders, and note the newest files: a note from before may be older than the files beside it."""
        self._staging.open(lambda _left: None)
        with locked(self._spec.path / ".penstock.lock"):
            self._seen = self._looked_through()
            if self._seen:
                self._require_ours()
            self._note({key: [name] for key, name in self._seen.items()})

    def _require_ours(self) -> None:
        """Raise if the files are another pipeline's: their names would be taken for this one's positions."""
        theirs = (self._last_note() or _Note(newest={})).pipeline or self._pipeline
        if theirs != self._pipeline:
            raise Conflict(
                f"the folder {self._spec.path} of sink '{self.name}' has the files of pipeline '{theirs}': what that"
                " has written would count as written by this one, too",
                safe="Nothing was written",
                fix="Name another path. Or, if the pipeline was only called so before, remove"
                f" {self._spec.path / _NEWEST}, and run it again",
            )

    def positions(self, source_partitions: Iterable[SourcePartition]) -> Positions | None:
        """Read the positions from the names of the newest files."""
        newest = self._newest()
        return {
            source_partition: _end(newest[_key(source_partition)])
            for source_partition in source_partitions
            if _key(source_partition) in newest
        }

    def _newest(self) -> dict[str, str]:
        """Name the newest file of each partition.

        Whoever puts a file in place writes its name down first, after that of the one before. So the last one that is
        there is the newest, unless an older note was copied over it, and this driver has seen a newer one; if none is
        there, somebody has removed files, and those that are left say.
        """
        if self._seen is None:
            return self._looked_through()
        self._seen = noted if (noted := self._noted(self._seen)) is not None else self._looked_through()
        return dict(self._seen)

    def _noted(self, seen: dict[str, str]) -> dict[str, str] | None:
        """Name the newest files by the note and by what this driver has seen; None if these do not say."""
        note = self._last_note()
        if note is None:
            return None
        found, listed = {}, note.newest
        for key in listed.keys() | seen.keys():
            names = [*listed.get(key, []), *filter(None, [seen.get(key)])]
            there = [name for name in names if (self._spec.path / name).exists()]
            if not there:
                return None
            found[key] = max(there, key=_end)
        return found

    def _note(self, newest: dict[str, list[str]]) -> None:
        note = _Note(newest=newest, pipeline=self._pipeline)
        write_versioned(self._spec.path / _NEWEST, JSON_FILES, msgspec.to_builtins(note))

    def _last_note(self) -> _Note | None:
        """Read the note; raise `FormatNotUnderstood` if it is another version's, whose files may have other names."""
        try:
            found = read_versioned(self._spec.path / _NEWEST, JSON_FILES, otherwise="write to another path")
            return msgspec.convert(found, _Note)
        except (FileNotFoundError, NotADirectoryError, ValueError):
            return None

    def _looked_through(self) -> dict[str, str]:
        self._last_note()  # whatever it says, it is ours
        found: dict[str, str] = {}
        for entry in os.scandir(self._spec.path) if self._spec.path.is_dir() else ():
            match = _DONE.fullmatch(entry.name)
            if match is not None:
                key = f"{match['id']}.p{int(match['partition'])}"
                if key not in found or _end(found[key]) < int(match["end"]):
                    found[key] = entry.name
        return found

    def stager(self) -> "JsonStagerFactory":
        """Return the stager of lines, which is sent to tasks."""
        return JsonStagerFactory(self._staging.path, compress=self._spec.gzip)

    def commit(self) -> None:
        """Put each file in place; one partition's file is that partition's commit."""
        try:
            with locked(self._spec.path / ".penstock.lock"):
                newest = self._newest()
                found = {
                    source_partition: _end(newest[_key(source_partition)])
                    for source_partition in self._expected
                    if _key(source_partition) in newest
                }
                require_unmoved(self.name, self._expected, found)
                self._put_in_place(newest)
                self._staging.clear()
        except FileNotFoundError as error:
            raise BatchAborted(f"what was staged for sink '{self.name}' is gone: {error.filename}") from None
        except FileExistsError as error:
            raise PositionsMoved(
                f"sink '{self.name}' already has a file of these offsets, {error.filename2 or error.filename}:"
                " somebody has put files into its folder",
                safe="It was left as it is",
                fix="Run the pipeline again: it continues after the newest file; let nobody else write to the folder",
            ) from None

    def _put_in_place(self, newest: dict[str, str]) -> None:
        finals = {_key(each.offset_range.source_partition): self._final_name(each) for each in self._staged}
        listed = {key: [name] for key, name in newest.items()}
        for key, name in finals.items():
            listed[key] = [*listed.get(key, []), name]
        self._note(listed)
        for each in self._staged:
            key = _key(each.offset_range.source_partition)
            final = self._spec.path / finals[key]
            if each.rows:
                os.link(self._staging.path / each.detail["file"], final)
            else:
                final.touch(exist_ok=False)
            if self._seen is not None:
                self._seen[key] = final.name
            before = newest.get(key, "")
            if before.endswith(".empty"):  # a marker only says how far it went; the newer file says more
                (self._spec.path / before).unlink(missing_ok=True)
            crash_point("in_commit", self.name)
        sync(self._spec.path)

    def close(self) -> None:
        """Remove what was staged."""
        self._staging.close()

    def _final_name(self, each: Staged) -> str:
        source_partition = each.offset_range.source_partition
        # The id is what identifies; the topic is there for people. Readers of folders skip names that begin with _ or .
        topic = re.sub(r"[^A-Za-z0-9._-]", "_", source_partition.topic)[-_LONGEST_TOPIC:].lstrip("._") or "topic"
        offsets = f"{each.offset_range.start:020d}-{each.offset_range.end:020d}"
        core = f"{topic}.{_key(source_partition)}.{offsets}"
        return f"{core}.jsonl{'.gz' if self._spec.gzip else ''}" if each.rows else f"_{core}.empty"


def _key(source_partition: SourcePartition) -> str:
    # A replay's id has the name of a topic in it, dots included, and dots are what names are taken apart by.
    return f"{source_partition.topic_id.replace('.', '%2E')}.p{source_partition.partition}"


def _end(name: str) -> int:
    match = _DONE.fullmatch(name)
    return int(match["end"]) if match is not None else 0


class JsonStagerFactory:
    """Opens a staged file for each offset range."""

    def __init__(self, folder: Path, *, compress: bool) -> None:
        self._folder = folder
        self._compress = compress

    def __call__(self, _offset_range: OffsetRange) -> "JsonStager":
        """Open the file."""
        return JsonStager(self._folder / uuid.uuid4().hex, compress=self._compress)


class JsonStager:
    """Writes one file of lines."""

    def __init__(self, path: Path, *, compress: bool) -> None:
        self._path = path
        self._compress = compress
        self._file: BinaryIO | None = None
        self._lines: gzip.GzipFile | BinaryIO | None = None

    def write(self, rows: pa.RecordBatch, _offsets: pa.Array) -> list[tuple[int, RecordError]]:
        """Append one line per row; refuse a row that no line can hold."""
        lines, _, refused = fitting(rows, _encoded)
        if self._lines is None and lines:
            self._file = self._path.open("wb")
            # Neither name nor time in the header: the same rows give the same bytes.
            self._lines = gzip.GzipFile("", "wb", 1, self._file, mtime=0) if self._compress else self._file
        if self._lines is not None:
            self._lines.writelines(lines)
        return refused

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


def _encoded(rows: pa.RecordBatch) -> list[bytes]:
    return [orjson.dumps(row, option=orjson.OPT_APPEND_NEWLINE) for row in plain_rows(rows)]
