"""UTF-8 text, one column named `text`.

Guarantee: the text is the value's bytes, unchanged; bytes that are not UTF-8 fail.
"""

from collections.abc import Sequence
from typing import Literal

import pyarrow as pa
from pydantic import Field

from penstock.decoders.decoder import DecoderContext, DecoderModel, SparkDecoding
from penstock.quantities import SizeBytes
from penstock.record.decoded import Decoded, RecordError, columns_of, record_error


class Text(DecoderModel, frozen=True):
    """Each value is text; it becomes the column `text`."""

    type: Literal["text"] = Field("text", description="UTF-8 text.")
    tombstones: Literal["dead_letter", "drop"] = Field(
        "dead_letter", description="What happens to a record whose value is null, as compacted topics have them."
    )
    max_record_bytes: SizeBytes = Field(10_000_000, gt=0, description="A larger record fails.")

    @property
    def arrow_schema(self) -> pa.Schema:
        """The columns that decoding gives."""
        return pa.schema([("text", pa.string())])

    @property
    def can_drop(self) -> bool:
        """Whether tombstones are dropped."""
        return self.tombstones == "drop"

    @property
    def in_spark(self) -> SparkDecoding:
        """How Spark's own expressions do the same."""
        return SparkDecoding(self.tombstones, cast="string")

    def open(self, context: DecoderContext) -> "TextDecoder":  # noqa: ARG002 - it needs nothing
        """Return the decoder; one per task."""
        return TextDecoder(self)


class TextDecoder:
    """Decodes many values at once."""

    def __init__(self, spec: Text) -> None:
        self._spec = spec
        self._tombstone = None if spec.tombstones == "drop" else record_error("Tombstone", "the value is null")

    def decode(self, values: Sequence[bytes | None]) -> Decoded:
        """Return the columns, an error for each failed value, and which values to drop."""
        found = [self._one(value) for value in values]
        dropped = [value is None and self._tombstone is None for value in values]
        return columns_of(
            self._spec.arrow_schema, [row for row, _ in found], [problem for _, problem in found], dropped
        )

    def _one(self, value: bytes | None) -> tuple[tuple[str | None], RecordError | None]:
        if value is None:
            return (None,), self._tombstone
        if len(value) > self._spec.max_record_bytes:
            return (None,), record_error(
                "TooLarge", f"{len(value)} bytes, at most {self._spec.max_record_bytes} are accepted"
            )
        try:
            return (value.decode(),), None
        except UnicodeDecodeError as error:
            return (None,), record_error("Malformed", f"not UTF-8: {error.reason} at byte {error.start}")
