"""An Avro schema as text: spaces and long ways to write a primitive type do not make another schema."""

import json
from typing import Any

_PRIMITIVES = {"null", "boolean", "int", "long", "float", "double", "bytes", "string"}


class _HasFloat(ValueError):
    """The text has a number that Python would write in another way."""


def plain_avro(text: str) -> str:
    """Return the schema without spaces, and with `{"type": "string"}` as `"string"`; as it is if it is not JSON."""
    try:
        return json.dumps(_plain(json.loads(text, parse_float=_refuse)), separators=(",", ":"), ensure_ascii=False)
    except (ValueError, RecursionError):
        return text


def _refuse(text: str) -> Any:
    raise _HasFloat(text)


def _plain(schema: Any) -> Any:
    """Follow only where types stand: a default may look like a type and is none."""
    if isinstance(schema, list):
        return [_plain(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    if schema.keys() == {"type"} and schema["type"] in _PRIMITIVES:
        return schema["type"]
    plain = dict(schema)
    for key in plain.keys() & {"type", "items", "values"}:
        plain[key] = _plain(plain[key])
    if isinstance(plain.get("fields"), list):
        plain["fields"] = [
            {**each, "type": _plain(each["type"])} if isinstance(each, dict) and "type" in each else each
            for each in plain["fields"]
        ]
    return plain
