"""What a topic accepts and refuses, known before a record is sent.

Kafka refuses a whole batch for one record, and a transaction with it. Whoever writes on behalf of others checks first.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from penstock.errors import Refused
from penstock.kafka import topics
from penstock.kafka.admin import Admin
from penstock.quantities import UNLIMITED

NO_TIMESTAMP = -1
_BATCH_HEADER_BYTES = 61
_FOREVER_MS = 2**63 - 1
_DEFAULT_MAX_BYTES = 1_048_588
_DEFAULT_AFTER_MS = 3_600_000
_LARGEST_REQUEST_BYTES = 100_000_000
"""A little less than what a broker reads as one request unless told otherwise; it hangs up on a larger one."""

Refusal = tuple[str, str]
"""A class of error, and what is wrong."""


@dataclass(frozen=True)
class TopicLimits:
    """The limits of one topic. It is sent to the tasks."""

    max_bytes: int = _DEFAULT_MAX_BYTES
    needs_key: bool = False
    before_ms: int = _FOREVER_MS
    """How far behind the broker's clock a timestamp may lie."""
    after_ms: int = _DEFAULT_AFTER_MS
    """How far ahead of it."""
    kept_ms: int | None = None
    """How long a record is kept, counted from its own timestamp; None if for ever, or counted from its arrival."""

    def refusal(
        self,
        key: bytes | None,
        value: bytes | None,
        headers: Sequence[tuple[str, bytes | None]],
        timestamp_ms: int,
        now_ms: int,
    ) -> Refusal | None:
        """Return why the topic would refuse a record; None if it accepts it. The size is the one before compression."""
        size = record_bytes(key, value, headers)
        if size > self.max_bytes:
            return "RecordTooLarge", f"{size} bytes, and the topic takes {self.max_bytes}"
        if key is None and self.needs_key:
            return "NoKey", "the topic is compacted, which takes a key, and this record has none"
        if not self.takes_time(timestamp_ms, now_ms):
            allowed = f"{self.before_ms} ms before now to {self.after_ms} ms after"
            return "TimestampRefused", f"the timestamp is {timestamp_ms} ms, and the topic takes {allowed}"
        return None

    def takes_time(self, timestamp_ms: int, now_ms: int) -> bool:
        """Return whether the topic accepts a timestamp. Zero means now to the client."""
        age_ms = now_ms - timestamp_ms if timestamp_ms not in (NO_TIMESTAMP, 0) else 0
        return age_ms <= self.before_ms and -age_ms <= self.after_ms


def limits_of(admin: Admin, topic: str) -> TopicLimits:
    """Read a topic's limits; Kafka's defaults where this client may not see its settings."""
    try:
        found = {name: value for name, (value, _) in topics.config(admin, topic).items()}
    except Refused:
        return TopicLimits()
    keeps_time = found.get("message.timestamp.type") != "LogAppendTime"
    is_deleted = keeps_time and "delete" in found.get("cleanup.policy", "")
    kept_ms = int(found.get("retention.ms", UNLIMITED)) if is_deleted else UNLIMITED
    return TopicLimits(
        max_bytes=min(int(found.get("max.message.bytes", _DEFAULT_MAX_BYTES)), _LARGEST_REQUEST_BYTES),
        needs_key="compact" in found.get("cleanup.policy", ""),
        before_ms=int(found.get("message.timestamp.before.max.ms", _FOREVER_MS)) if keeps_time else _FOREVER_MS,
        after_ms=int(found.get("message.timestamp.after.max.ms", _FOREVER_MS)) if keeps_time else _FOREVER_MS,
        kept_ms=None if kept_ms == UNLIMITED else kept_ms,
    )


def record_bytes(key: bytes | None, value: bytes | None, headers: Sequence[tuple[str, bytes | None]]) -> int:
    """Return the size of a record alone in a batch, as the broker measures it, not compressed."""
    size = 3 + _field(key) + _field(value) + _varint(len(headers))  # attributes, and how far from the batch's first
    size += sum(_field(name.encode()) + _field(content) for name, content in headers)
    return _BATCH_HEADER_BYTES + _varint(size) + size


def _field(content: bytes | None) -> int:
    return _varint(-1) if content is None else _varint(len(content)) + len(content)


def _varint(number: int) -> int:
    """Count the bytes of a number: seven bits each, the sign in the lowest."""
    return max(1, -(-((number << 1) ^ (number >> 63)).bit_length() // 7))
