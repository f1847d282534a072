"""Records as JSON can hold them. They are anybody's data: text stays text, and other bytes are shown as hex."""

from collections.abc import Callable, Iterable
from typing import Any, Literal

from confluent_kafka import Message
from pydantic import BaseModel, Field

_MOST_SHOWN_BYTES = 64 * 1024
MOST_HELD_BYTES = 32 * 2**20
"""What is held for one answer: a record has any number of headers, and a topic any number of partitions."""


class Content(BaseModel, frozen=True):
    """A key, a value or a header."""

    text: str = Field(description="As JSON by its schema, if it has one; as text if it is UTF-8; and else as hex.")
    encoding: Literal["text", "hex"] = Field(description="text or hex.")
    bytes: int = Field(description="How long it is.")
    is_cut: bool = Field(description="Whether only its first 64 KiB are here.")
    schema_id: int | None = Field(None, description="Id of the schema that it was decoded by; none if by none.")


class Record(BaseModel, frozen=True):
    """One record of a topic."""

    topic: str = Field(description="Topic.")
    partition: int = Field(description="Partition.")
    offset: int = Field(description="Offset.")
    timestamp_ms: int | None = Field(description="Its time, in milliseconds since 1970; none if it has none.")
    key: Content | None = Field(description="Key; none if it has none.")
    value: Content | None = Field(description="Value; none for a tombstone.")
    headers: list[tuple[str, Content | None]] = Field(description="Headers, in order; a name may occur twice.")

    @property
    def held_bytes(self) -> int:
        """What it takes to hold it, roughly."""
        contents = (self.key, self.value, *(found for _, found in self.headers))
        return sum(len(name) for name, _ in self.headers) + sum(len(each.text) for each in contents if each)


def content_of(found: bytes | str | None) -> Content | None:
    """Return bytes as they are shown."""
    if found is None:
        return None
    whole = found.encode() if isinstance(found, str) else found
    shown, is_cut = whole[:_MOST_SHOWN_BYTES], len(whole) > _MOST_SHOWN_BYTES
    try:
        text = shown.decode(errors="ignore" if is_cut and _is_text(whole) else "strict")
    except UnicodeDecodeError:
        return Content(text=shown.hex(" "), encoding="hex", bytes=len(whole), is_cut=is_cut)
    return Content(text=text, encoding="text", bytes=len(whole), is_cut=is_cut)


def _is_text(whole: bytes) -> bool:
    try:
        whole.decode()
    except UnicodeDecodeError:
        return False
    return True


def headers_of(message: Message) -> list[tuple[str, Any]]:
    """Return a record's headers as pairs."""
    found: Any = message.headers() or []
    return list(found.items()) if isinstance(found, dict) else list(found)


def record_of(message: Message, read: Callable[[Any], Content | None] = content_of) -> Record:
    """Return a record as it is shown; `read` says how keys and values are."""
    kind, timestamp_ms = message.timestamp()
    return Record(
        topic=str(message.topic()),
        partition=int(message.partition() or 0),
        offset=int(message.offset() or 0),
        timestamp_ms=timestamp_ms if kind else None,
        key=read(message.key()),
        value=read(message.value()),
        headers=[(name, content_of(value)) for name, value in headers_of(message)],
    )


def that_fit(records: Iterable[Record]) -> list[Record]:
    """Return the first of some records, as many as are held for one answer, and one at least."""
    fitting, left = list[Record](), MOST_HELD_BYTES
    for each in records:
        left -= each.held_bytes
        if left < 0 and fitting:
            break
        fitting.append(each)
    return fitting


def in_order(records: Iterable[Record]) -> list[Record]:
    """Sort records by time, and those of one partition by offset where times are equal."""
    return sorted(records, key=lambda each: (each.timestamp_ms or 0, each.partition, each.offset))
