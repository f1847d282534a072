"""Turning models into what a reference page shows: JSON Schemas, tables of keys, words for types."""

from collections.abc import Callable, Sequence
from typing import Any

from pydantic import BaseModel

_DURATIONS = (("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1000), ("ms", 1))
_SIZES = (("GB", 10**9), ("MB", 10**6), ("KB", 1000), ("B", 1))

Link = Callable[[str], str]
"""Returns the heading on the page for the name of a definition in the schema."""


def tidy(node: Any) -> None:
    """Drop what is no JSON Schema and defaults that only say "left out"; write quantities as they stand in a file."""
    if isinstance(node, dict):
        node.pop("ge", None)
        node.pop("gt", None)
        if "default" in node and node["default"] is None:
            del node["default"]
        elif "default" in node:
            node["default"] = in_units(node, node["default"])
        for inner in node.values():
            tidy(inner)
    elif isinstance(node, list):
        for inner in node:
            tidy(inner)


def in_units(schema: dict[str, Any], value: Any) -> Any:
    """Write a duration or a size with the largest unit that divides it; give anything else back."""
    comment = str(schema.get("$comment", ""))
    units = _DURATIONS if comment.startswith("duration") else _SIZES if comment.startswith("size") else ()
    if isinstance(value, int) and value > 0:
        for unit, factor in units:
            if value % factor == 0:
                return f"{value // factor}{unit}"
    return value


def kind(schema: dict[str, Any], link: Link) -> str:
    """Say in words what may stand here."""
    choices = [part for part in schema.get("anyOf", schema.get("oneOf", [])) if part.get("type") != "null"]
    if "$comment" in schema:
        found = str(schema["$comment"])
    elif choices:
        found = " or ".join(kind(part, link) for part in choices)
    elif "$ref" in schema:
        name = link(schema["$ref"].rpartition("/")[2])
        found = f"[{name}](#{name.lower().replace(' ', '-')})"
    elif "const" in schema or "enum" in schema:
        found = " or ".join(f"`{value}`" for value in schema.get("enum", [schema.get("const")]))
    elif schema["type"] == "object":
        found = f"mapping of name to {kind(schema['additionalProperties'], link)}"
    elif schema["type"] == "array":
        found = f"list of {kind(schema['items'], link)}"
    elif "minimum" in schema:
        upper = f"to {schema['maximum']}" if "maximum" in schema else "or more"
        noun = {"integer": "whole number"}.get(schema["type"], "number")
        found = f"{noun}, {schema['minimum']} {upper}"
    elif str(schema.get("pattern", "")).startswith("^(env|file)"):
        found = "`env:NAME` or `file:PATH`"
    else:
        words = {"string": "text", "integer": "whole number", "boolean": "true or false", "path": "path"}
        found = words[schema.get("format", schema["type"])]
    return found


def table(header: str, rows: Sequence[tuple[str, ...]]) -> str:
    """Write a table; a bar inside of a cell would end it."""
    columns = header.count("|") - 1
    lines = ("| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in rows)
    return "\n".join([header, "|---" * columns + "|", *lines])


def keys(model: type[BaseModel], part: dict[str, Any], link: Link) -> str:
    """Write a model's keys as a table: the tag first, then what is required, then the rest."""
    required = part.get("required", [])
    fields = {about.alias or name: about for name, about in model.model_fields.items()}
    rows = []
    for name, schema in sorted(part["properties"].items(), key=lambda it: (it[0] != "type", it[0] not in required)):
        about = fields[name]
        default = "required" if name in required else _default(schema, about.get_default(call_default_factory=True))
        rows.append((f"`{name}`", kind(schema, link), default, str(about.description)))
    return table("| Key | What it may be | Default | Meaning |", rows)


def _default(schema: dict[str, Any], value: Any) -> str:
    """Show a default as it would stand in a file."""
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    shown = getattr(value, "type", "") if isinstance(value, BaseModel) else in_units(schema, value)
    return f"`{shown}`" if shown else "-"


def sentence(text: str | None) -> str:
    """Join a docstring's lines."""
    return " ".join((text or "").split())
