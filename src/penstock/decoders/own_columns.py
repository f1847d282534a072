"""What was written with one schema, as the columns of that schema and then as those that are wanted."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from penstock.decoders.columns import Column, arrow_schema_of
from penstock.decoders.fitting import fit
from penstock.decoders.vectors import Chunk, Offsets
from penstock.record.decoded import RecordError


class Vectors(Protocol):
    """Reads many payloads of one schema at once."""

    def read(self, chunk: Chunk, /) -> list[pa.Array]:
        """Return the schema's columns; payloads that it cannot read are marked as odd in the chunk."""


class OwnColumns(ABC):
    """Decodes payloads of one schema: all at once if possible, and otherwise one by one."""

    def __init__(self, own: Sequence[Column], wanted: Sequence[Column], vectors: Vectors | None) -> None:
        self._own_columns = own
        self.own_schema = arrow_schema_of(own)
        self._wanted = wanted
        self._vectors = vectors

    def decode(self, payloads: Sequence[bytes]) -> tuple[list[pa.Array], list[RecordError | None]]:
        """Return the wanted columns, and an error for each payload that does not fit the schema or them."""
        if self._vectors is None or not payloads or not Chunk.holds(payloads):
            own, record_errors = self.one_by_one(payloads)
            if any(record_errors):
                own = _taken(own, np.arange(len(payloads)), [each is not None for each in record_errors])
        else:
            chunk = Chunk(payloads)
            own, record_errors = self._vectors.read(chunk), [None] * len(payloads)
            if chunk.odd.any():
                own = self._without_odd(own, np.flatnonzero(chunk.odd), payloads, record_errors)
        return fit(self._own_columns, own, self._wanted, record_errors), record_errors

    def _without_odd(
        self,
        own: list[pa.Array],
        odd: Offsets,
        payloads: Sequence[bytes],
        record_errors: list[RecordError | None],
    ) -> list[pa.Array]:
        """Return the columns with what comes of reading the odd ones alone; what is wrong with them is noted."""
        alone, failures = self.one_by_one([payloads[number] for number in odd])
        rows, failed = np.arange(len(payloads)), np.zeros(len(payloads), bool)
        for place, (number, failure) in enumerate(zip(odd, failures, strict=True)):
            record_errors[number], failed[number] = failure, failure is not None
            rows[number] = len(payloads) + place
        return _taken([pa.concat_arrays(both) for both in zip(own, alone, strict=True)], rows, failed)

    @abstractmethod
    def one_by_one(self, payloads: Sequence[bytes]) -> tuple[list[pa.Array], list[RecordError | None]]:
        """Return the schema's columns, and an error for each payload that does not fit it."""


def _taken(columns: list[pa.Array], rows: Offsets, failed: Any) -> list[pa.Array]:
    """Return these rows of the columns, null for those that have failed."""
    taken = pa.array(rows, mask=np.asarray(failed))
    return [each.take(taken) for each in columns]
