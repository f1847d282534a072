"""Bytes unchanged, as one column named `value`.

Guarantee: bytes are not inspected, so only a record that is too large fails, or a null where nulls are not wanted.
"""

from collections.abc import Sequence
from typing import Literal

import pyarrow as pa
from pydantic import Field

from penstock.decoders.decoder import DecoderContext, DecoderModel, SparkDecoding
from penstock.quantities import SizeBytes
from penstock.record.decoded import Decoded, RecordError, record_error


class Raw(DecoderModel, frozen=True):
    """Each value is bytes; it becomes the column `value`."""

    type: Literal["raw"] = Field("raw", description="Bytes, not looked at.")
    tombstones: Literal["dead_letter", "drop", "keep"] = Field(
        "keep", description="What happens to a record whose value is null, as compacted topics have them."
    )
    max_record_bytes: SizeBytes = Field(10_000_000, gt=0, description="A larger record fails.")

    @property
    def arrow_schema(self) -> pa.Schema:
        """The columns that decoding gives."""
        return pa.schema([("value", pa.binary())])

    @property
    def can_drop(self) -> bool:
        """Whether tombstones are dropped."""
        return self.tombstones == "drop"

    @property
    def in_spark(self) -> SparkDecoding:
        """How Spark's own expressions do the same."""
        return SparkDecoding(self.tombstones)

    def open(self, context: DecoderContext) -> "RawDecoder":  # noqa: ARG002 - it needs nothing
        """Return the decoder; one per task."""
        return RawDecoder(self)


class RawDecoder:
    """Decodes many values at once."""

    def __init__(self, spec: Raw) -> None:
        self._spec = spec

    def decode(self, values: Sequence[bytes | None]) -> Decoded:
        """Return the column, an error for each failed value, and which values to drop."""
        dropped = [value is None and self._spec.tombstones == "drop" for value in values]
        return Decoded([pa.array(values, pa.binary())], [self._record_error(value) for value in values], dropped)

    def _record_error(self, value: bytes | None) -> RecordError | None:
        if value is None:
            return record_error("Tombstone", "the value is null") if self._spec.tombstones == "dead_letter" else None
        if len(value) > self._spec.max_record_bytes:
            return record_error("TooLarge", f"{len(value)} bytes, at most {self._spec.max_record_bytes} are accepted")
        return None
