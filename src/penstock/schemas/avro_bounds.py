"""What an Avro schema and a record of it may hold: both are others' work, and small ones can stand for endless values.

fastavro reads in C, without a limit. A record that holds itself some thousand times ends the process, and items that
take no bytes are as many as a number in the record says. So records of a schema that could bring such values are looked
through before they are read.
"""

from typing import Any, NamedTuple

_DEEPEST = 200
"""Records, arrays and maps within each other: what is deeper cannot be written as JSON, either."""
_MOST_PARTS = 100_000
_PARTS_PER_BYTE = 20
_FIXED_BYTES = {"null": 0, "boolean": 1, "float": 4, "double": 8}
_NUMBERS = {"int", "long", "enum"}
_LONGEST_NUMBER = 10


class _Shape(NamedTuple):
    """What a type comes to, with all that it names."""

    parts: int
    takes_bytes: bool


class AvroBounds:
    """The bounds of one schema; making them raises `ValueError` if it is too deep."""

    def __init__(self, parsed: Any, named: dict[str, Any]) -> None:
        self._parsed = parsed
        self._named = named
        self._known: dict[str, _Shape] = {}
        self._above: set[str] = set()
        self._is_endless = False
        self.is_too_wide = self._shape(parsed, 0).parts > _MOST_PARTS
        """Whether it has more parts than any table, with all that it names."""

    def require(self, payload: bytes) -> None:
        """Raise `ValueError` or `EOFError` if these bytes hold more, or deeper, than they may."""
        if self._is_endless or self.is_too_wide:
            _Walk(self._named, payload).through(self._parsed, 0)

    def _shape(self, kind: Any, depth: int) -> _Shape:
        if depth > _DEEPEST:
            raise ValueError(f"it is more than {_DEEPEST} deep")
        if isinstance(kind, list):
            return _Shape(1 + sum(self._shape(each, depth + 1).parts for each in kind), takes_bytes=True)
        definition = _definition(kind, self._named)
        word = definition["type"]
        if not isinstance(word, str):
            return self._shape(word, depth + 1)
        if word in {"record", "error"}:
            return self._record(definition, depth)
        if word in {"array", "map"}:
            item = self._shape(definition["items" if word == "array" else "values"], depth + 1)
            self._is_endless |= word == "array" and not item.takes_bytes
            return _Shape(1 + item.parts, takes_bytes=True)
        if word == "fixed" and (type(definition["size"]) is not int or definition["size"] < 0):
            raise ValueError(f"{definition['name']}: its size is none")
        if word == "enum" and not (isinstance(definition["symbols"], list) and definition["symbols"]):
            raise ValueError(f"{definition['name']}: it has no symbols")
        return _Shape(1, takes_bytes=word != "null" and definition.get("size") != 0)

    def _record(self, definition: dict[str, Any], depth: int) -> _Shape:
        name = definition["name"]
        if name in self._above:
            self._is_endless = True
            return _Shape(1, takes_bytes=False)
        if name not in self._known:
            names = [field["name"] for field in definition["fields"]]
            if not all(isinstance(each, str) and each for each in names):
                raise ValueError(f"{name}: one of its fields has no name")
            if len({*names}) < len(names):
                raise ValueError(f"{name}: two of its fields have the same name")
            self._above.add(name)
            inside = [self._shape(field["type"], depth + 1) for field in definition["fields"]]
            self._above.remove(name)
            # Each time it is named it counts again: a few that name each other twice are millions.
            parts = 1 + sum(each.parts for each in inside)
            self._known[name] = _Shape(parts, any(each.takes_bytes for each in inside))
        return self._known[name]


class _Walk:
    """One look through the bytes of a record, which keeps none of them."""

    def __init__(self, named: dict[str, Any], payload: bytes) -> None:
        self._named = named
        self._payload = payload
        self._at = 0
        self._left = _MOST_PARTS + _PARTS_PER_BYTE * len(payload)

    def through(self, kind: Any, depth: int) -> None:
        """Pass over a value of a type."""
        self._left -= 1
        if self._left < 0 or depth > _DEEPEST:
            raise ValueError("they hold more, or deeper, than is read")
        while isinstance(kind, list) or not isinstance(_definition(kind, self._named)["type"], str):
            kind = kind[self._number()] if isinstance(kind, list) else _definition(kind, self._named)["type"]
        definition = _definition(kind, self._named)
        word = definition["type"]
        if word in {"record", "error"}:
            for field in definition["fields"]:
                self.through(field["type"], depth + 1)
        elif word in {"array", "map"}:
            self._items(definition, depth)
        elif word in _NUMBERS:
            self._number()
        elif word in _FIXED_BYTES or word == "fixed":
            self._skip(definition["size"] if word == "fixed" else _FIXED_BYTES[word])
        else:
            self._skip(self._number())

    def _items(self, definition: dict[str, Any], depth: int) -> None:
        is_map = definition["type"] == "map"
        while count := self._number():
            if count < 0:  # then the size of the block stands behind it
                self._number()
            for _ in range(abs(count)):
                if is_map:
                    self._skip(self._number())
                self.through(definition["values" if is_map else "items"], depth + 1)

    def _number(self) -> int:
        value = 0
        for place in range(_LONGEST_NUMBER):
            self._skip(1)
            byte = self._payload[self._at - 1]
            value |= (byte & 0x7F) << (7 * place)
            if byte < 0x80:  # noqa: PLR2004 - the bit that says whether more follows
                return (value >> 1) ^ -(value & 1)
        raise ValueError("a number in them has no end")

    def _skip(self, count: int) -> None:
        self._at += count
        if not 0 <= count <= len(self._payload) or self._at > len(self._payload):
            raise EOFError("they end too early")


def _definition(kind: Any, named: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = named.get(kind, {"type": kind}) if isinstance(kind, str) else kind
    return found
