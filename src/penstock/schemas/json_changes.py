"""Which changes of a JSON Schema break those who read it: values that were allowed, and are not any more."""

import math
from typing import Any

from penstock.schemas.json_schema import JsonSchema

_FLOORS = ("minimum", "exclusiveMinimum", "minLength", "minItems")
_CEILINGS = ("maximum", "exclusiveMaximum", "maxLength", "maxItems")


def json_breaks(reader: JsonSchema, writer: JsonSchema) -> list[tuple[str, str]]:
    """Return each part of which the writer's schema allows more than the reader's; unknown keywords do not count.

    Nothing is found in documents that are nested too deep, or of which a part that a reference leads to is no schema:
    the registry says what it thinks of them.
    """
    ours, theirs = (reader.document, reader.document), (writer.document, writer.document)
    try:
        return _Comparison(reader, writer).breaks(ours, theirs)
    except (RecursionError, TypeError, AttributeError):
        return []


_Part = tuple[Any, Any]
"""A part of a document, and the document that it is in."""


class _Comparison:
    """One comparison; parts that hold themselves are compared once."""

    def __init__(self, reader: JsonSchema, writer: JsonSchema) -> None:
        self._reader = reader
        self._writer = writer
        self._begun: set[tuple[int, int]] = set()

    def breaks(self, ours: _Part, theirs: _Part, where: str = "") -> list[tuple[str, str]]:
        """Compare two parts, wherever they refer to."""
        try:
            reader, document = self._reader.resolved(*ours)
            writer, other = self._writer.resolved(*theirs)
        except ValueError:
            return []  # the registry says what is wrong with it
        pair = (id(reader), id(writer))
        if pair in self._begun:
            return []
        self._begun.add(pair)
        place = where or "the schema"
        if reader is True or reader == {} or not isinstance(reader, dict):
            return [(place, "nothing is allowed any more")] if reader is False and writer is not False else []
        if not isinstance(writer, dict):
            return [(place, "anything was allowed")] if writer is True else []
        found = _values(reader, writer, place)
        needed = [each for each in reader.get("required", ()) if each not in writer.get("required", ())]
        found += [(_inside(where, each), "is required, and was not") for each in needed]
        mine, written = reader.get("properties", {}), writer.get("properties", {})
        for name in mine.keys() & written.keys():
            found += self.breaks((mine[name], document), (written[name], other), _inside(where, name))
        if reader.get("additionalProperties") is False:
            found += [(_inside(where, name), "was allowed, and is not") for name in written if name not in mine]
            if writer.get("additionalProperties") is not False:
                found.append((place, "other properties were allowed, and are not"))
        elif writer.get("additionalProperties", True) is True:
            # Whoever wrote with the open schema may have used the name for something else.
            found += [
                (_inside(where, name), "anything may have been written under this name, which only the reader knows")
                for name in mine
                if name not in written and mine[name] not in (True, {})
            ]
        if isinstance(reader.get("items"), dict) and "items" in writer:
            found += self.breaks((reader["items"], document), (writer["items"], other), f"{where}[]")
        return found


def _values(reader: dict[str, Any], writer: dict[str, Any], place: str) -> list[tuple[str, str]]:
    """Compare types, enums and limits."""
    found = []
    mine, theirs = _kinds(reader), _kinds(writer)
    allowed = {*mine, *(["integer"] if "number" in mine else [])}
    if mine and theirs and (more := [each for each in theirs if each not in allowed]):
        found.append((place, f"{', '.join(more)} was allowed, and is not"))
    if "enum" in reader and (gone := [each for each in writer.get("enum", ()) if each not in reader["enum"]]):
        found.append((place, f"{', '.join(map(str, gone))} was allowed, and is not"))
    narrower = [name for name in _FLOORS if name in reader and reader[name] > writer.get(name, -math.inf)]
    narrower += [name for name in _CEILINGS if name in reader and reader[name] < writer.get(name, math.inf)]
    return found + [(place, f"`{name}` is narrower") for name in narrower]


def _kinds(schema: dict[str, Any]) -> list[str]:
    kinds = schema.get("type", [])
    return [kinds] if isinstance(kinds, str) else list(kinds)


def _inside(where: str, name: str) -> str:
    return f"{where}.{name}" if where else name
