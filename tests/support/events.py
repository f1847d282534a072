"""Chunks of events as a task gets them, made by hand."""

from typing import Any

import pyarrow as pa

from penstock.decoders.decoder import DecoderContext
from penstock.decoders.json import Json
from penstock.record.positions import SourcePartition
from penstock.worker.tasks import event_schema

OPENING = DecoderContext(SourcePartition("orders", "id", 0))
FAILED = {"stage": "decode", "error": "Malformed", "message": "no JSON", "line": None}


def batch(schema: str, rows: list[tuple[Any, ...]], failed: tuple[int, ...] = ()) -> pa.RecordBatch:
    """Make a chunk of events as a task gets it; offsets begin at 100."""
    whole = event_schema(Json(schema=schema))
    offsets = list(range(100, 100 + len(rows)))
    columns = dict(zip(whole.names, zip(*rows, strict=True), strict=False)) | {
        "_topic": ["orders"] * len(rows),
        "_topic_id": ["id"] * len(rows),
        "_partition": [0] * len(rows),
        "_offset": offsets,
        "_key": [b"k"] * len(rows),
        "_value": [b"v%d" % offset for offset in offsets],
        "_at": offsets,
        "_attempt": [1] * len(rows),
        "_error": [FAILED if number in failed else None for number in range(len(rows))],
    }
    arrays = [pa.array(columns.get(field.name, [None] * len(rows)), field.type) for field in whole]
    return pa.RecordBatch.from_arrays(arrays, schema=whole)
