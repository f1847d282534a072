"""Durations and sizes as people write them: `7d`, `90s`, `1GB`, `forever`.

Sizes follow the standard: 1 GB is 10^9 bytes, 1 GiB is 2^30.
"""

import re
from decimal import Decimal
from typing import Annotated, Any

from pydantic import BeforeValidator, ValidationInfo, WithJsonSchema

UNLIMITED = -1
_LARGEST = 2**63 - 1

_MS_PER = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 604_800_000}
_BYTES_PER = {
    "B": 1,
    "KB": 10**3,
    "MB": 10**6,
    "GB": 10**9,
    "TB": 10**12,
    "KiB": 2**10,
    "MiB": 2**20,
    "GiB": 2**30,
    "TiB": 2**40,
}
_BARE = re.compile(r"\s*\d+(\.\d+)?\s*")
_QUANTITY = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([A-Za-z]+)\s*")


def _parse(text: str, units: dict[str, int], kind: str, example: str) -> int:
    if text.strip().lower() in {"forever", "unlimited", "-1"}:
        return UNLIMITED
    match = _QUANTITY.fullmatch(text)
    by_lower = {unit.lower(): factor for unit, factor in units.items()}
    if match is None or match[2].lower() not in by_lower:
        known = ", ".join(units)
        if _BARE.fullmatch(text):  # what was meant, if a day or a gigabyte was
            example = text.strip() + example.lstrip("0123456789")
        raise ValueError(f"{text!r} is not a {kind}: write a number and one of {known}, such as {example}")
    amount = round(Decimal(match[1]) * by_lower[match[2].lower()])
    if amount > _LARGEST:
        raise ValueError(f"{text!r} is more than Kafka can count")
    return amount


def parse_duration_ms(text: str) -> int:
    """Turn `7d` or `1.5h` into milliseconds, and `forever` into -1."""
    return _parse(text, _MS_PER, "duration", "7d")


def parse_size_bytes(text: str) -> int:
    """Turn `1GB` or `512MiB` into bytes, and `unlimited` into -1."""
    return _parse(text, _BYTES_PER, "size", "1GB")


def _require_unit(value: Any, info: ValidationInfo, units: dict[str, int], example: str) -> None:
    """In a file a bare number is ambiguous: 7 would be milliseconds or bytes. In code the name says it."""
    if isinstance(value, bool) or (info.context is not None and isinstance(value, int) and value not in {0, UNLIMITED}):
        number = str(value) if type(value) is int else "7"
        raise ValueError(f"write the unit too, one of {', '.join(units)}, such as {number}{example}")


def _duration(value: Any, info: ValidationInfo) -> Any:
    _require_unit(value, info, _MS_PER, "s")
    return parse_duration_ms(value) if isinstance(value, str) else value


def _size(value: Any, info: ValidationInfo) -> Any:
    _require_unit(value, info, _BYTES_PER, "MB")
    return parse_size_bytes(value) if isinstance(value, str) else value


def _in_a_file(kind: str, example: str) -> WithJsonSchema:
    """Describe to editors what is written in a file: a number with its unit."""
    written = {"type": "string", "pattern": r"^\s*(\d+(\.\d+)?\s*[A-Za-z]+|[A-Za-z]+|-1)\s*$", "examples": [example]}
    return WithJsonSchema({"$comment": f"{kind}, such as {example}", "anyOf": [written, {"enum": [0, UNLIMITED]}]})


DurationMs = Annotated[int, BeforeValidator(_duration), _in_a_file("duration", "7d")]
SizeBytes = Annotated[int, BeforeValidator(_size), _in_a_file("size", "1GB")]
