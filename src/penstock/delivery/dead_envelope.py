"""The envelope of a dead letter: the headers behind the record's own that say what failed, and where."""

from collections.abc import Mapping, Sequence
from typing import Any

from penstock.record.formats import DEAD_LETTER, require_format, version_of

PREFIX = "penstock."
NOT_READ = "NotRead"
"""The error of a record that cannot even be read: its dead letter is a stub."""
ENVELOPE = (
    "pipeline",
    "stage",
    "error",
    "message",
    "line",
    "topic",
    "topic_id",
    "partition",
    "offset",
    "source_id",
    "at",
    "at_partition",
    "attempt",
    "failed_ms",
    "sink",
    "sinks",
    "timestamp_ms",
    "stub",
    "value_bytes",
    "value_sha256",
    "format",
)
"""The headers that a dead letter has behind the record's own, in this order; the last is the format version."""
_UNMISTAKABLE = {f"{PREFIX}{name}" for name in ("pipeline", "stage", "error")}
"""Headers by which a dead letter is known that says no version."""


def envelope(headers: Sequence[tuple[str, bytes | None]], where: str) -> dict[str, str]:
    """Read what Penstock added after the record's own headers; raise `ValueError` if it is missing.

    One of another version is `FormatNotUnderstood`: a letter that is passed over would be gone from every count.
    """
    version = version_of(headers)
    names = [name for name, _ in headers]
    if version is not None or ({*names} >= _UNMISTAKABLE and names[-1].startswith(PREFIX)):
        require_format(f"the dead letter at {where}", version, DEAD_LETTER)
    last = headers[-len(ENVELOPE) :]
    if [name for name, _ in last] != [f"{PREFIX}{name}" for name in ENVELOPE]:
        raise ValueError("no dead letter")
    return {name.removeprefix(PREFIX): (value or b"").decode() for name, value in last}


def enveloped(fields: Mapping[str, Any]) -> list[tuple[str, bytes | None]]:
    """Return the headers with these contents."""
    return [(f"{PREFIX}{name}", str(fields[name]).encode()) for name in ENVELOPE]


def dead_topic_of(source: str, template: str, pipeline: str) -> str:
    """Name the dead-letter topic; a topic's name cannot hold a file's path, so the pipeline's name takes its place."""
    return template.replace("{topic}", source if "/" not in source else pipeline)
