"""OpenLineage events, each checked and passed on whole.

Guarantee: a record becomes a row if it is a RunEvent, JobEvent or DatasetEvent with a time, and with the run id, job
and datasets that its kind needs; otherwise it fails alone, with the reason in plain words. The column `event` holds the
event as it came, and is what the sink `lineage` reads; the others are there for steps and for other sinks.
"""

from collections.abc import Iterable, Sequence
from typing import Literal

import msgspec
import pyarrow as pa
from pydantic import Field

from penstock.decoders.decoder import DecoderContext, DecoderModel
from penstock.lineage.events import Event, MalformedEvent, parse
from penstock.record.decoded import Decoded, RecordError, arrays_of, record_error

_SCHEMA = pa.schema(
    [
        pa.field("event_time", pa.timestamp("us", "UTC")),
        pa.field("event_type", pa.string()),
        pa.field("run_id", pa.string()),
        pa.field("job_namespace", pa.string()),
        pa.field("job_name", pa.string()),
        pa.field("event", pa.string()),
    ]
)
_Row = tuple[object, ...]
_BLANK: _Row = (None,) * len(_SCHEMA)
_TOMBSTONE = record_error("Tombstone", "the value is null")


class OpenLineage(DecoderModel, frozen=True):
    """Each value is one OpenLineage event."""

    type: Literal["openlineage"] = Field("openlineage", description="OpenLineage events.")

    @property
    def arrow_schema(self) -> pa.Schema:
        """The columns that decoding gives."""
        return _SCHEMA

    @property
    def can_drop(self) -> bool:
        """Every value becomes a row or fails."""
        return False

    def open(self, context: DecoderContext) -> "OpenLineageDecoder":  # noqa: ARG002 - it needs nothing
        """Return the decoder; one per task."""
        return OpenLineageDecoder()


class OpenLineageDecoder:
    """Decodes many values at once."""

    def decode(self, values: Sequence[bytes | None], /) -> Decoded:
        """Return the columns, and an error for each failed value."""
        rows: list[_Row] = []
        record_errors: list[RecordError | None] = [None] * len(values)
        for number, value in enumerate(values):
            row = _BLANK
            if value is None:
                record_errors[number] = _TOMBSTONE
            else:
                try:
                    row = _row(value, parse(value))
                except MalformedEvent as error:
                    record_errors[number] = record_error(error.kind, str(error))
            rows.append(row)
        by_column: Iterable[tuple[object, ...]] = [()] * len(_SCHEMA)
        if rows:
            times, types, run_ids, *others = zip(*rows, strict=True)
            by_column = (times, types, tuple(msgspec.to_builtins(run_ids)), *others)
        return Decoded(arrays_of(_SCHEMA, by_column, record_errors), record_errors, [False] * len(values))


def _row(value: bytes, event: Event) -> _Row:
    job = event.job
    return (
        event.event_time,
        event.event_type,
        None if event.run is None else event.run.run_id,
        None if job is None else job.namespace,
        None if job is None else job.name,
        value,
    )
