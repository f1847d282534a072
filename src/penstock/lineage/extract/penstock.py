"""Penstock: a pipeline is a job, a driver's life is its run, and each batch is an operation of that run."""

import datetime

import msgspec

from penstock.lineage.extract import facets
from penstock.lineage.extract.producer import Enclosing, OperationDetails, Producer, Reading, of_parent


class _Batch(msgspec.Struct, frozen=True, gc=False):
    batch: facets.Count


_decoder = msgspec.json.Decoder(_Batch)


class Penstock(Producer):
    """Our own pipelines. The facet `penstock_batch` is kept as it came: it has the offsets of each batch."""

    def is_operation(self, reading: Reading) -> bool:
        """Return whether it is a batch."""
        return reading.job_type == "BATCH"

    def enclosing(self, reading: Reading) -> Enclosing | None:
        """Return the driver's run, whose own events say what kind of job it is."""
        return None if reading.parent is None else of_parent(reading.parent, None)

    def operation_details(self, reading: Reading) -> OperationDetails:
        """Return the number of the batch."""
        facet = (reading.event.run.facets or {}).get("penstock_batch") if reading.event.run is not None else None
        try:
            number = None if facet is None else _decoder.decode(facet).batch
        except msgspec.MsgspecError:
            number = None
        return {"name": reading.job_name, "position": number}

    def began(self, reading: Reading) -> datetime.datetime | None:
        """Return the time in the id: a batch is reported once, when it is done."""
        return reading.created_at if self.is_operation(reading) else None
