"""What Debezium says of one change of a table, in JSON with or without its schema, as a row.

Guarantee: a value is in its column exactly as the database had it, or the record fails. Which values a change does not
hold because they were not changed (PostgreSQL keeps large ones apart, and does not log them again) is said by name.
"""

import base64
import binascii
import datetime
import decimal
import hashlib
import re
import uuid
from collections.abc import Callable, Collection, Mapping
from typing import Any, NamedTuple

import msgspec
import pyarrow as pa

PLACEHOLDER = "__debezium_unavailable_value"
"""What stands for a value that was not changed, and is not in the log of the database."""

KINDS = {"c": "insert", "r": "snapshot", "u": "update", "d": "delete", "t": "truncate"}

_AS_BASE64 = base64.b64encode(PLACEHOLDER.encode()).decode()
_AS_UUID = uuid.UUID(bytes=hashlib.md5(PLACEHOLDER.encode(), usedforsecurity=False).digest(), version=3)
_UNAVAILABLE = (
    PLACEHOLDER,
    _AS_BASE64,
    f'{{"{PLACEHOLDER}":"{PLACEHOLDER}"}}',
    [PLACEHOLDER],
    [_AS_BASE64],
    [str(_AS_UUID)],
    [*PLACEHOLDER.encode()],
    {PLACEHOLDER: PLACEHOLDER},
)
"""The same in each type: text and most others, bytes, hstore; arrays of texts, of bytes, of UUIDs, of whole numbers and
days; a map."""
_LENGTHS_UNAVAILABLE = frozenset(map(len, _UNAVAILABLE))
_SIZED = (str, list, dict)
_ARRAYS_WITH_PLACEHOLDER = {
    *("_TEXT", "_VARCHAR", "_BPCHAR", "_JSON", "_JSONB", "_BYTEA", "_INT4", "_INT8", "_DATE", "_UUID"),
}
_ITEMS_AS_THEY_ARE = {None, "io.debezium.time.Date", "io.debezium.data.Json", "io.debezium.data.Uuid"}
_NOTHINGS = ("", "{}", "1970-01-01T00:00:00Z")
_PER_US = {
    "io.debezium.time.Timestamp": (1000, 1),
    "org.apache.kafka.connect.data.Timestamp": (1000, 1),
    "io.debezium.time.MicroTimestamp": (1, 1),
    "io.debezium.time.NanoTimestamp": (1, 1000),
}
_DAYS = ("io.debezium.time.Date", "org.apache.kafka.connect.data.Date")
_WITHOUT_DIGITS = ("NaN", "Infinity", "-Infinity")
_DECIMAL = "org.apache.kafka.connect.data.Decimal"
_NAMED_TYPES = {
    **dict.fromkeys(_PER_US, "timestamp_ntz"),
    "io.debezium.time.IsoTimestamp": "timestamp_ntz",
    "io.debezium.time.ZonedTimestamp": "timestamp",
    "io.debezium.time.Date": "date",
    "io.debezium.time.IsoDate": "date",
    "org.apache.kafka.connect.data.Date": "date",
}
_TYPES = {
    **dict.fromkeys(("int8", "int16", "int32", "int64"), "bigint"),
    **dict.fromkeys(("float", "double"), "double"),
    "boolean": "boolean",
    "string": "string",
    "bytes": "binary",
}
_SOURCE_TYPE = "__debezium.source.column.type"
_SOURCE_LENGTH = "__debezium.source.column.length"
_SOURCE_SCALE = "__debezium.source.column.scale"
_WIDEST_DECIMAL = 38
_JAVA_ARRAY = re.compile(r"\[L[A-Za-z.]+;@[0-9a-f]+")
_BEYOND_MICROSECONDS = re.compile(r"\.\d{6}\d*[1-9]")
_EPOCH = datetime.date(1970, 1, 1)
_SCHEMAS_KEPT = 100


class NoChange(ValueError):
    """A record that is no change of a table."""


