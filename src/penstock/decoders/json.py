"""JSON objects, checked against the schema.

Guarantee: a record either becomes a row of exactly the schema's types, or fails with the reason. What fails: bytes that
are not JSON, text after the closing brace, anything but an object, a wrong type, a number out of range, a required
field that is missing or null, a record that is empty, too large or too deep. A field that is missing and not required
is null. If a key occurs twice, the last one counts.

Three things are accepted, unless `strict` says that they fail: a time without a zone in a column with
one is UTC, a time is rounded to microseconds, and an integer in a `double` or `float` becomes the nearest number that
there is. A number with a decimal point always becomes the nearest one. Nothing else is coerced, cut or guessed.

The text of fields that the schema does not name is not checked. A decimal may stand in quotation marks, and is then
read as Python reads it: "1_0" is 10. A time with a zone does not fit a column without one.
"""

import datetime
import decimal
import itertools
import re
import typing
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

import msgspec
import pyarrow as pa
from pydantic import Field, PrivateAttr, ValidationInfo, field_validator

from penstock.config.problem import PipelineView, Problem
from penstock.decoders.decoder import Decoder, DecoderContext, DecoderModel, SparkDecoding
from penstock.decoders.exactly import exact, exact_type
from penstock.quantities import SizeBytes
from penstock.record.decoded import FLOAT_END, Decoded, RecordError, arrays_of, record_error
from penstock.record.schema import parse
from penstock.schemas.registry import NamedRegistry

if TYPE_CHECKING:
    from penstock.decoders.json_by_registry import JsonByRegistry

_RANGES = {
    pa.int8(): (-(2**7), 2**7 - 1),
    pa.int16(): (-(2**15), 2**15 - 1),
    pa.int32(): (-(2**31), 2**31 - 1),
    pa.int64(): (-(2**63), 2**63 - 1),
}
_STRING = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"?', re.DOTALL)
"""A string, closed or not. Nothing in it goes back, so that no record can make it slow."""
_LIST = ord("[")
_STEPS = {ord("{"): 1, ord("["): 1, ord("}"): -1, ord("]"): -1}
_NO_BRACKETS = bytes(byte for byte in range(256) if byte not in _STEPS)
_NO_KEY = re.compile(r'["\\\x00-\x1f]')


