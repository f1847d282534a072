"""JSON Schema: documents that refer to others, and whether a value fits.

A document is whatever somebody has registered. What it defines itself is checked as a schema; a part that only a
reference leads to may be anything, and raise anything.
"""

import math
from collections.abc import Mapping
from typing import Any

import orjson

from penstock.errors import BadInput
from penstock.extras import require
from penstock.schemas.schema import Schema

_LONGEST_WORDS = 200
_MOST_REFERENCES = 50
_MOST_COMPARED = 3_000_000
_SORTED: tuple[set[type], ...] = ({str}, {int}, {float}, {int, float})
"""Types of items that Python can sort."""


class JsonSchema:
    """A schema that is one, with those that it refers to by name."""

    def __init__(self, schema: Schema, referred: Mapping[str, Schema] | None = None) -> None:
        require("schemas", "JSON Schema")
        from referencing import Registry, Resource
        from referencing.jsonschema import DRAFT7

        self.document = _read(schema.text)
        self.referred = {name: _read(each.text) for name, each in (referred or {}).items()}
        resources = [
            (name, Resource.from_contents(each, default_specification=DRAFT7)) for name, each in self.referred.items()
        ]
        kind = _checked(self.document)
        for each in self.referred.values():
            _checked(each)
        self._validator = kind(self.document, registry=Registry().with_resources(resources))

    @property
    def name(self) -> str:
        """The title, which names the record."""
        return str(self.document.get("title", "")) if isinstance(self.document, dict) else ""

    def resolved(self, node: Any, document: Any) -> tuple[Any, Any]:
        """Follow references from a part of a document, in it and to others; return where they lead, and in which one.

        Raise `ValueError` if that is nowhere.
        """
        steps = 0
        while isinstance(node, dict) and isinstance(node.get("$ref"), str):
            other, _, inside = node["$ref"].partition("#")
            if other and other not in self.referred:
                raise ValueError(f"it refers to '{other}', which is not among the references")
            document = self.referred[other] if other else document
            node = document
            for part in filter(None, inside.split("/")):
                node = node.get(part.replace("~1", "/").replace("~0", "~")) if isinstance(node, dict) else None
            steps += 1
            if node is None or steps > _MOST_REFERENCES:
                raise ValueError("its reference leads nowhere")
        return node, document

    def encode(self, value: Any) -> bytes:
        """Return a value as JSON; raise `ValueError` that says which part does not fit."""
        self.require_fitting(value)
        _require_finite(value, "")
        try:
            return orjson.dumps(value)
        except (orjson.JSONEncodeError, TypeError) as error:
            raise ValueError(str(error)) from None

    def decode(self, payload: bytes) -> Any:
        """Return the value in these bytes; raise `ValueError` if it is not JSON or does not fit."""
        value = orjson.loads(payload)
        self.require_fitting(value)
        return value

    def require_fitting(self, value: Any) -> None:
        """Raise `ValueError` that names the part of a value that does not fit."""
        from jsonschema.exceptions import best_match
        from referencing.exceptions import Unresolvable

        try:
            error = best_match(self._validator.iter_errors(value))
        except Unresolvable as missing:
            raise ValueError(f"the schema refers to {missing.ref}, which is not there") from None
        except RecursionError:
            raise ValueError("its schema, or what it holds, is nested without an end") from None
        except TimeoutError:
            raise
        except Exception as odd:  # noqa: BLE001 - see above
            raise ValueError(f"a part of its schema is not a JSON Schema: {odd}"[:_LONGEST_WORDS]) from None
        if error is not None:
            where = error.json_path.removeprefix("$").lstrip(".") or "the value"
            raise ValueError(f"{where}: {error.message[:_LONGEST_WORDS]}")


def _require_finite(value: Any, where: str) -> None:
    """Raise `ValueError` for a number that JSON has not: null would be written for it."""
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError(f"{where.lstrip('.') or 'the value'}: JSON has no number for {value}")
    if isinstance(value, dict):
        for name, each in value.items():
            _require_finite(each, f"{where}.{name}")
    elif isinstance(value, list | tuple):
        for number, each in enumerate(value):
            _require_finite(each, f"{where}[{number}]")


def _read(text: str) -> Any:
    try:
        found = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise BadInput(f"this is not a JSON Schema, for it is not JSON: {error}") from None
    if not isinstance(found, dict | bool):
        raise BadInput("this is not a JSON Schema: it is neither an object nor true or false")
    if isinstance(found, dict) and not all(isinstance(found.get(name, ""), str) for name in ("$schema", "$id", "id")):
        raise BadInput("this is not a JSON Schema: its name, or that of its dialect, is no text")
    return found


def _checked(document: Any) -> Any:
    """Return what validates values with a document; raise `BadInput` if that is no schema."""
    import jsonschema

    kind = jsonschema.validators.validator_for(document, default=jsonschema.Draft7Validator)
    try:
        if _sizes(document)[1] > _MOST_COMPARED:
            raise BadInput("this JSON Schema cannot be used: its lists take too long to be compared")
        kind.check_schema(document)
    except jsonschema.SchemaError as error:
        raise BadInput(f"this is not a JSON Schema: {error.message[:_LONGEST_WORDS]}") from None
    except RecursionError:
        raise BadInput("this JSON Schema cannot be used: it is nested too deep") from None
    return kind


def _sizes(node: Any) -> tuple[int, int]:
    """Return how many values a part has, and how many are looked at if its lists are searched for equal items.

    In lists that cannot be sorted each item is compared with each other one, which would take hours.
    """
    if not isinstance(node, dict | list):
        return 1, 0
    inside = [_sizes(each) for each in (node.values() if isinstance(node, dict) else node)]
    count, compared = 1 + sum(each[0] for each in inside), sum(each[1] for each in inside)
    is_sorted = isinstance(node, dict) or {type(each) for each in node} in _SORTED
    return count, compared if is_sorted else compared + len(node) * count