class _Source(msgspec.Struct):
    lsn: int | None = None
    ts_us: int | None = None
    ts_ms: int | None = None


class _Change(msgspec.Struct):
    op: str | None = None
    before: dict[str, Any] | None = None
    after: dict[str, Any] | None = None
    source: _Source | None = None
    ts_ms: int | None = None


class _Record(_Change):
    """With Connect's schemas the change is inside `payload`; without them it is the record itself."""

    schema: msgspec.Raw = msgspec.Raw(b"")
    payload: _Change | None = None


class Field(NamedTuple):
    """What Connect's schema says of one column beyond its type."""

    name: str | None
    scale: int | None
    type: str | None
    """The type of the column that would hold it, as in Spark SQL; None if no table has one."""
    inside: "Field | None" = None
    """The same of the items of an array, or the values of a map."""
    has_no_placeholder: bool = False
    """Whether Debezium writes null for a large value of this type that was not changed."""


class Change(NamedTuple):
    """One change of a table."""

    kind: str
    """insert, snapshot, update, delete or truncate."""
    values: Mapping[str, Any]
    """The row as it is after the change; of a deleted one, what is known of it: at least its key."""
    fields: Mapping[str, Field]
    """What the record's own schema says of the columns; empty if it has none."""
    at_us: int | None
    lsn: int | None
    has_before: bool
    """Whether the row as it was comes with it: the database logs whole rows."""


class Debezium:
    """Reads records; remembers the schemas that they bring."""

    def __init__(self) -> None:
        self._record = msgspec.json.Decoder(_Record, float_hook=decimal.Decimal).decode
        self._key = msgspec.json.Decoder(dict[str, Any]).decode
        self._schemas: dict[bytes, Mapping[str, Field]] = {}

    def read(self, value: bytes, key: bytes | None) -> Change | None:
        """Return the change; None for what changes no row, such as a message. Raise `NoChange` for anything else."""
        try:
            record = self._record(value)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            raise NoChange(f"this is not a change as Debezium writes it: {error}") from None
        change = record if record.payload is None else record.payload
        if change.op == "m":
            return None
        kind = KINDS.get(change.op or "")
        if kind is None:
            raise NoChange(f"this is not a change as Debezium writes it: its `op` is {change.op!r}")
        values = self._deleted(change.before, key) if kind == "delete" else change.after
        if values is None and kind != "truncate":
            raise NoChange(f"a change of the kind '{kind}' without a row")
        source = change.source or _Source()
        at_us = source.ts_us if source.ts_us is not None else _from_ms(source.ts_ms or change.ts_ms)
        return Change(kind, values or {}, self._fields(bytes(record.schema)), at_us, source.lsn, bool(change.before))

    def _deleted(self, before: dict[str, Any] | None, key: bytes | None) -> dict[str, Any] | None:
        """Return what is known of a deleted row: its key, if all else is what Debezium fills required columns with."""
        of_key = self._of_key(key)
        if before is None or of_key is None or not of_key.keys() <= before.keys():
            return of_key if before is None else before
        is_filled_in = all(_is_nothing(value) for name, value in before.items() if name not in of_key)
        return {name: before[name] for name in of_key} if is_filled_in else before

    def _of_key(self, key: bytes | None) -> dict[str, Any] | None:
        try:
            found = self._key(key or b"null")
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            return None
        payload = found.get("payload") if found.keys() == {"schema", "payload"} else found
        return payload if isinstance(payload, dict) else None

    def _fields(self, schema: bytes) -> Mapping[str, Field]:
        """Return what a schema says of the row's columns; each schema is read once."""
        if not schema or schema == b"null":
            return {}
        if schema not in self._schemas:
            if len(self._schemas) >= _SCHEMAS_KEPT:
                self._schemas.clear()
            self._schemas[schema] = _columns_in(schema)
        return self._schemas[schema]


