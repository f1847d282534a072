"""Dead letters: counted by reason, one in full, replayed and discarded."""

from http import HTTPStatus
from typing import Annotated

from fastapi import APIRouter, Depends, Path, Query
from pydantic import BaseModel, Field, model_validator

from penstock.console.actions import ActionRoute
from penstock.console.api.replay_state import ReplayId, ReplayState, state_of
from penstock.console.asking import NEEDS, FromConsole
from penstock.console.letters import MOST_LISTED
from penstock.console.records import Record
from penstock.console.service import Console
from penstock.delivery.dead_envelope import PREFIX
from penstock.delivery.dead_letter import DeadLetter, understand
from penstock.delivery.ledger import Ledger
from penstock.delivery.selection import Filter, Reason, only_pipeline
from penstock.errors import Conflict, FormatNotUnderstood, NotFound
from penstock.kafka.reader import read_one
from penstock.operate import replay as replays
from penstock.operate.known_ledger import note_ledger
from penstock.operate.known_pipelines import file_of_name
from penstock.wording import plural

router = APIRouter(prefix="/dead-letters", tags=["dead letters"], route_class=ActionRoute)


class Reasons(BaseModel, frozen=True):
    """Open dead letters, counted by reason."""

    total: int = Field(description="How many letters.")
    reasons: list[Reason] = Field(description="The most frequent first.")
    left_out: list[str] = Field(description="What was not understood: topics of others whose names end in .dead.")


class DeadLetterDetail(BaseModel, frozen=True):
    """One dead letter with its record."""

    letter: DeadLetter = Field(description="Why, where and when it failed.")
    record: Record = Field(description="The record as it was, without the headers that say why it failed.")


class LetterId(BaseModel, frozen=True, extra="forbid"):
    """A dead letter, by its position in the dead-letter topic."""

    topic: str = Field(min_length=1, max_length=249, description="The dead-letter topic.")
    partition: int = Field(ge=0, description="Partition.")
    offset: int = Field(ge=0, description="Offset.")


class Chosen(BaseModel, frozen=True, extra="forbid"):
    """The letters to replay or discard: those that a filter selects, or single ones."""

    filter: Filter | None = Field(None, description="A filter; or name them with `letters`.")
    letters: list[LetterId] | None = Field(
        None, min_length=1, max_length=MOST_LISTED, description="These letters; those no longer open are left out."
    )
    count: int | None = Field(None, ge=0, description="How many of them are open; without it they are only counted.")

    @model_validator(mode="after")
    def _says_which(self) -> "Chosen":
        if (self.filter is None) == (self.letters is None):
            raise ValueError("give either filter or letters")
        return self


class Discarded(BaseModel, frozen=True):
    """What was, or would be, discarded."""

    found: int = Field(description="Chosen letters that are open.")
    gone: int = Field(description="Letters that were named and are not open: replayed or discarded already.")
    discarded: int = Field(description="How many were settled; somebody else may have settled some meanwhile.")
    is_done: bool = Field(description="Whether it was done; without a count it is only counted.")


class Replayed(BaseModel, frozen=True):
    """A replay that was, or would be, begun."""

    found: int = Field(description="Letters that can be replayed.")
    gone: int = Field(description="Letters that were named and are not open: replayed or discarded already.")
    left_out: list[str] = Field(description="Letters that cannot be replayed, and why.")
    replay: str | None = Field(description="Its id; null if the letters were only counted.")


class LettersReplayState(ReplayState):
    """State of a replay of dead letters."""

    letters: int = Field(description="How many it has.")


def _filter(
    topic: Annotated[str | None, Query(description="One dead-letter topic.")] = None,
    pipeline: Annotated[str | None, Query(description="Only those of this pipeline.")] = None,
    error: Annotated[str | None, Query(description="Class of the error, or a part of what it said.")] = None,
    stage: Annotated[str | None, Query(description="decode, step, handler, sql, expect, where or sink.")] = None,
    since: Annotated[str | None, Query(description="Failed since then: a time, or 15m.")] = None,
    until: Annotated[str | None, Query(description="Failed before then.")] = None,
) -> Filter:
    return Filter(topic=topic, pipeline=pipeline, error=error, stage=stage, since=since, until=until)


Which = Annotated[Filter, Depends(_filter)]


@router.get("", summary="Count dead letters by reason", dependencies=NEEDS["viewer"])
def count_letters(console: FromConsole, which: Which) -> Reasons:
    """Return the reasons of the open dead letters, the most frequent first."""
    found = console.letters.look(which)
    total = sum(each.letters for each in found.reasons)
    return Reasons(total=total, reasons=found.reasons, left_out=found.left_out)