class Json(DecoderModel, frozen=True):
    """Each value is one JSON object."""

    type: Literal["json"] = Field("json", description="JSON objects.")
    registry: NamedRegistry | None = Field(
        None,
        description="Schema registry whose ids stand in front of the values, `project` for that of the project; without"
        " it they are plain JSON.",
    )
    subject: str | None = Field(
        None, min_length=1, description="Subject whose schemas give the columns; `TOPIC-value` if left out."
    )
    columns: str = Field(
        alias="schema",
        description="Columns as in Spark SQL: `id bigint NOT NULL, at timestamp, tags array<string>`; with a registry"
        " also `registry`, and the columns follow the subject's schemas.",
        examples=["id bigint NOT NULL, at timestamp"],
    )
    unknown_fields: Literal["ignore", "dead_letter"] = Field(
        "ignore", description="What happens to a record with fields that the schema does not name."
    )
    tombstones: Literal["dead_letter", "drop"] = Field(
        "dead_letter", description="What happens to a record whose value is null, as compacted topics have them."
    )
    strict: bool = Field(
        default=False,
        description="Fail a time without a zone in a column with one, digits beyond the microsecond, and an integer"
        " that a `double` or `float` cannot hold, instead of taking UTC and the nearest.",
    )
    max_record_bytes: SizeBytes = Field(10_000_000, gt=0, description="A larger record fails.")
    max_depth: int = Field(64, ge=1, le=500, description="A record with brackets nested deeper than this fails.")

    _by_registry: "JsonByRegistry | None" = PrivateAttr(None)

    @field_validator("subject")
    @classmethod
    def _subject_is_of_a_registry(cls, value: str | None, info: ValidationInfo) -> str | None:
        if value is not None and info.data.get("registry") is None:
            raise ValueError("a subject belongs to a `registry`")
        return value

    @field_validator("columns")
    @classmethod
    def _schema_is_understood(cls, value: str, info: ValidationInfo) -> str:
        if info.data.get("registry") is None or value != "registry":
            _structure("event", parse(value), forbid=False, strict=False)
        return value

    def _in_registry(self) -> "JsonByRegistry":
        from penstock.decoders.json_by_registry import JsonByRegistry

        return self._by_registry or JsonByRegistry.of(self)

    @property
    def arrow_schema(self) -> pa.Schema | None:
        """The columns that decoding gives; None before the registry was asked."""
        return parse(self.columns) if self.registry is None else self._in_registry().arrow_schema

    def resolved(self, topics: Sequence[str]) -> Self:
        """Return the decoder with its columns."""
        if self.registry is None:
            return self
        resolved = self.model_copy()
        resolved._by_registry = self._in_registry().resolved(topics)  # noqa: SLF001 - of the same class
        return resolved

    @property
    def can_drop(self) -> bool:
        """Whether tombstones are dropped."""
        return self.tombstones == "drop"

    @property
    def in_spark(self) -> SparkDecoding | None:
        """How Spark's own expressions do the same; they know no registry."""
        return SparkDecoding(self.tombstones, json_schema=self.columns) if self.registry is None else None

    def problems(self, pipeline: PipelineView) -> Iterator[Problem]:
        """Find what Spark's own expressions do differently."""
        if self.registry is not None:
            yield from self._in_registry().problems(pipeline)
        if pipeline.speed == "realtime":
            if self.unknown_fields != "ignore":
                yield Problem.error("in real time unknown fields are ignored", "unknown_fields")
            text = "in real time Spark's from_json reads it, which ignores text behind the closing brace"
            yield Problem.warning(text, "type")

    def open(self, context: DecoderContext) -> Decoder:
        """Return the decoder; one per task."""
        return JsonDecoder(self, parse(self.columns)) if self.registry is None else self._in_registry().open(context)


class JsonDecoder:
    """Decodes many values at once."""

    def __init__(self, spec: Json, schema: pa.Schema) -> None:
        self._schema = schema
        self._max_bytes = spec.max_record_bytes
        self._max_depth = spec.max_depth
        self._tombstone = None if spec.tombstones == "drop" else record_error("Tombstone", "the value is null")
        event = _structure("event", self._schema, forbid=spec.unknown_fields == "dead_letter", strict=spec.strict)
        self._decode = msgspec.json.Decoder(event, dec_hook=exact).decode
        self._blank = event(**dict.fromkeys(event.__struct_fields__))

    def decode(self, values: Sequence[bytes | None]) -> Decoded:
        """Return the columns, an error for each failed value, and which values to drop."""
        events: list[Any] = []
        record_errors: list[RecordError | None] = [None] * len(values)
        dropped = [False] * len(values)
        refused = self._refused(values)
        asked: Sequence[Any] = values
        if refused:
            asked = [b"" if number in refused else value for number, value in enumerate(values)]
        answers = map(self._decode, asked)
        while len(events) < len(values):
            try:
                events.extend(answers)  # up to the first that fails, without a step in Python for each
            except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
                number = len(events)
                if number in refused:
                    record_errors[number], dropped[number] = refused[number], refused[number] is None
                else:
                    record_errors[number] = _problem(values[number], error)
                events.append(self._blank)
        by_column = zip(*map(msgspec.structs.astuple, events), strict=True) if events else [()] * len(self._schema)
        return Decoded(arrays_of(self._schema, by_column, record_errors), record_errors, dropped)

    def _refused(self, values: Sequence[bytes | None]) -> dict[int, RecordError | None]:
        """Find the values that are not decoded, each with the reason; those without a reason are dropped."""
        refused: dict[int, RecordError | None] = {}
        for number, value in enumerate(values):
            if value is None:
                refused[number] = self._tombstone
            elif len(value) > self._max_bytes:
                refused[number] = record_error(
                    "TooLarge", f"{len(value)} bytes, at most {self._max_bytes} are accepted"
                )
            # Most values are one object with nothing nested in it, which is sooner seen than brackets are counted; and
            # a byte is sooner found as a number than as bytes.
            elif (
                (_LIST in value or value.rfind(b"{") > 0)
                and value.count(b"{") + value.count(b"[") > self._max_depth
                and _depth(value) > self._max_depth
            ):
                refused[number] = record_error("TooDeep", f"brackets nested deeper than {self._max_depth}")
        return refused


