"""Values of JSON as Avro's writer takes them. What JSON has not is text there: times, decimals, and bytes in base64."""

import base64
import binascii
import datetime
from contextlib import suppress
from decimal import Decimal, InvalidOperation
from typing import Any

_TIMESTAMPS = {"timestamp-millis", "timestamp-micros", "timestamp-nanos"}
_LOCAL = {"local-timestamp-millis", "local-timestamp-micros", "local-timestamp-nanos"}


def from_json(value: Any, kind: Any, named: dict[str, Any]) -> Any:
    """Return a value for a schema; what is not understood stays as it is, and is refused when it is written."""
    if isinstance(kind, list):
        return _of_union(value, kind, named)
    definition = named.get(kind, {"type": kind}) if isinstance(kind, str) else kind
    word = definition["type"]
    if not isinstance(word, str):
        return from_json(value, word, named)
    if word in {"record", "error"} and isinstance(value, dict):
        fields = {field["name"]: field["type"] for field in definition["fields"]}
        return {name: from_json(each, fields[name], named) if name in fields else each for name, each in value.items()}
    if word == "array" and isinstance(value, list):
        return [from_json(each, definition["items"], named) for each in value]
    if word == "map" and isinstance(value, dict):
        return {name: from_json(each, definition["values"], named) for name, each in value.items()}
    with suppress(ValueError, InvalidOperation, binascii.Error):
        return _scalar(value, word, definition.get("logicalType", ""))
    return value


def _of_union(value: Any, kinds: list[Any], named: dict[str, Any]) -> Any:
    """Take the first type that makes something else of a value; a plain text stays text where there is one."""
    if value is None or (isinstance(value, str) and "string" in kinds):
        return value
    for each in kinds:
        made = from_json(value, each, named)
        if type(made) is not type(value) or isinstance(made, dict | list):
            return made
    return value


def _scalar(value: Any, word: str, logical: str) -> Any:
    if logical == "decimal" and isinstance(value, str | int | float):
        return Decimal(str(value))
    if not isinstance(value, str):
        return value
    if logical in _TIMESTAMPS | _LOCAL:
        moment = datetime.datetime.fromisoformat(value)
        if logical in _LOCAL:
            return moment
        return moment if moment.tzinfo is not None else moment.replace(tzinfo=datetime.UTC)
    if logical == "date":
        return datetime.date.fromisoformat(value)
    if logical.startswith("time-"):
        return datetime.time.fromisoformat(value)
    return base64.b64decode(value, validate=True) if word in {"bytes", "fixed"} else value
