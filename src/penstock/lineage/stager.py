"""Reads events into facts inside of a task, merges them there, and sets them aside in one file."""

import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from penstock.lineage.collected import packed
from penstock.lineage.events import MalformedEvent, parse
from penstock.lineage.extract import Extractor
from penstock.private import make_private, open_private
from penstock.record.decoded import RecordError, record_error
from penstock.record.positions import OffsetRange

EVENT = "event"
"""The column that holds the event as it came; the decoder `openlineage` gives it."""


@dataclass(frozen=True)
class LineageStagerFactory:
    """Opens a stager for each offset range. Travels to the tasks."""

    folder: Path

    def __call__(self, _offset_range: OffsetRange) -> "LineageStager":
        """Choose a name that no other attempt has."""
        return LineageStager(self.folder / f"{uuid.uuid4().hex}.facts")


class LineageStager:
    """The facts of one task: however many events say the same, it is staged once."""

    def __init__(self, path: Path) -> None:
        self._path = path
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
        make_private(self._path.parent)
        with open_private(self._path) as file:
            file.write(packed(self._extractor.facts))
        return {"file": str(self._path)}