def _problem(value: bytes | None, error: Exception) -> RecordError:
    if isinstance(error, msgspec.ValidationError):
        return record_error("SchemaMismatch", str(error))
    if not (value or b"").strip():
        return record_error("EmptyValue", "the value is only white space")
    return record_error("Malformed", str(error))


def _depth(value: bytes) -> int:
    """Measure how deep brackets nest; those inside strings do not count."""
    brackets = _STRING.sub(b"", value).translate(None, _NO_BRACKETS)
    return max(itertools.accumulate(map(_STEPS.__getitem__, brackets)), default=0)


def _structure(name: str, fields: pa.Schema | pa.StructType, *, forbid: bool, strict: bool) -> type[msgspec.Struct]:
    """Make the type that msgspec validates against.

    Fields get neutral names, because a JSON key need not be an identifier.
    """
    listed = [
        fields.field(index) for index in range(len(fields) if isinstance(fields, pa.Schema) else fields.num_fields)
    ]
    definitions: list[tuple[str, Any] | tuple[str, Any, Any]] = []
    for index, field in enumerate(listed):
        if _NO_KEY.search(field.name):
            raise ValueError(f"'{field.name}': quotation marks, backslashes and control characters cannot be in a name")
        kind = _python_type(f"{name}_{index}", field.type, forbid=forbid, strict=strict)
        if field.nullable:
            definitions.append((f"f{index}", typing.Optional[kind], None))  # noqa: UP045 - built at run time
        else:
            definitions.append((f"f{index}", kind))
    return msgspec.defstruct(
        name,
        definitions,
        rename={f"f{index}": field.name for index, field in enumerate(listed)},
        kw_only=True,
        forbid_unknown_fields=forbid,
        gc=False,
    )


def _python_type(name: str, kind: pa.DataType, *, forbid: bool, strict: bool) -> Any:
    if strict and (exactly := exact_type(kind)) is not None:
        return exactly
    if kind in _RANGES:
        low, high = _RANGES[kind]
        return Annotated[int, msgspec.Meta(ge=low, le=high)]
    simple: dict[pa.DataType, Any] = {
        pa.string(): str,
        pa.bool_(): bool,
        pa.float32(): Annotated[float, msgspec.Meta(gt=-FLOAT_END, lt=FLOAT_END)],
        pa.float64(): float,
        pa.binary(): bytes,
        pa.date32(): datetime.date,
    }
    if kind in simple:
        return simple[kind]
    if pa.types.is_timestamp(kind):
        return datetime.datetime if kind.tz else Annotated[datetime.datetime, msgspec.Meta(tz=False)]
    if pa.types.is_decimal(kind):
        return decimal.Decimal
    if pa.types.is_list(kind):
        return list[typing.Optional[_python_type(f"{name}_item", kind.value_type, forbid=forbid, strict=strict)]]  # type: ignore[misc]  # noqa: UP045
    if pa.types.is_map(kind):
        return dict[str, typing.Optional[_python_type(f"{name}_item", kind.item_type, forbid=forbid, strict=strict)]]  # type: ignore[misc]  # noqa: UP045
    return _structure(name, kind, forbid=forbid, strict=strict)