def _columns_in(schema: bytes) -> dict[str, Field]:
    try:
        parts = msgspec.json.decode(schema).get("fields", [])
        rows = [each for each in parts if each.get("field") in {"after", "before"}]
        return {str(column["field"]): _field(column) for row in rows for column in row.get("fields", [])}
    except (msgspec.MsgspecError, AttributeError, TypeError, KeyError, ValueError):
        raise NoChange("the record's schema is none of Connect's") from None


def _field(schema: dict[str, Any]) -> Field:
    inside = schema.get("items") or schema.get("values")
    return Field(
        schema.get("name"),
        _scale(schema),
        column_type(schema),
        None if inside is None else _field(inside),
        _has_no_placeholder(schema),
    )


def _has_no_placeholder(schema: dict[str, Any]) -> bool:
    if schema.get("type") != "array":
        return schema.get("name") == "io.debezium.data.Bits"
    of_source, items = (schema.get("parameters") or {}).get(_SOURCE_TYPE), schema.get("items") or {}
    if of_source is not None:
        return of_source not in _ARRAYS_WITH_PLACEHOLDER
    return items.get("type") not in {"string", "bytes", "int32", "int64"} or items.get("name") not in _ITEMS_AS_THEY_ARE


def _is_nothing(value: Any) -> bool:
    """Return whether this is what stands in a required column of which nothing is known."""
    if isinstance(value, str) and value not in _NOTHINGS:
        try:
            return decimal.Decimal(value) == 0
        except decimal.InvalidOperation:
            return False
    return not value or value in _NOTHINGS


def _scale(column: dict[str, Any]) -> int | None:
    found = (column.get("parameters") or {}).get("scale")
    return None if found is None else int(found)


def column_type(schema: Mapping[str, Any]) -> str | None:
    """Return the type of a column for values of a schema of Connect's; None if no table has one.

    Whole numbers become `bigint` and others `double`, whatever their size: a column of the source that is widened later
    needs no other then.
    """
    kind, parameters = schema.get("type"), schema.get("parameters") or {}
    if (named := _NAMED_TYPES.get(schema.get("name") or "")) is not None:
        return named
    if schema.get("name") == _DECIMAL:
        return _decimal_type(parameters.get("connect.decimal.precision"), parameters.get("scale"))
    if kind == "string" and parameters.get(_SOURCE_TYPE) in {"NUMERIC", "DECIMAL"}:
        return _decimal_type(parameters.get(_SOURCE_LENGTH), parameters.get(_SOURCE_SCALE, 0)) or "string"
    if kind == "array":
        item = column_type(schema.get("items") or {})
        return None if item is None else f"array<{item}>"
    if kind == "map":
        item = column_type(schema.get("values") or {})
        return None if item is None else f"map<string, {item}>"
    return _TYPES.get(str(kind))


def _decimal_type(precision: Any, scale: Any) -> str | None:
    try:
        digits, behind = int(precision), int(scale)
    except (TypeError, ValueError):
        return None
    return f"decimal({digits},{behind})" if 0 <= behind <= digits <= _WIDEST_DECIMAL and digits else None


def _from_ms(at_ms: int | None) -> int | None:
    return None if at_ms is None else at_ms * 1000


def is_unavailable(value: Any) -> bool:
    """Return whether this stands for a value that was not changed."""
    return type(value) in _SIZED and len(value) in _LENGTHS_UNAVAILABLE and value in _UNAVAILABLE


def is_of_arrays(value: list[Any]) -> bool:
    """Return whether this is what Debezium makes of an array of arrays: nulls, or the addresses of Java's objects."""
    return bool(value) and all(
        each is None or (isinstance(each, str) and _JAVA_ARRAY.fullmatch(each) is not None) for each in value
    )


def passes_for_another(kind: pa.DataType, field: Field) -> bool:
    """Return whether a value of this field fits a column of this type by chance: bytes are base64 in JSON, as text is.

    So it is where a column of the source has got another type since the table has it.
    """
    if pa.types.is_list(kind):
        return field.inside is not None and passes_for_another(kind.value_type, field.inside)
    if pa.types.is_string(kind):
        return field.type == "binary" or field.name == _DECIMAL
    return bool(pa.types.is_binary(kind)) and field.type == "string"


