"""The columns of a JSON Schema."""

from dataclasses import replace
from typing import Any

import pyarrow as pa

from penstock.decoders.columns import MOST_PARTS, REQUIRED, Column
from penstock.schemas.json_schema import JsonSchema

_SIMPLE = {"string": pa.string(), "integer": pa.int64(), "number": pa.float64(), "boolean": pa.bool_()}
_FORMATS = {"date-time": pa.timestamp("us", tz="UTC"), "date": pa.date32()}
# What Connect's converter notes beside the type of JSON.
_CONNECT = {
    "int8": pa.int8(),
    "int16": pa.int16(),
    "int32": pa.int32(),
    "int64": pa.int64(),
    "float32": pa.float32(),
    "float64": pa.float64(),
    "bytes": pa.binary(),
}


def json_columns(schema: JsonSchema) -> tuple[Column, ...]:
    """Return the columns of a schema, whose outermost type is an object; raise `ValueError` if no table has them."""
    reading = _Reading(schema)
    try:
        found = reading.column("the schema", schema.document, schema.document, 0)
    except (TypeError, AttributeError):  # it is checked, but for what only a reference leads to
        raise ValueError("a part of it is not a JSON Schema") from None
    if not found.inside or not pa.types.is_struct(found.type):
        raise ValueError("its outermost type is not an object with properties")
    return found.inside


_DEEPEST = 50


class _Reading:
    """One walk through a schema and those that it refers to."""

    def __init__(self, schema: JsonSchema) -> None:
        self._schema = schema
        self._left = MOST_PARTS

    def column(self, name: str, node: Any, document: Any, depth: int) -> Column:
        """Return the column of a part of a document; its default is None if it may be null."""
        self._left -= 1
        if depth > _DEEPEST or self._left < 0:
            raise ValueError(f"{name}: it holds itself, or more parts than any table")
        node, document = self._resolved(name, node, document)
        nullable, node = _without_null(name, node)
        if "$ref" in node:
            column = self.column(name, node, document, depth + 1)
        else:
            column = self._plain(name, node, document, depth)
        return replace(column, default=None) if nullable else column

    def _plain(self, name: str, node: dict[str, Any], document: Any, depth: int) -> Column:
        if (connect := _CONNECT.get(str(node.get("connect.type")))) is not None:
            return Column(name, connect, REQUIRED)
        kind = node.get("type") or _implied(node)
        if kind == "object" and node.get("properties"):
            if (word := _brings_fields(node)) is not None:
                raise ValueError(f"{name}: `{word}` may bring more fields; list the columns in `schema` instead")
            required = set(node.get("required", ()))
            inner = tuple(
                replace(column, default=column.default if each in required else None)
                for each, part in node["properties"].items()
                for column in [self.column(each, part, document, depth + 1)]
            )
            made = pa.struct([pa.field(each.name, each.type, each.default is not REQUIRED) for each in inner])
            return Column(name, made, REQUIRED, inside=inner)
        if kind == "object" and isinstance(node.get("additionalProperties"), dict):
            item = self.column(name, node["additionalProperties"], document, depth + 1)
            return Column(name, pa.map_(pa.string(), item.type), REQUIRED, inside=(replace(item, default=None),))
        if kind == "array" and isinstance(node.get("items"), dict):
            item = self.column(name, node["items"], document, depth + 1)
            return Column(name, pa.list_(item.type), REQUIRED, inside=(replace(item, default=None),))
        if kind in _SIMPLE:
            shape = _FORMATS.get(str(node.get("format"))) if kind == "string" else None
            return Column(name, shape or _SIMPLE[kind], REQUIRED)
        raise ValueError(f"{name}: no column can be made of it; list the columns in `schema` instead")

    def _resolved(self, name: str, node: Any, document: Any) -> tuple[dict[str, Any], Any]:
        try:
            node, document = self._schema.resolved(node, document)
        except ValueError as error:
            raise ValueError(f"{name}: {error}") from None
        if not isinstance(node, dict):
            raise ValueError(f"{name}: anything is allowed there; list the columns in `schema` instead")  # noqa: TRY004
        return node, document


def _brings_fields(node: dict[str, Any]) -> str | None:
    """Return the keyword that allows fields besides the properties, which would be dropped."""
    parts = [("allOf", each) for each in node.get("allOf", ())]
    parts += [(word, node[word]) for word in ("then", "else") if word in node]
    for word, part in parts:
        if isinstance(part, dict) and ("$ref" in part or set(part.get("properties", ())) - set(node["properties"])):
            return word
    return None


def _without_null(name: str, node: dict[str, Any]) -> tuple[bool, dict[str, Any]]:
    """Return whether null is allowed, and which other types are."""
    kinds = node.get("type")
    if isinstance(kinds, list):
        others = [each for each in kinds if each != "null"]
        if len(others) != 1:
            raise ValueError(f"{name}: no column can have several types; list the columns in `schema` instead")
        return "null" in kinds, {**node, "type": others[0]}
    for word in ("oneOf", "anyOf"):
        if isinstance(node.get(word), list):
            others = [each for each in node[word] if each != {"type": "null"}]
            if len(others) != 1 or not isinstance(others[0], dict):
                raise ValueError(f"{name}: no column can have several types; list the columns in `schema` instead")
            return len(others) < len(node[word]), others[0]
    return False, node


def _implied(node: dict[str, Any]) -> str:
    """Return the type that a schema without one implies."""
    if "properties" in node:
        return "object"
    values = node.get("enum", [node["const"]] if "const" in node else [])
    return "string" if values and all(isinstance(each, str) for each in values) else ""
