"""Values that name the registry schema that they were written with: each is decoded with that schema.

Guarantee: a value becomes a row, or fails by itself with the reason: it names no schema, the registry does not know the
one that it names, or its bytes do not fit that. A registry that does not answer is an outage, not a failure of values.
"""

from collections.abc import Callable, Sequence
from typing import Protocol

import pyarrow as pa

from penstock.errors import NotFound
from penstock.record.decoded import Decoded, RecordError, record_error
from penstock.schemas.wire import FRAME_BYTES, UnframedError, schema_id_of

UNUSABLE = (ValueError, TypeError, LookupError, AttributeError, ArithmeticError, RecursionError)
"""What opening a schema can raise: anybody may have registered it, and registries check little."""


def why_unusable(error: Exception) -> str:
    """Return what is wrong with a schema; by Python's own word for it if it is odder than we thought of."""
    return str(error) if isinstance(error, ValueError) else f"{type(error).__name__}: {error}"


class Payloads(Protocol):
    """Decodes values that were written with one schema."""

    def decode(self, payloads: Sequence[bytes], /) -> tuple[list[pa.Array], list[RecordError | None]]:
        """Return the wanted columns, and an error for each payload that is none."""


class RegisteredDecoder:
    """Decodes many values at once, those of each schema together."""

    def __init__(
        self, schema: pa.Schema, opened: Callable[[int], Payloads], *, drops_tombstones: bool, max_record_bytes: int
    ) -> None:
        self._schema = schema
        self._opened = opened
        self._tombstone = None if drops_tombstones else record_error("Tombstone", "the value is null")
        self._max_bytes = max_record_bytes
        self._known: dict[int, Payloads | RecordError] = {}

    def decode(self, values: Sequence[bytes | None], /) -> Decoded:
        """Return the columns, an error for each failed value, and which values to drop."""
        alike = self._alike(values)
        if alike is not None:
            columns, failures = alike.decode([value[FRAME_BYTES:] for value in values])  # type: ignore[index]  # no null
            return Decoded(columns, failures, [False] * len(values))
        record_errors: list[RecordError | None] = [None] * len(values)
        dropped = [False] * len(values)
        by_frame: dict[bytes, list[int]] = {}
        for number, value in enumerate(values):
            if value is None:
                record_errors[number], dropped[number] = self._tombstone, self._tombstone is None
            elif len(value) > self._max_bytes:
                text = f"{len(value)} bytes, at most {self._max_bytes} are accepted"
                record_errors[number] = record_error("TooLarge", text)
            else:
                by_frame.setdefault(value[:FRAME_BYTES], []).append(number)
        parts: list[list[pa.Array]] = []
        order: list[int] = []
        for frame, numbers in by_frame.items():
            payloads = self._payloads(frame)
            if isinstance(payloads, dict):
                for number in numbers:
                    record_errors[number] = payloads
                continue
            columns, failures = payloads.decode([(values[number] or b"")[FRAME_BYTES:] for number in numbers])
            for number, failure in zip(numbers, failures, strict=True):
                record_errors[number] = failure
            parts.append(columns)
            order += numbers
        return Decoded(in_order(self._schema, parts, order, len(values)), record_errors, dropped)

    def _alike(self, values: Sequence[bytes | None]) -> Payloads | None:
        """Return what decodes all of these values; None if one is of another schema, null, or too large."""
        try:
            frames = {value[:FRAME_BYTES] for value in values}  # type: ignore[index]  # of a null it is a TypeError
            if len(frames) != 1 or max(map(len, values)) > self._max_bytes:  # type: ignore[arg-type]
                return None
        except TypeError:
            return None
        payloads = self._payloads(*frames)
        return None if isinstance(payloads, dict) else payloads

    def _payloads(self, frame: bytes) -> Payloads | RecordError:
        """Return the decoder of values behind an id, or what is wrong with the id."""
        try:
            schema_id = schema_id_of(frame)
        except UnframedError as error:
            return record_error(error.error, str(error))
        if schema_id not in self._known:
            try:
                self._known[schema_id] = self._opened(schema_id)
            except NotFound:
                text = f"the registry does not know the schema {schema_id}"
                self._known[schema_id] = record_error("UnknownSchema", text)
            except UNUSABLE as error:
                self._known[schema_id] = record_error("UnusableSchema", f"schema {schema_id}: {why_unusable(error)}")
        return self._known[schema_id]


def in_order(schema: pa.Schema, parts: list[list[pa.Array]], order: list[int], count: int) -> list[pa.Array]:
    """Put the rows of all parts where their values were, as `order` says; null where there is no row."""
    if not parts:
        return [pa.nulls(count, field.type) for field in schema]
    if len(parts) == 1 and len(order) == count:
        return parts[0]
    at: list[int | None] = [None] * count
    for row, number in enumerate(order):
        at[number] = row
    rows = pa.array(at, pa.int64())
    return [pa.concat_arrays(arrays).take(rows) for arrays in zip(*parts, strict=True)]
