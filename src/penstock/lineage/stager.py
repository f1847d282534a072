"""Reads events into facts inside a task, merges them there, and stages them in one file."""

import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa

from penstock.lineage.collected import Facts, packed, unpacked
from penstock.lineage.events import MalformedEvent, parse
from penstock.lineage.extract import Extractor
from penstock.lineage.uses import Uses, taken
from penstock.private import make_private, open_private
from penstock.record.decoded import RecordError, record_error
from penstock.record.positions import OffsetRange

EVENT = "event"
"""The column that holds the event as it came; the decoder `openlineage` gives it."""


@dataclass(frozen=True)
class LineageStagerFactory:
    """Opens a stager for each offset range. It is sent to the tasks."""

    folder: Path
    as_columns: bool = False
    """Whether what has the same shape many times over is staged as columns, which not every store takes."""

    def __call__(self, _offset_range: OffsetRange) -> "LineageStager":
        """Choose a name that no other attempt has."""
        return LineageStager(self.folder / f"{uuid.uuid4().hex}.facts", as_columns=self.as_columns)


class LineageStager:
    """The facts of one task: however many events say the same, it is staged once."""

    def __init__(self, path: Path, *, as_columns: bool = False) -> None:
        self._path = path
        self._as_columns = as_columns
        self._extractor = Extractor()

    def write(self, rows: pa.RecordBatch, _offsets: pa.Array) -> list[tuple[int, RecordError]]:
        """Take in what the events say; refuse what is none, each with the reason."""
        refused = []
        add = self._extractor.add
        for index, value in enumerate(rows.column(EVENT).cast(pa.binary()).to_pylist()):
            try:
                add(parse(value or b""))
            except MalformedEvent as error:
                refused.append((index, record_error(error.kind, str(error), stage="sink")))
        return refused

    def finish(self) -> dict[str, Any]:
        """Write the facts down, and say where."""
        facts, uses = taken(self._extractor.facts) if self._as_columns else (self._extractor.facts, None)
        make_private(self._path.parent)
        with open_private(self._path) as file:
            file.write(_encode(_Staged(packed(facts), uses)))
        return {"file": str(self._path)}


class _Staged(msgspec.Struct, array_like=True):
    facts: bytes
    uses: Uses | None


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(_Staged).decode


def read_staged(data: bytes) -> tuple[Facts, Uses | None]:
    """Return what a stager has written down."""
    staged = _decode(data)
    return unpacked(staged.facts), staged.uses
