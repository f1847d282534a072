"""The lineage sink for the conformance suite: each row becomes an event that says of itself which row it is."""

import uuid
from dataclasses import dataclass
from typing import Any

import orjson
import pyarrow as pa
from sqlalchemy import select

from penstock.lineage.sink import Lineage
from penstock.lineage.stager import EVENT
from penstock.lineage.store import tables
from penstock.lineage.store.address import StoreAddress
from penstock.lineage.store.database import open_engine
from penstock.lineage.store.landing import LineageSink
from penstock.record.decoded import RecordError
from penstock.record.positions import OffsetRange
from penstock.sinks.sink import SinkContext, Stager, StagerFactory
from penstock.testing.sink_conformance import Landed

# So long ago that no partition is made for it, and every commit has as many lines as the first.
_EVENT = (
    b'{"eventTime": "1990-03-01T12:00:00Z", "eventType": "COMPLETE", "run": {"runId": "%s", "facets": {"row":'
    b' {"partition": %d, "offset": %d, "id": %d, "text": "%s"}}}, "job": {"namespace": "suite", "name": "conformance"}}'
)


class RowsAsEvents(Lineage, frozen=True):
    """The model."""

    def open(self, context: SinkContext) -> "RowsAsEventsSink":
        return RowsAsEventsSink(self, context.name, context.pipeline, context.scratch / context.name)


class RowsAsEventsSink(LineageSink):
    def open(self, schema: pa.Schema) -> None:
        super().open(schema.append(pa.field(EVENT, pa.binary())))

    def stager(self) -> "RowsAsEventsStagers":  # type: ignore[override]
        return RowsAsEventsStagers(super().stager())


@dataclass(frozen=True)
class RowsAsEventsStagers:
    inner: StagerFactory

    def __call__(self, offset_range: OffsetRange) -> "RowsAsEventsStager":
        return RowsAsEventsStager(self.inner(offset_range))


class RowsAsEventsStager:
    def __init__(self, inner: Stager) -> None:
        self._inner = inner
        self.finish = inner.finish

    def write(self, rows: pa.RecordBatch, offsets: pa.Array) -> list[tuple[int, RecordError]]:
        texts = rows.column("text").view(pa.binary())
        named = zip(*(rows.column(name).to_pylist() for name in ("_partition", "_offset", "id")), texts, strict=True)
        events = [
            _EVENT % (str(_run_id(partition, offset)).encode(), partition, offset, number, text.as_py())
            for partition, offset, number, text in named
        ]
        return self._inner.write(rows.append_column(EVENT, pa.array(events, pa.binary())), offsets)


def _run_id(partition: int, offset: int) -> uuid.UUID:
    return uuid.uuid5(uuid.NAMESPACE_OID, f"{partition}/{offset}")


def landed(address: StoreAddress) -> list[Landed]:
    """Return the rows whose runs are in the store."""
    engine = open_engine(address)
    runs, facets = tables.run, tables.run_facet
    with engine.connect() as connection:
        found = connection.execute(select(facets.c.value).join(runs, runs.c.id == facets.c.run_id)).scalars().all()
    engine.dispose()
    rows: list[dict[str, Any]] = [orjson.loads(each) for each in found]
    return [Landed(row["partition"], row["offset"], row["id"], row["text"]) for row in rows]
