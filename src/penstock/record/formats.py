"""The format versions of everything that Penstock writes and reads again, and the one check of them.

A version is raised when what was written before could not be read as it is. It cannot be ignored: what is newer or
older than this Penstock understands is refused, with one line, before anything is changed. What has another version
does not count as absent, and what has no version counts as version 0. A cache whose key is everything that it depends
on has no version.
"""

from collections.abc import Sequence

from penstock.errors import FormatNotUnderstood

CHECKPOINT = 1
"""`metadata.json`, `planned.json` and `committed.json`; also of stateful and real-time pipelines."""
GAPS = 1
"""Each line of `gaps.jsonl`."""
PIPELINE_FILES = 1
"""`pipeline.json`, `rate.json`, `restarts.json`, `columns.json`, `topics.json` and `status.json`."""
REPLAY = 1
"""`range.json` and `letters.json` of a replay."""
RUNS = 1
"""`penstock.db`, the record of runs."""
CLUSTER = 1
"""`cluster.json` of a local cluster."""
SERVICE = 1
"""`service.json`, `launch.json` and `status.json` of a service beside it."""
SYSTEM = 1
"""`system.json`, what `penstock up` has started."""
DEAD_LETTER = 1
"""The headers that a dead letter has behind those of its record."""
LEDGER = 1
"""Each record of the dead letters' ledger, and `ledger.json`."""
KAFKA_RECORD = 2
"""The headers that a `kafka` sink adds to those of a record."""
KAFKA_POSITIONS = 1
"""What is kept beside the offsets that are committed to Kafka: a `kafka` sink's, the dead letters' and the lag.

Raised with `DEAD_LETTER`, too: a pipeline that goes on from a position has letters of the version that belongs to it,
and whoever else has written to its dead-letter topic cannot stop it with another.
"""
JSON_FILES = 1
"""Names and coordinates of a `json` sink's files, and `.newest.json`."""
DELTA_TABLE = 1
"""Positions and coordinates in a Delta table."""
ICEBERG_TABLE = 1
"""Positions and coordinates in an Iceberg table, and the record of files that are offered to it."""
POSTGRES_TABLE = 1
"""Positions and coordinates in PostgreSQL."""

HEADER = "penstock.format"
"""The header by which a record says its version; behind all others, so that no header of the user's is taken for it."""
KEY = "format"
"""What the version is called in JSON, in a table's column, and behind `penstock.` in a table's properties."""


def require_format(what: str, found: object, understood: int, *, otherwise: str = "") -> None:
    """Raise `FormatNotUnderstood` unless `found` is the version that is understood; `otherwise` is another way out."""
    if type(found) is int and found == understood:
        return
    version = 0 if found is None else found
    raise FormatNotUnderstood(
        f"{what} has format version {str(version)[:20]}, and this Penstock understands {understood}",
        safe="Nothing was read from it and nothing was changed",
        fix=f"Use the Penstock that wrote it{f', or {otherwise}' if otherwise else ''}",
    )


def metadata_of(*words: str) -> str:
    """Return what is kept beside an offset that is committed to Kafka: the version, then these words."""
    return " ".join([f"{KEY}={KAFKA_POSITIONS}", *filter(None, words)])


def metadata_words(what: str, metadata: str | None) -> list[str]:
    """Read the words that are kept beside an offset; raise `FormatNotUnderstood` if they have another version."""
    first, *words = (metadata or "").split(" ")
    name, _, version = first.partition("=")
    require_format(what, version_in(version) if name == KEY else None, KAFKA_POSITIONS)
    return words


def version_in(text: str | bytes | None) -> object:
    """Read a version from text, such as a header; text that is not a number is returned as it is."""
    if text is None:
        return None
    plain = text.decode(errors="replace") if isinstance(text, bytes) else text
    return int(plain) if plain.isascii() and plain.isdecimal() and len(plain) < len(str(2**31)) else plain


def version_of(headers: Sequence[tuple[str, bytes | None]]) -> object:
    """Return the version that the last header says; None if that is another header."""
    name, value = headers[-1] if headers else ("", None)
    return version_in(value or b"") if name == HEADER else None
