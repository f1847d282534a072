"""The columns of an Avro schema, and how a column's values are made from what the Avro reader returns."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any

import pyarrow as pa

from penstock.decoders.columns import REQUIRED, Column
from penstock.schemas.avro import AvroSchema

_SIMPLE = {
    "null": pa.string(),
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "bytes": pa.binary(),
    "string": pa.string(),
    "enum": pa.string(),
    "fixed": pa.binary(),
}
_LOGICAL = {
    ("int", "date"): pa.date32(),
    ("long", "timestamp-millis"): pa.timestamp("ms", tz="UTC"),
    ("long", "timestamp-micros"): pa.timestamp("us", tz="UTC"),
    ("long", "timestamp-nanos"): pa.timestamp("ns", tz="UTC"),
    ("long", "local-timestamp-millis"): pa.timestamp("ms"),
    ("long", "local-timestamp-micros"): pa.timestamp("us"),
    ("long", "local-timestamp-nanos"): pa.timestamp("ns"),
}
_WIDEST_DECIMAL = 38
_WIDER = {"int": "long", "float": "double"}
_PER_US = {"millis": (1000, 1), "nanos": (1, 1000)}
_PYTHON = {bool: "boolean", int: "long", float: "double", str: "string", bytes: "bytes", list: "array", dict: "map"}

Convert = Callable[[Any], Any]


@dataclass(frozen=True)
class AvroColumns:
    """The columns of a schema, as its bytes hold them: a time in milliseconds is one here."""

    columns: tuple[Column, ...]
    converts: tuple[Convert | None, ...]
    """Converts a value to what Arrow accepts; None if no conversion is needed."""
    has_choices: bool
    """Whether there is a union of several types, so that reading has to tell which."""
    is_record: bool
    """Whether the schema is a record; if not, its value is the one column `value`."""


def avro_columns(schema: AvroSchema) -> AvroColumns:
    """Return the columns of a schema; raise `ValueError` for a type that no table has."""
    if schema.bounds.is_too_wide:
        raise ValueError("it has more parts than any table, with all that it names")
    parsed = _definition(schema.parsed, schema.named)
    is_record = _kind(parsed) in {"record", "error"}
    fields = parsed["fields"] if is_record else [{"name": "value", "type": schema.parsed}]
    above = frozenset({parsed["name"]}) if is_record else frozenset[str]()
    reading = _Reading(schema.named)
    columns = tuple(reading.field(field, above) for field in fields)
    converts = tuple(reading.convert(field["type"]) if reading.has_choices else None for field in fields)
    return AvroColumns(columns, converts, reading.has_choices, is_record)


class _Reading:
    """One walk through a schema."""

    def __init__(self, named: dict[str, Any]) -> None:
        self._named = named
        self.has_choices = False

    def field(self, field: dict[str, Any], above: frozenset[str]) -> Column:
        column = self.column(field["name"], field["type"], above)
        try:
            default = self._default(field["type"], field["default"]) if "default" in field else REQUIRED
        except (KeyError, TypeError, AttributeError):
            raise ValueError(f"{field['name']}: its default is not a value of its type") from None
        if default is REQUIRED and column.default is None:
            default = None  # it may be null, so a record without it has null
        return replace(column, default=default, aliases=tuple(field.get("aliases", ())))

    def _default(self, kind: Any, value: Any) -> Any:
        """Return a default as Arrow accepts it: bytes are written as text, and columns have times in microseconds."""
        if isinstance(kind, list):
            return self._default_of_union(kind, value)
        definition = _definition(kind, self._named)
        word = _kind(definition)
        if word in {"record", "error"}:
            given = {**{each["name"]: each["default"] for each in definition["fields"] if "default" in each}, **value}
            return {each["name"]: self._default(each["type"], given[each["name"]]) for each in definition["fields"]}
        if word == "array":
            return [self._default(definition["items"], each) for each in value]
        if word == "map":
            return {name: self._default(definition["values"], each) for name, each in value.items()}
        if word in {"bytes", "fixed"}:
            raw = value.encode("latin-1")
            scale = _decimal_scale(definition)
            # As text, which is taken as it is: what is calculated has 28 digits at most.
            return raw if scale is None else Decimal(f"{int.from_bytes(raw, signed=True)}e{-scale}")
        times, divisor = _PER_US.get(definition.get("logicalType", "").rpartition("-")[2], (1, 1))
        is_time = pa.types.is_timestamp(_LOGICAL.get((word, definition.get("logicalType", "")), pa.null()))
        return value * times // divisor if is_time else value

    def _default_of_union(self, kinds: list[Any], value: Any) -> Any:
        """Return the default of a union, which is of its first type, or null."""
        if value is None:
            return None
        first = next(each for each in kinds if each != "null")
        several = self._branches(kinds)
        made = self._default(first, value)
        if len(several) <= 1:
            return made
        name = _short(first) if first in several else _WIDER[_kind(_definition(first, self._named))]
        return {name: made}

    def column(self, name: str, kind: Any, above: frozenset[str]) -> Column:
        if isinstance(kind, list):
            return self._union(name, kind, above)
        definition = _definition(kind, self._named)
        word = _kind(definition)
        if word in {"record", "error"}:
            if definition["name"] in above:
                raise ValueError(f"{name}: the record '{definition['name']}' contains itself, which no table can")
            inner = tuple(self.field(each, above | {definition["name"]}) for each in definition["fields"])
            made = pa.struct([pa.field(each.name, each.type) for each in inner])
            return Column(name, made, REQUIRED, inside=inner)
        if word == "array":
            item = self.column(name, definition["items"], above)
            return Column(name, pa.list_(item.type), REQUIRED, inside=(_item(item),))
        if word == "map":
            item = self.column(name, definition["values"], above)
            return Column(name, pa.map_(pa.string(), item.type), REQUIRED, inside=(_item(item),))
        return Column(name, _scalar(name, word, definition), None if word == "null" else REQUIRED)

    def _union(self, name: str, kinds: list[Any], above: frozenset[str]) -> Column:
        """Return the type beside null; for several, a struct with a field for each, one of which is filled."""
        several = self._branches(kinds)
        self._require_told_apart(name, kinds, several)
        if len(several) <= 1:
            column = self.column(name, several[0] if several else "null", above)
            return replace(column, default=None if "null" in kinds else column.default)
        self.has_choices = True
        inner = tuple(replace(self.column(_short(each), each, above), default=None) for each in several)
        made = pa.struct([pa.field(each.name, each.type) for each in inner])
        return Column(name, made, None if "null" in kinds else REQUIRED, inside=inner, is_choice=True)

    def _branches(self, kinds: list[Any]) -> list[Any]:
        """Return the types of a union beside null; a number goes with the wider one, if that is there, too."""
        words = [_kind(_definition(each, self._named)) for each in kinds]
        narrow = {small for small, large in _WIDER.items() if small in words and large in words}
        return [each for each, word in zip(kinds, words, strict=True) if word != "null" and word not in narrow]

    def _require_told_apart(self, name: str, kinds: list[Any], several: list[Any]) -> None:
        """Raise for types whose values cannot be told apart: a date would become a time."""
        found = [_definition(each, self._named) for each in kinds]
        whole = {_kind(each): each for each in found if _kind(each) in {"int", "long"}}
        if len(whole) > 1 and any((word, each.get("logicalType", "")) in _LOGICAL for word, each in whole.items()):
            raise ValueError(f"{name}: whether int or long was written is not known, and one of them is a time")
        names = [_short(each) for each in several]
        if len({*names}) < len(names):
            raise ValueError(f"{name}: its union has two types that are called '{max(names, key=names.count)}'")

    def convert(self, kind: Any) -> Convert | None:
        """Return the conversion of a value to what Arrow accepts; None if none is needed."""
        if isinstance(kind, list):
            return self._convert_union(kind)
        definition = _definition(kind, self._named)
        word = _kind(definition)
        if word in {"record", "error"}:
            inner = {field["name"]: self.convert(field["type"]) or _same for field in definition["fields"]}
            return lambda value: {name: inner[name](each) for name, each in value.items()}
        if word == "array":
            item = self.convert(definition["items"]) or _same
            return lambda value: [item(each) for each in value]
        if word == "map":
            item = self.convert(definition["values"]) or _same
            return lambda value: {name: item(each) for name, each in value.items()}
        return None

    def _convert_union(self, kinds: list[Any]) -> Convert:
        several = self._branches(kinds)
        inner = {_short(each): self.convert(each) or _same for each in several}
        names = {_full(each): _short(each) for each in several}
        decimals = [_short(each) for each in several if _decimal_scale(_definition(each, self._named)) is not None]
        is_choice = len(several) > 1

        def chosen(value: Any) -> Any:
            if value is None:
                return None
            if isinstance(value, tuple):  # a named type: its name, then the value
                name, value = names[value[0]], value[1]
            elif not is_choice:
                name = next(iter(inner))
            elif isinstance(value, Decimal):
                name = decimals[0]
            else:
                name = _PYTHON[type(value)]
                if name not in inner:
                    name = {"long": "int", "double": "float"}.get(name, name)
            made = inner[name](value)
            return {name: made} if is_choice else made

        return chosen


def _same(value: Any) -> Any:
    return value


def _item(column: Column) -> Column:
    return replace(column, default=None)


def _definition(kind: Any, named: dict[str, Any]) -> Any:
    """Return what a name refers to; nested `type` keys are unwrapped."""
    if isinstance(kind, str):
        return named.get(kind, {"type": kind})
    if isinstance(kind, dict) and isinstance(kind.get("type"), dict | list):
        return _definition(kind["type"], named)
    return kind


def _kind(definition: Any) -> str:
    return definition["type"] if isinstance(definition, dict) else "union"


def _full(kind: Any) -> str:
    return kind if isinstance(kind, str) else str(kind.get("name") or kind["type"])


def _short(kind: Any) -> str:
    return _full(kind).rpartition(".")[2]


def _decimal_scale(definition: Any) -> int | None:
    return int(definition.get("scale", 0)) if definition.get("logicalType") == "decimal" else None


def _scalar(name: str, word: str, definition: dict[str, Any]) -> pa.DataType:
    scale = _decimal_scale(definition) if word in {"bytes", "fixed"} else None
    if scale is not None:
        precision = int(definition["precision"])
        if not 0 <= scale <= precision <= _WIDEST_DECIMAL:
            raise ValueError(f"{name}: no table holds decimal({precision},{scale}), at most {_WIDEST_DECIMAL} digits")
        return pa.decimal128(precision, scale)
    if word not in _SIMPLE:
        raise ValueError(f"{name}: the type '{word}' is not known")
    return _LOGICAL.get((word, definition.get("logicalType", "")), _SIMPLE[word])