@router.get("/letters", summary="List dead letters", dependencies=NEEDS["viewer"])
def list_letters(
    console: FromConsole,
    which: Which,
    count: Annotated[int, Query(ge=1, le=MOST_LISTED, description="How many at most.")] = 100,
) -> list[DeadLetter]:
    """Return open dead letters, without their records."""
    return console.letters.look(which).first[:count]


@router.get("/letters/{topic}/{partition}/{offset}", summary="One dead letter", dependencies=NEEDS["viewer"])
def get_letter(
    console: FromConsole,
    topic: Annotated[str, Path(max_length=249, description="The dead-letter topic.")],
    partition: Annotated[int, Path(ge=0, description="Partition.")],
    offset: Annotated[int, Path(ge=0, description="Offset.")],
) -> DeadLetterDetail:
    """Return why a record failed, and the record itself."""
    message = read_one(console.connection(), topic, partition, offset)
    letter = understand(message) if message is not None else None
    if message is None or letter is None:
        raise NotFound(f"there is no dead letter at offset {offset} of {topic}/{partition}")
    record = console.masks.record_of(message)
    own = [(name, value) for name, value in record.headers if not name.startswith(PREFIX)]
    return DeadLetterDetail(letter=console.masks.letter(letter), record=record.model_copy(update={"headers": own}))


@router.post("/discard", summary="Discard dead letters", dependencies=NEEDS["admin"])
def discard_letters(console: FromConsole, chosen: Chosen) -> Discarded:
    """Count the chosen letters; with that count, settle them for good. The records stay in their topic."""
    connection = console.connection()
    letters, gone = _letters(console, chosen)
    if chosen.count is None:
        return Discarded(found=len(letters), gone=gone, discarded=0, is_done=False)
    _require_count(chosen.count, len(letters))
    done = Ledger(connection).discard(letters) if letters else 0
    note_ledger(console.settings)
    return Discarded(found=len(letters), gone=gone, discarded=done, is_done=True)


@router.post("/replay", summary="Replay dead letters", status_code=HTTPStatus.ACCEPTED, dependencies=NEEDS["operator"])
def replay_letters(console: FromConsole, chosen: Chosen) -> Replayed:
    """Count the chosen letters; with that count, send them through their pipeline again, in the background."""
    letters, gone = _letters(console, chosen)
    if not letters:
        _require_count(chosen.count or 0, 0)
        return Replayed(found=0, gone=gone, left_out=[], replay=None)
    path = file_of_name(console.settings, only_pipeline(letters))
    selection = replays.replayable(letters, path)
    found, left_out = len(selection.letters), selection.left_out
    if chosen.count is None:
        return Replayed(found=found, gone=gone, left_out=left_out, replay=None)
    _require_count(chosen.count, found)
    begun = replays.begin(console.settings, selection.letters, path)
    console.commands.start(begun.id, ["dead", "replay", "--resume", begun.id])
    return Replayed(found=found, gone=gone, left_out=left_out, replay=begun.id)


@router.get("/replays/{replay_id}", summary="State of a replay", dependencies=NEEDS["viewer"])
def get_replay(console: FromConsole, replay_id: ReplayId) -> LettersReplayState:
    """Return whether a replay is running, done, or waiting to be resumed."""
    found = replays.find(console.settings, replay_id)
    stands = state_of(console, replay_id, is_done=found.state == "done", is_given_up=found.state == "given_up")
    return LettersReplayState(**dict(stands), letters=found.count)


def _letters(console: Console, chosen: Chosen) -> tuple[list[DeadLetter], int]:
    """Return the chosen letters that are open, and how many of those named are not."""
    if chosen.filter is not None:
        return list(console.letters.select(chosen.filter, _passed_over)), 0
    wanted = {(each.topic, each.partition, each.offset) for each in chosen.letters or ()}
    found = [
        letter
        for topic in sorted({topic for topic, _, _ in wanted})
        for letter in console.letters.select(Filter(topic=topic), _passed_over)
        if (letter.dead_topic, letter.dead_partition, letter.dead_offset) in wanted
    ]
    return found, len(wanted) - len(found)


def _require_count(expected: int, found: int) -> None:
    if expected != found:
        raise Conflict(
            f"{plural(found, 'dead letter')} {'is' if found == 1 else 'are'} open by now, and not {expected}",
            safe="Nothing was changed",
            fix="Count them again",
        )


def _passed_over(_: FormatNotUnderstood) -> None:
    """Leave out topics of others whose names end like those of dead letters."""
