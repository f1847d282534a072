"""Dead letters as they are read back. Sending is in another module, so that reading imports little."""

from collections.abc import Callable, Iterator
from typing import Annotated, Any

import orjson
from confluent_kafka import Message
from pydantic import BaseModel, Field

from penstock.delivery.dead_envelope import PREFIX, envelope
from penstock.errors import FormatNotUnderstood
from penstock.kafka.connection import Connection
from penstock.kafka.reader import Reader

_LONGEST = 4_096
"""Characters of what names something, a file's path included. No letter of ours has more, and anybody may write one."""
_LONGEST_SAID = 1_000
_LONGEST_LIST = 65_536
_SAID = {"message", "line"}
Number = Annotated[int, Field(ge=-(2**63), lt=2**63)]
"""A number that Kafka could have: no larger one can be divided, or be shown as a time."""


class DeadLetter(BaseModel, frozen=True):
    """A failed record, as the dead-letter topic holds it."""

    dead_topic: str = Field(description="The dead-letter topic.")
    dead_partition: Number = Field(description="Partition there.")
    dead_offset: Number = Field(description="Offset there.")
    pipeline: str = Field(description="The pipeline that failed on it.")
    stage: str = Field(description="decode, step, handler, sql, expect, where or sink.")
    error: str = Field(description="Class of the error.")
    message: str = Field(description="What the error said.")
    line: str | None = Field(None, description="The line of the user's code that raised it, as file:line and its text.")
    sink: str | None = Field(description="The sink that refused it; none if it failed for all.")
    sinks: list[str] = Field(default=[], description="All sinks that the pipeline had when it failed.")
    topic: str = Field(description="The topic it came from.")
    topic_id: str = Field(description="That topic's id.")
    partition: Number = Field(description="Partition it came from.")
    offset: Number = Field(description="Offset it came from.")
    source_id: str = Field(description="What was being read: the topic's id, or a replay's.")
    at_partition: Number = Field(description="Partition of what was being read.")
    at: Number = Field(description="Offset there.")
    attempt: Number = Field(description="How many times it has failed.")
    failed_ms: Number = Field(description="When it failed, in milliseconds since 1970.")
    timestamp_ms: Number = Field(description="The record's own timestamp, as Kafka had it.")
    stub: str | None = Field(None, description="Why the record itself is not in the letter; none if it is.")
    value_bytes: Number | None = Field(None, description="Size of the value, if that is not in the letter.")
    value_sha256: str | None = Field(None, description="SHA-256 of the value, if that is not in the letter.")


def understand(message: Message) -> DeadLetter | None:
    """Read the envelope; None if this is not a dead letter of Penstock.

    Raise `FormatNotUnderstood` for another version's.
    """
    listed: Any = message.headers() or ()
    try:
        fields = _bounded(envelope(listed, f"{message.topic()}/{message.partition()} offset {message.offset()}"))
        return DeadLetter(
            dead_topic=str(message.topic()),
            dead_partition=int(message.partition() or 0),
            dead_offset=int(message.offset() or 0),
            pipeline=fields["pipeline"],
            stage=fields["stage"],
            error=fields["error"],
            message=fields["message"],
            line=fields["line"] or None,
            sink=fields["sink"] or None,
            sinks=orjson.loads(fields["sinks"]),
            topic=fields["topic"],
            topic_id=fields["topic_id"],
            partition=int(fields["partition"]),
            offset=int(fields["offset"]),
            source_id=fields["source_id"],
            at_partition=int(fields["at_partition"]),
            at=int(fields["at"]),
            attempt=int(fields["attempt"]),
            failed_ms=int(fields["failed_ms"]),
            timestamp_ms=int(fields["timestamp_ms"]),
            stub=fields["stub"] or None,
            value_bytes=int(fields["value_bytes"]) if fields["value_bytes"] else None,
            value_sha256=fields["value_sha256"] or None,
        )
    except (KeyError, ValueError):
        return None


def _bounded(fields: dict[str, str]) -> dict[str, str]:
    """Cut what a letter says; raise `ValueError` for a name that is too long: many letters are held at a time."""
    for name, text in fields.items():
        if name not in _SAID and len(text) > (_LONGEST_LIST if name == "sinks" else _LONGEST):
            raise ValueError(f"no dead letter of ours has so long a {name}")
    return {name: text[:_LONGEST_SAID] if name in _SAID else text for name, text in fields.items()}


def read(
    connection: Connection,
    *topics: str,
    pipeline: str | None = None,
    wait_for_open_transactions: bool = False,
    on_unknown: Callable[[FormatNotUnderstood], None] | None = None,
) -> Iterator[DeadLetter]:
    """Read the dead letters in one topic or several, of one pipeline or of all.

    Letters behind an open transaction are left out, unless they are waited for. One of another version raises
    `FormatNotUnderstood`, or is handed to `on_unknown`; letters that name another pipeline are left out.
    """
    if not topics:
        return
    with Reader(connection, *topics, wait_for_open_transactions=wait_for_open_transactions) as reader:
        for message in reader:
            if pipeline is not None and _pipeline_of(message) not in (None, pipeline):
                continue
            try:
                letter = understand(message)
            except FormatNotUnderstood as error:
                if on_unknown is None:
                    raise
                on_unknown(error)
                continue
            if letter is not None and pipeline in (None, letter.pipeline):
                yield letter


def _pipeline_of(message: Message) -> str | None:
    """Return the pipeline that a letter names, in whatever version."""
    listed: Any = message.headers() or ()
    said = [value for name, value in listed if name == f"{PREFIX}pipeline"]
    return (said[-1] or b"").decode(errors="replace") if said else None