Converter = Callable[[Any, Field | None], Any]
"""Turns a value of JSON into one of a column, with what the record's schema says of it."""


def converter(kind: pa.DataType) -> Converter | None:
    """Return what turns Debezium's values into those of a type; None if they are the same."""
    if pa.types.is_timestamp(kind):
        return _as_time
    if pa.types.is_date(kind):
        return _as_date
    if pa.types.is_decimal(kind):
        return _as_decimal
    if pa.types.is_floating(kind):
        return _as_float
    if pa.types.is_binary(kind):
        return _as_bytes
    if pa.types.is_list(kind):
        item = converter(kind.value_type)
        return None if item is None else lambda value, field: [_inside(item, each, field) for each in value]
    if pa.types.is_map(kind):
        of_map = converter(kind.item_type)
        return (
            None
            if of_map is None
            else lambda value, field: {name: _inside(of_map, each, field) for name, each in value.items()}
        )
    if pa.types.is_struct(kind):
        parts = {field.name: converter(field.type) for field in kind}
        return lambda value, _: {
            name: each if each is None or (part := parts.get(name)) is None else part(each, None)
            for name, each in value.items()
        }
    return None


def _inside(convert: Converter, value: Any, field: Field | None) -> Any:
    return None if value is None else convert(value, field.inside if field else None)


def _require_named(field: Field | None, value: Any, kinds: Collection[str], wanted: str) -> None:
    """Raise for a number that counts something else: days in a column of times would be another time."""
    if field is not None and field.name is not None and field.name not in kinds:
        raise ValueError(f"{value!r} of the type {field.name} is no {wanted}")
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError(f"{value!r} is no {wanted}")


def _as_time(value: Any, field: Field | None) -> Any:
    """Return a time. A number is in microseconds unless the schema says otherwise, as PostgreSQL's are by default."""
    if isinstance(value, str):
        if _BEYOND_MICROSECONDS.search(value):
            raise ValueError(f"{value} has digits beyond the microsecond")
        return datetime.datetime.fromisoformat(value)
    _require_named(field, value, _PER_US, "time")
    times, divisor = _PER_US.get(field.name or "" if field else "", (1, 1))
    found, rest = divmod(value * times, divisor)
    if rest:
        raise ValueError(f"{value} nanoseconds have digits beyond the microsecond")
    return found


def _as_date(value: Any, field: Field | None) -> datetime.date:
    """Return a day, which is a number of days since 1970, or written as ISO 8601 has it."""
    if isinstance(value, str):
        return datetime.date.fromisoformat(value.removesuffix("Z"))
    _require_named(field, value, _DAYS, "date")
    return _EPOCH + datetime.timedelta(days=value)


def _as_decimal(value: Any, field: Field | None) -> decimal.Decimal:
    """Return exact digits: of text, of bytes with a scale, or of a number."""
    if isinstance(value, dict):  # a number that brings its scale
        return _scaled(value["value"], int(value["scale"]))
    if isinstance(value, str) and field is not None and field.name == _DECIMAL:
        return _scaled(value, field.scale or 0)
    return decimal.Decimal(value)


def _as_float(value: Any, _field: Field | None) -> Any:
    """Return a number, which JSON has digits for, or a word that stands for one without digits."""
    if isinstance(value, decimal.Decimal) or value in _WITHOUT_DIGITS:
        return float(value)
    return value


def _scaled(text: str, scale: int) -> decimal.Decimal:
    # As text, which is taken as it is: what is calculated has 28 digits at most.
    return decimal.Decimal(f"{int.from_bytes(_as_bytes(text, None), 'big', signed=True)}e{-scale}")


def _as_bytes(value: Any, _field: Field | None) -> bytes:
    try:
        return base64.b64decode(value, validate=True)
    except (binascii.Error, TypeError) as error:
        raise ValueError(f"no base64: {error}") from None
