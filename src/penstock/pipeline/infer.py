"""Inferring columns and their types from a sample of a topic's records, and how certain they are."""

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import orjson

from penstock.record.schema import parse
from penstock.wording import plural

_TIMESTAMP = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:?\d\d)")
_DATE = re.compile(r"\d{4}-\d\d-\d\d")
_PLAIN_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]*")
_LARGEST_BIGINT = 2**63 - 1
_ENOUGH = 100
_MOST_COLUMNS = 1000
_DEEPEST = 100


@dataclass
class _Seen:
    """What was seen at one place in all documents."""

    count: int = 0
    kinds: Counter[str] = field(default_factory=Counter)
    fields: dict[str, "_Seen"] = field(default_factory=dict)
    items: "_Seen | None" = None

    def add(self, value: Any) -> None:
        self.count += 1
        kind = _kind(value)
        self.kinds[kind] += 1
        if kind == "struct":
            for name, each in value.items():
                self.fields.setdefault(name, _Seen()).add(each)
        elif kind == "array":
            self.items = self.items or _Seen()
            for each in value:
                self.items.add(each)

    @property
    def type(self) -> str:
        """The type that fits most of what was seen."""
        kinds = Counter({kind: count for kind, count in self.kinds.items() if kind != "null"})
        if {"bigint", "double"} <= kinds.keys():
            kinds["double"] += kinds.pop("bigint")
        if "string" in kinds:
            kinds["string"] += kinds.pop("timestamp", 0) + kinds.pop("date", 0)
        kind = kinds.most_common(1)[0][0] if kinds else "string"
        if kind == "array":
            return f"array<{self.items.type if self.items else 'string'}>"
        if kind == "struct":
            inner = {name: seen.type for name, seen in self.fields.items() if _PLAIN_NAME.fullmatch(name)}
            return f"struct<{', '.join(f'{name}: {type_}' for name, type_ in inner.items())}>" if inner else "string"
        return kind

    def misfits(self) -> int:
        """Count what a column of this type could not take: these become dead letters, because nothing is coerced."""
        base = re.split("[<(]", self.type)[0]
        fitting = {"double": {"double", "bigint"}, "string": {"string", "timestamp", "date"}}.get(base, {base})
        inner = [*self.fields.values(), *([self.items] if self.items else [])] if base in {"array", "struct"} else []
        below = sum(each.misfits() for each in inner)
        return below + sum(count for kind, count in self.kinds.items() if kind not in {*fitting, "null"})


def _kind(value: Any) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "boolean"
        case int():
            return "bigint" if abs(value) <= _LARGEST_BIGINT else "double"
        case float():
            return "double"
        case str():
            return "timestamp" if _TIMESTAMP.fullmatch(value) else "date" if _DATE.fullmatch(value) else "string"
        case list():
            return "array"
        case _:
            return "struct"


@dataclass(frozen=True)
class Column:
    """A column that a sample suggests."""

    name: str
    type: str
    is_required: bool
    note: str
    """How certain it is: in how many records it was, and what does not fit."""

    @property
    def definition(self) -> str:
        """The column as it stands in a schema."""
        return f"{self.name} {self.type}{' NOT NULL' if self.is_required else ''}"


@dataclass(frozen=True)
class Sample:
    """What a sample of records suggests; no columns if the values are no JSON objects."""

    records: int
    objects: int
    columns: list[Column]
    left_out: list[str]
    """Fields that cannot be columns: names that begin with an underscore, or that SQL would not take as they are."""
    key_column: str | None
    """The column that always equals the record's key."""


def infer(records: Iterable[tuple[bytes | None, bytes | None]]) -> Sample:
    """Work out columns from keys and values; everything is a suggestion, and says how sure it is."""
    listed, whole = list(records), _Seen()
    keys, deep = dict[str, bool](), set[str]()
    for key, value in listed:
        document = _object(value)
        if document is None:
            continue
        deep |= {name for name, each in document.items() if _is_too_deep(each)}
        document = {name: each for name, each in document.items() if name not in deep}
        whole.add(document)
        for name, each in document.items():
            keys[name] = keys.get(name, True) and key is not None and str(each).encode() == key
    names = {name.lower(): name for name in reversed(whole.fields) if _PLAIN_NAME.fullmatch(name)}
    found = [_column(name, seen, whole.count) for name, seen in whole.fields.items() if names.get(name.lower()) == name]
    columns = [each for each in found[:_MOST_COLUMNS] if each.name not in deep and _is_understood(each)]
    chosen = [each.name for each in columns]
    always = [name for name in chosen if keys[name] and whole.fields[name].count == whole.count]
    left_out = [name for name in {**whole.fields, **dict.fromkeys(sorted(deep))} if name not in set(chosen)]
    return Sample(len(listed), whole.count, columns, left_out, always[0] if always else None)


def _is_understood(column: Column) -> bool:
    """Return whether a schema can have it: reserved words of SQL and unlimited nesting are not allowed there."""
    try:
        parse(column.definition)
    except (ValueError, RecursionError):
        return False
    return True


def _object(value: bytes | None) -> dict[str, Any] | None:
    try:
        document = orjson.loads(value or b"")
    except orjson.JSONDecodeError:
        return None
    return document if isinstance(document, dict) else None


def _is_too_deep(value: Any) -> bool:
    """Return whether it is nested too deeply for any table; whoever may write to the topic may send such a value."""
    level = [value] if isinstance(value, dict | list) else []
    for _ in range(_DEEPEST):
        within = [each.values() if isinstance(each, dict) else each for each in level]
        level = [each for some in within for each in some if isinstance(each, dict | list)]
    return bool(level)


def _column(name: str, seen: _Seen, of: int) -> Column:
    is_required = seen.count == of and not seen.kinds["null"] and of >= _ENOUGH and not seen.misfits()
    notes = [f"in {seen.count} of {of}"]
    if seen.kinds["null"]:
        notes.append(f"{seen.kinds['null']} null")
    if seen.kinds["null"] == seen.count:
        notes.append("never with a value: a guess")
    if seen.misfits():
        others = sorted(kind for kind in seen.kinds if kind not in {"null", re.split("[<(]", seen.type)[0]})
        letters = plural(seen.misfits(), "would be a dead letter", "would be dead letters")
        notes.append(f"{letters} ({', '.join(others) or 'mixed values inside'})")
    return Column(name, seen.type, is_required, ", ".join(notes))
