"""Schemas as people read them, and what changed between two."""

import difflib

import orjson

from penstock.errors import NotFound
from penstock.schemas.client import RegistryClient
from penstock.schemas.schema import Schema


def readable(schema: Schema) -> str:
    """Return a schema's text, indented where it is JSON."""
    if schema.format == "PROTOBUF":
        return schema.text.rstrip("\n")
    try:
        return orjson.dumps(orjson.loads(schema.text), option=orjson.OPT_INDENT_2).decode()
    except orjson.JSONDecodeError:
        return schema.text


def diff(
    client: RegistryClient, subject: str, first: int | None = None, second: int | None = None
) -> tuple[tuple[int, int], list[str]]:
    """Return which two versions were compared, the last two if none is named, and what changed, as lines of a diff."""
    versions = client.versions(subject)
    if len(versions) == 1 and first is None:
        raise NotFound(
            f"'{subject}' has one version: there is nothing to compare it with",
            fix=f"Register another with: penstock schema register {subject} FILE; say first what it would break with:"
            f" penstock schema check {subject} FILE",
        )
    numbers = (first or versions[-2], second or versions[-1])
    before, after = (readable(client.version(subject, number).definition).splitlines() for number in numbers)
    names = [f"version {number}" for number in numbers]
    return numbers, list(difflib.unified_diff(before, after, names[0], names[1], lineterm=""))
