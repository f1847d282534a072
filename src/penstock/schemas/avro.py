"""Avro: schemas with what they refer to, and single values to bytes and back."""

import io
import re
from collections.abc import Iterable
from typing import Any

import orjson

from penstock.errors import BadInput
from penstock.extras import require
from penstock.schemas.avro_bounds import AvroBounds
from penstock.schemas.avro_values import misfit
from penstock.schemas.schema import Schema

_AS_THEY_ARE = frozenset(
    {
        *("date", "time-millis", "time-micros", "uuid", "duration"),
        *("timestamp-millis", "timestamp-micros", "timestamp-nanos"),
        *("local-timestamp-millis", "local-timestamp-micros", "local-timestamp-nanos"),
    }
)
"""Logical types that are read as the numbers, bytes and texts which they stand on: columns are made of those."""


_NO_SCHEMA = (TypeError, ValueError, LookupError, AttributeError, RecursionError)
_ADDRESS = re.compile(r" from <[^<>]* object at 0x[0-9a-f]+>")


class AvroSchema:
    """A parsed schema. Names in it are whole, with their namespace."""

    def __init__(self, schema: Schema, referred: Iterable[Schema] = ()) -> None:
        require("schemas", "Avro")
        import fastavro

        self.named: dict[str, Any] = {}
        try:
            self._written = [_read(each.text) for each in (*referred, schema)]
            self.parsed = _parsed(self._written, self.named)
            self.bounds = AvroBounds(self.parsed, self.named)
        except (*_NO_SCHEMA, fastavro.schema.SchemaParseException, fastavro.schema.UnknownType) as error:
            raise BadInput(f"this is not an Avro schema: {in_words(error)}") from None

    @property
    def name(self) -> str:
        """The whole name of the record; the type's own name if it is none."""
        if isinstance(self.parsed, dict):
            return str(self.parsed.get("name") or self.parsed["type"])
        return self.parsed if isinstance(self.parsed, str) else "union"

    def plain(self) -> Any:
        """Return the schema for reading, with numbers where times and dates stand."""
        return _parsed(map(_without_logic, self._written), {})

    def encode(self, value: Any) -> bytes:
        """Return the bytes of a value; raise `ValueError` that says which part does not fit."""
        import fastavro

        if (why := misfit(value, self.parsed, self.named)) is not None:
            raise ValueError(why)
        written = io.BytesIO()
        try:
            fastavro.schemaless_writer(written, self.parsed, value)
        except (TypeError, ValueError, OverflowError, KeyError, AttributeError) as error:
            raise ValueError(in_words(error)) from None
        return written.getvalue()

    def decode(self, payload: bytes) -> Any:
        """Return the value in these bytes, all of them; raise `ValueError` if they are not of this schema."""
        import fastavro

        source = io.BytesIO(payload)
        try:
            self.bounds.require(payload)
            value = fastavro.schemaless_reader(source, self.parsed, None)
        except UNREADABLE as error:
            raise ValueError(f"the bytes do not fit the schema '{self.name}': {in_words(error)}") from None
        if rest := len(payload) - source.tell():
            raise ValueError(f"{rest} bytes are left after a record of the schema '{self.name}'")
        return value


UNREADABLE = (EOFError, ValueError, TypeError, KeyError, IndexError, OverflowError, StopIteration, ArithmeticError)
"""What reading bytes that are no such record can raise."""


def _read(text: str) -> Any:
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:
        if text.isidentifier():  # "string" stands for itself
            return text
        raise


def _parsed(written: Iterable[Any], named: dict[str, Any]) -> Any:
    """Parse schemas, each of which may name those before it; return the last."""
    import fastavro

    parsed = None
    for each in written:
        parsed = fastavro.parse_schema(each, named)
    return parsed


def in_words(error: Exception) -> str:
    """Return what went wrong, the same each time: fastavro names the object that it reads from, by its address."""
    return _ADDRESS.sub("", str(error)) or type(error).__name__


def _without_logic(schema: Any) -> Any:
    """Return a schema that gives numbers for times; decimals stay what they are."""
    if isinstance(schema, list):
        return [_without_logic(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    plain = dict(schema)
    if plain.get("logicalType") in _AS_THEY_ARE:
        del plain["logicalType"]
    for name in ("type", "items", "values"):
        if name in plain:
            plain[name] = _without_logic(plain[name])
    if isinstance(plain.get("fields"), list):
        plain["fields"] = [_without_logic(field) for field in plain["fields"]]
    return plain
