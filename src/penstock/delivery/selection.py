"""Choosing dead letters: by pipeline, error, stage and time; settled ones are left out."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress

from pydantic import BaseModel, Field

from penstock.delivery.dead_letter import DeadLetter, read
from penstock.delivery.ledger import Ledger
from penstock.errors import BadInput, FormatNotUnderstood, NotFound
from penstock.kafka import topics
from penstock.kafka.admin import Admin
from penstock.kafka.connection import Connection
from penstock.kafka.positions import Position

DEAD = ".dead"
"""How the names of dead-letter topics end, unless a pipeline says otherwise."""
_MOST_REASONS = 1_000


class Filter(BaseModel, frozen=True, extra="forbid"):
    """Criteria for dead letters; those left out match everything."""

    topic: str | None = Field(None, description="A dead-letter topic; all whose names end in .dead if left out.")
    pipeline: str | None = Field(None, description="The pipeline that failed.")
    error: str | None = Field(None, description="Class of the error, or a part of what it said.")
    stage: str | None = Field(None, description="decode, step, handler, sql, expect, where or sink.")
    since: str | None = Field(None, description="Failed at or after this time (2026-01-31T12:00, or 15m ago).")
    until: str | None = Field(None, description="Failed before this time.")

    def chosen(self, letters: Iterable[DeadLetter]) -> Iterator[DeadLetter]:
        """Return the letters that match; relative times count from the same moment for all."""
        since_ms = _moment_ms(self.since) if self.since is not None else None
        until_ms = _moment_ms(self.until) if self.until is not None else None
        return (letter for letter in letters if self._fits(letter, since_ms, until_ms))

    def fits_error(self, letter: DeadLetter) -> bool:
        """Return whether a letter has the error that is meant, if one is."""
        return self.error is None or self.error == letter.error or self.error in letter.message

    def _fits(self, letter: DeadLetter, since_ms: int | None, until_ms: int | None) -> bool:
        return (
            self.pipeline in (None, letter.pipeline)
            and self.stage in (None, letter.stage)
            and self.fits_error(letter)
            and (since_ms is None or letter.failed_ms >= since_ms)
            and (until_ms is None or letter.failed_ms < until_ms)
        )


def _moment_ms(text: str) -> int:
    with suppress(BadInput):
        position = Position.parse(text)
        if position.kind == "timestamp":
            return position.value
    raise BadInput(f"'{text}' is not a time: say 2026-01-31T12:00, or 15m for 15 minutes ago")


class Reason(BaseModel, frozen=True):
    """How many dead letters have one reason."""

    pipeline: str = Field(description="The pipeline.")
    stage: str = Field(description="Where it failed.")
    error: str = Field(description="Class of the error.")
    letters: int = Field(description="How many.")
    example: str = Field(description="What one of them said.")
    topic: str = Field(description="The dead-letter topic.")


def select(
    connection: Connection, wanted: Filter, on_unknown: Callable[[FormatNotUnderstood], None] | None = None
) -> Iterator[DeadLetter]:
    """Return the open dead letters that match.

    In a search of all topics, letters of another format go to `on_unknown`: anybody may have a topic of such a name. In
    a named topic they are an error. Raises `NotFound` if a topic is named that has none, and dead letters of its own.
    """
    ledger = Ledger(connection)
    settled = ledger.entries().settled
    names = [wanted.topic] if wanted.topic else dead_topics(connection)
    unknown = None if wanted.topic else on_unknown
    is_empty = True
    for letter in wanted.chosen(read(connection, *names, pipeline=wanted.pipeline, on_unknown=unknown)):
        if ledger.key_of(letter) not in settled:
            is_empty = False
            yield letter
    if is_empty and wanted.topic and f"{wanted.topic}{DEAD}" in dead_topics(connection):
        raise NotFound(
            f"topic '{wanted.topic}' holds no such dead letters", fix=f"Did you mean --topic {wanted.topic}{DEAD}?"
        )


def dead_topics(connection: Connection) -> list[str]:
    """List the topics that dead letters go to by default."""
    return [each.topic for each in topics.list_topics(Admin(connection)) if each.topic.endswith(DEAD)]


def reasons(letters: Iterable[DeadLetter]) -> list[Reason]:
    """Count letters by reason, most frequent first; what comes after a thousand reasons is counted together, last.

    What a letter says is the word of whoever may write to its topic, and each may say something else.
    """
    counts: Counter[tuple[str, str, str, str]] = Counter()
    examples: dict[tuple[str, str, str, str], str] = {}
    others = 0
    for letter in letters:
        key = (letter.pipeline, letter.stage, letter.error, letter.dead_topic)
        if key not in counts and len(counts) >= _MOST_REASONS:
            others += 1
            continue
        counts[key] += 1
        examples.setdefault(key, letter.message + (f" ({letter.line})" if letter.line else ""))
    found = [
        Reason(pipeline=key[0], stage=key[1], error=key[2], letters=count, example=examples[key], topic=key[3])
        for key, count in counts.most_common()
    ]
    more = f"reasons beyond the first {_MOST_REASONS:,}, which are not told apart"
    rest = Reason(pipeline="", stage="", error="", letters=others, example=more, topic="")
    return [*found, rest] if others else found


def only_pipeline(letters: Iterable[DeadLetter]) -> str:
    """Return the pipeline that all letters are of; raise `BadInput` if they are of several: a replay has one file."""
    names = sorted({letter.pipeline for letter in letters})
    if len(names) > 1:
        raise BadInput(
            f"these dead letters are of {len(names)} pipelines: {', '.join(names)}",
            safe="Nothing was replayed",
            fix="Replay those of one at a time, with --pipeline NAME",
        )
    return names[0]
