"""Schemas as people read them, and what changed between two."""

import difflib
from itertools import takewhile

import orjson

from penstock.errors import NotFound
from penstock.schemas.client import RegistryClient
from penstock.schemas.schema import Schema

_MOST_LINES = 2_000
"""What is longer could take hours to be compared line by line: anybody may have registered it."""


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
    if max(len(before), len(after)) > _MOST_LINES:
        return numbers, _coarse(before, after, names)
    return numbers, list(difflib.unified_diff(before, after, names[0], names[1], lineterm=""))


def _coarse(before: list[str], after: list[str], names: list[str]) -> list[str]:
    """Return a diff that replaces everything from the first changed line to the last one."""
    if before == after:
        return []
    head = _alike(before, after)
    tail = _alike(before[head:][::-1], after[head:][::-1])
    removed, added = before[head : len(before) - tail], after[head : len(after) - tail]
    place = f"@@ -{head + 1},{len(removed)} +{head + 1},{len(added)} @@"
    changes = [*(f"-{line}" for line in removed), *(f"+{line}" for line in added)]
    return [f"--- {names[0]}", f"+++ {names[1]}", place, *changes]


def _alike(before: list[str], after: list[str]) -> int:
    """Count the first lines that are the same."""
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(before, after, strict=False)))
