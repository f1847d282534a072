"""Whether a value fits an Avro schema, and if not, which part of it does not."""

import datetime
import struct
import uuid
from decimal import Decimal
from typing import Any

_LEAST_INT, _MOST_INT = -(2**31), 2**31 - 1
_LEAST_LONG, _MOST_LONG = -(2**63), 2**63 - 1
_TIMES = (datetime.datetime, datetime.date, datetime.time)


def misfit(value: Any, kind: Any, named: dict[str, Any], where: str = "") -> str | None:
    """Return which part of a value does not fit and why; None if all fits. What the schema does not name is refused."""
    if isinstance(kind, list):
        return _none_fits(value, kind, named, where)
    definition = named.get(kind, {"type": kind}) if isinstance(kind, str) else kind
    word = definition["type"]
    if not isinstance(word, str):
        return misfit(value, word, named, where)
    if word in {"record", "error"}:
        return _misfit_of_record(value, definition, named, where)
    if word == "array":
        if not isinstance(value, list | tuple):
            return _wrong(value, "array", where)
        parts = ((each, definition["items"], f"{where}[{index}]") for index, each in enumerate(value))
    elif word == "map":
        if not isinstance(value, dict):
            return _wrong(value, "map", where)
        if any(not isinstance(key, str) for key in value):
            return f"{where or 'the value'} has a key that is not text"
        parts = ((each, definition["values"], _inside(where, key)) for key, each in value.items())
    else:
        return None if _fits(value, word, definition) else _wrong(value, _named(word, definition), where)
    found = (misfit(each, inner, named, place) for each, inner, place in parts)
    return next((why for why in found if why is not None), None)


def _misfit_of_record(value: Any, definition: dict[str, Any], named: dict[str, Any], where: str) -> str | None:
    if not isinstance(value, dict):
        return _wrong(value, f"record {definition['name']}", where)
    fields = {field["name"]: field for field in definition["fields"]}
    for name in value:
        if name not in fields:
            return f"{_inside(where, name)}: the schema has no such field"
    for name, field in fields.items():
        if name in value:
            why = misfit(value[name], field["type"], named, _inside(where, name))
            if why is not None:
                return why
        elif "default" not in field:
            return f"{_inside(where, name)}: is missing, and has no default"
    return None


def _none_fits(value: Any, kinds: list[Any], named: dict[str, Any], where: str) -> str | None:
    """Return why no type of a union takes a value; of one type beside null, what that says is the reason."""
    if isinstance(value, tuple) and len(value) == 2 and isinstance(value[0], str):  # noqa: PLR2004 - a name and a value
        kinds, value = [each for each in kinds if _name_of(each) == value[0]], value[1]
    reasons = [misfit(value, each, named, where) for each in kinds]
    if None in reasons:
        return None
    others = [why for each, why in zip(kinds, reasons, strict=True) if each != "null"]
    if len(others) == 1:
        return others[0]
    return _wrong(value, " or ".join(map(_name_of, kinds)), where)


def _name_of(kind: Any) -> str:
    return kind if isinstance(kind, str) else str(kind.get("name") or kind["type"])


def _fits(value: Any, word: str, definition: dict[str, Any]) -> bool:
    logical = definition.get("logicalType", "")
    if word == "null":
        return value is None
    if word == "boolean":
        return isinstance(value, bool)
    if word in {"int", "long"}:
        if logical and isinstance(value, _TIMES):
            return True
        least, most = (_LEAST_INT, _MOST_INT) if word == "int" else (_LEAST_LONG, _MOST_LONG)
        return isinstance(value, int) and not isinstance(value, bool) and least <= value <= most
    if word in {"float", "double"}:
        if isinstance(value, int):
            return not isinstance(value, bool) and _is_exact(value, "<f" if word == "float" else "<d")
        return isinstance(value, float)
    if word in {"bytes", "fixed"}:
        if logical == "decimal":
            return isinstance(value, bytes) or (isinstance(value, Decimal) and _holds(definition, value))
        return isinstance(value, bytes) and (word == "bytes" or len(value) == definition["size"])
    if word == "enum":
        return value in definition["symbols"]
    return isinstance(value, str) or (logical == "uuid" and isinstance(value, uuid.UUID))


def _is_exact(value: int, bits: str) -> bool:
    """Return whether a number with a point holds a whole one as it is."""
    try:
        return int(struct.unpack(bits, struct.pack(bits, value))[0]) == value
    except (OverflowError, struct.error):
        return False


def _holds(definition: dict[str, Any], value: Decimal) -> bool:
    """Return whether a decimal has neither more digits nor more behind the point than its type."""
    _, digits, exponent = value.as_tuple()
    if not isinstance(exponent, int):
        return False  # no number
    scale = definition.get("scale", 0)
    return bool(-exponent <= scale and len(digits) + exponent + scale <= definition["precision"])


def _named(word: str, definition: dict[str, Any]) -> str:
    if word == "enum":
        return f"one of {', '.join(definition['symbols'][:10])}"
    if definition.get("logicalType") == "decimal":
        return f"decimal({definition['precision']},{definition.get('scale', 0)})"
    return f"{word} ({definition['logicalType']})" if "logicalType" in definition else word


def _inside(where: str, name: str) -> str:
    return f"{where}.{name}" if where else name


def _wrong(value: Any, wanted: str, where: str) -> str:
    shown = (
        repr(value)
        if isinstance(value, int | float | bool | Decimal | None)
        else f"a value of type {type(value).__name__}"
    )
    return f"{where or 'the value'}: {shown} is not {wanted}"
