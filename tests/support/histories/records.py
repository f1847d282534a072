"""Records of every shape that a topic may hold, each with what may become of it."""

import hashlib
import json
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

SCHEMA = "n bigint NOT NULL, sha string NOT NULL, payload string"
TOPIC_CONFIG = {
    "max.message.bytes": "1048588",
    "message.timestamp.after.max.ms": "9223372036854775807",
    "message.timestamp.before.max.ms": "9223372036854775807",
}
"""Kafka's own limit of size, and no limit of time: producers send nonsense, and a pipeline has to live with it."""

_LIMIT_BYTES = 1_048_000
Verdict = Literal["row", "dead", "either"]


@dataclass(frozen=True)
class Record:
    """One record to send, and its fate: `either` leaves it to the sink, but one of the two it must be."""

    shape: str
    value: bytes | None
    fate: Verdict
    key: bytes | None = b"k"
    headers: tuple[tuple[str, bytes | None], ...] = ()
    timestamp_ms: int | None = None

    @property
    def meant(self) -> tuple[Any, ...]:
        """The row that its sender had in mind."""
        data = json.loads(self.value or b"{}")
        return data.get("n"), data.get("sha"), data.get("payload")


def event(number: int, payload: str | None = None) -> bytes:
    """Make a good event."""
    sha = hashlib.sha256(str(number).encode()).hexdigest()
    return json.dumps({"n": number, "sha": sha, "payload": payload}).encode()


def _filled(number: int, size: int) -> bytes:
    empty = event(number, "")
    return event(number, "x" * (size - len(empty)))


HOSTILE: dict[str, Callable[[int], Record]] = {
    "cut short": lambda n: Record("cut short", event(n)[:-4], "dead"),
    "empty": lambda _n: Record("empty", b"", "dead"),
    "tombstone": lambda _n: Record("tombstone", None, "dead"),
    "no object": lambda _n: Record("no object", b"[1, 2]", "dead"),
    "no UTF-8": lambda _n: Record("no UTF-8", b'{"n": 1, "sha": "\xff\xfe"}', "dead"),
    "NaN": lambda _n: Record("NaN", b'{"n": NaN, "sha": "x"}', "dead"),
    "too large a number": lambda _n: Record("too large a number", b'{"n": 9223372036854775808, "sha": "x"}', "dead"),
    "required field missing": lambda n: Record("required field missing", b'{"n": %d}' % n, "dead"),
    "deep": lambda n: Record("deep", b'{"n": %d, "sha": "x", "more": %s}' % (n, b"[" * 400 + b"]" * 400), "dead"),
    "doubled key": lambda n: Record("doubled key", b'{"n": 1, "sha": "x", "n": %d}' % n, "row"),
    "surrogate": lambda n: Record("surrogate", b'{"n": %d, "sha": "x", "payload": "\\ud800"}' % n, "dead"),
    "NUL in text": lambda n: Record("NUL in text", event(n, "a\0b"), "either"),
    "control characters": lambda n: Record("control characters", event(n, "\x1b[31m\u202e\x07"), "row"),
    "no key": lambda n: Record("no key", event(n), "row", key=None),
    "empty key": lambda n: Record("empty key", event(n), "row", key=b""),
    "binary key": lambda n: Record("binary key", event(n), "row", key=b"\xff\x00\xfe"),
    "header without value": lambda n: Record("header without value", event(n), "row", headers=(("h", None),)),
    "odd headers": lambda n: Record(
        "odd headers", event(n), "row", headers=(("", b""), ("h", b"\xff"), ("h", b"2"), ("penstock.offset", b"7"))
    ),
    "timestamp 1": lambda n: Record("timestamp 1", event(n), "row", timestamp_ms=1),
    "timestamp in nanoseconds": lambda n: Record(
        "timestamp in nanoseconds", event(n), "either", timestamp_ms=1_700_000_000_000_000_000
    ),
    "timestamp in microseconds": lambda n: Record(
        "timestamp in microseconds", event(n), "either", timestamp_ms=1_700_000_000_000_000
    ),
    "year 9999": lambda n: Record("year 9999", event(n), "either", timestamp_ms=253_402_300_799_999),
    "malformed years ahead": lambda _n: Record("malformed years ahead", b"{", "dead", timestamp_ms=4_000_000_000_000),
    "as large as may be": lambda n: Record("as large as may be", _filled(n, _LIMIT_BYTES), "either"),
    "large and malformed": lambda n: Record("large and malformed", _filled(n, _LIMIT_BYTES)[:-1], "dead"),
    "large": lambda n: Record("large", _filled(n, 300_000), "row"),
}


def draw(dice: random.Random, numbers: range, shapes: Sequence[str]) -> list[Record]:
    """Draw records: good ones, and a handful of these shapes among them."""
    records = [Record("good", event(number, "p"), "row", key=b"k%d" % dice.randrange(50)) for number in numbers]
    for _ in range(dice.randrange(1, 6)):
        at = dice.randrange(len(records))
        records[at] = HOSTILE[dice.choice(shapes)](numbers[at])
    return records
