"""The judge: compares what was sent with what landed, and the workers' tables with the simulator's truth. Pure.

It knows nothing of Penstock's positions or decoders: a record counts as good by a rule of its own, and everything is
matched by the record's partition and offset.
"""

import datetime
import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, Field

from penstock.lab.simulator.heroes import BY_ID
from penstock.lab.simulator.truth import TrueStanding

RecordId = tuple[int, int]
"""Partition and offset."""

_SHOWN = 3
_REQUIRED = ("at", "level", "logger", "message", "game_id")
_PLAYER = ("game_id", "user")
_METRICS = ("games", "damage_dealt", "damage_received", "wins", "losses")


class Difference(BaseModel, frozen=True):
    """One difference between what was sent and what was landed."""

    where: str = Field(description="The sink or table.")
    what: str = Field(description="What is wrong.")
    count: int = Field(description="How many records or rows.")
    examples: list[str] = Field(description="The first few of them.")


@dataclass(frozen=True)
class Landed:
    """A row of a sink: the record that it says it came from, and the event in it."""

    record_id: RecordId
    event: Mapping[str, Any]


@dataclass(frozen=True)
class Letter:
    """A dead letter: the record that it says it came from, and its bytes."""

    record_id: RecordId
    value: bytes


class _Differences:
    """Collects differences by kind, in the order in which the kinds were first seen."""

    def __init__(self, where: str) -> None:
        self._where = where
        self._seen: dict[str, list[str]] = defaultdict(list)

    def add(self, what: str, example: str) -> None:
        self._seen[what].append(example)

    def listed(self) -> list[Difference]:
        return [
            Difference(where=self._where, what=what, count=len(examples), examples=examples[:_SHOWN])
            for what, examples in self._seen.items()
        ]


def meant(value: bytes) -> dict[str, Any] | None:
    """Read an event as its sender meant it; None for a malformed record."""
    try:
        event = json.loads(value)
    except ValueError:
        return None
    if not isinstance(event, dict) or not all(isinstance(event.get(name), str) for name in _REQUIRED):
        return None
    return event


def judge_sending(sent: Mapping[RecordId, bytes], *, events: int, malformed: int) -> list[Difference]:
    """Compare the topic with what the simulator says it sent."""
    found = _Differences("topic")
    bad = sum(meant(value) is None for value in sent.values())
    for what, counted, there in (("events", events, len(sent) - bad), ("malformed records", malformed, bad)):
        if counted != there:
            found.add(f"the simulator sent {counted} {what}, and the topic holds {there}", f"{there - counted:+d}")
    return found.listed()


def judge_landing(
    sink: str, sent: Mapping[RecordId, bytes], rows: Iterable[Landed], letters: Iterable[Letter]
) -> list[Difference]:
    """Nothing lost, doubled, invented, moved or changed: each record is one row or one dead letter, as it was sent."""
    found = _Differences(sink)
    landed: dict[RecordId, list[Landed]] = defaultdict(list)
    dead: dict[RecordId, list[Letter]] = defaultdict(list)
    for row in rows:
        landed[row.record_id].append(row)
    for letter in letters:
        dead[letter.record_id].append(letter)
    for record_id, value in sent.items():
        here, buried = landed.get(record_id, []), dead.get(record_id, [])
        if len(here) + len(buried) != 1:
            found.add("there more than once" if here or buried else "lost", _named(record_id))
        elif wrong := _misplaced(value, here, buried):
            found.add(wrong, _named(record_id))
        elif here and (changed := _changed(meant(value) or {}, here[0].event)):
            found.add("not what was sent", f"{_named(record_id)}: {changed}")
    for record_id in sorted((landed.keys() | dead.keys()) - sent.keys()):
        found.add("never sent", _named(record_id))
    return found.listed()


def _misplaced(value: bytes, landed: Sequence[Landed], dead: Sequence[Letter]) -> str:
    """Return what is wrong with where a record went; nothing if that is right."""
    if meant(value) is not None:
        return "a good event among the dead letters" if dead else ""
    if landed:
        return "malformed, and landed all the same"
    return "a dead letter that is not as it was sent" if dead[0].value != value else ""


def judge_reasons(letters: Mapping[str, int], *, malformed: int) -> list[Difference]:
    """Compare the dead letters, counted by reason, with what the simulator says it sent malformed."""
    found = _Differences("dead letters")
    if sum(letters.values()) != malformed:
        counted = ", ".join(f"{count} {reason}" for reason, count in letters.items()) or "none"
        found.add(
            f"{malformed} records were sent malformed, and the reasons add up to {sum(letters.values())}", counted
        )
    return found.listed()


def judge_podium(rows: Sequence[Mapping[str, Any]], truth: Sequence[TrueStanding]) -> list[Difference]:
    """Every column of every standing is as the game has it."""
    return _judge_table("game_podium", rows, [each.model_dump() for each in truth])


def judge_meta(rows: Sequence[Mapping[str, Any]], truth: Sequence[TrueStanding]) -> list[Difference]:
    """Every player of every game has the hero that the truth names, with what the roster says of it."""
    expected = []
    for each in truth:
        hero = BY_ID[each.hero_id]
        expected.append(
            {
                "game_id": each.game_id,
                "user": each.user,
                "hero_id": hero.hero_id,
                "hero": hero.name,
                "attack": hero.attack,
                "health": hero.health,
            }
        )
    return _judge_table("game_meta", rows, expected)


def judge_metrics(rows: Iterable[Mapping[str, Any]], truth: Sequence[TrueStanding]) -> list[Difference]:
    """Add up what each hero did over all days: that is the truth. It counts no turns, so neither does this."""
    totals: dict[str, Counter[str]] = {}
    for row in rows:
        totals.setdefault(row["hero_id"], Counter()).update({name: row[name] for name in _METRICS})
    expected: dict[str, Counter[str]] = {}
    for each in truth:
        won = each.rank == 1
        expected.setdefault(each.hero_id, Counter()).update(
            games=1, damage_dealt=each.damage_dealt, damage_received=each.damage_received, wins=won, losses=not won
        )
    found, right = (
        [{"hero_id": hero, **{name: counted[name] for name in _METRICS}} for hero, counted in each.items()]
        for each in (totals, expected)
    )
    return _judge_table("game_metrics", found, right, ("hero_id",))


def _judge_table(
    table: str, rows: Sequence[Mapping[str, Any]], truth: Sequence[Mapping[str, Any]], key: Sequence[str] = _PLAYER
) -> list[Difference]:
    found = _Differences(table)
    there: dict[str, list[Mapping[str, Any]]] = defaultdict(list)
    for row in rows:
        there[" ".join(str(row[name]) for name in key)].append(row)
    for right in truth:
        named = " ".join(str(right[name]) for name in key)
        same = there.pop(named, [])
        if not same:
            found.add("a row is missing", named)
        elif len(same) > 1:
            found.add("there more than once", named)
        elif wrong := [
            f"{name} {same[0].get(name)}, truth {is_}" for name, is_ in right.items() if same[0].get(name) != is_
        ]:
            found.add("not the truth", f"{named}: {', '.join(wrong)}")
    for named in there:
        found.add("nothing that happened", named)
    return found.listed()


def _named(record_id: RecordId) -> str:
    return f"partition {record_id[0]} offset {record_id[1]}"


def _changed(event: Mapping[str, Any], row: Mapping[str, Any]) -> str:
    """Name the first field that differs; nothing if none does."""
    for name in sorted(event.keys() | row.keys()):
        was, is_ = event.get(name), row.get(name)
        if name == "at":
            was, is_ = _moment(was), _moment(is_)
        if was != is_:
            return f"{name} is {is_}, was {was}"
    return ""


def _moment(value: Any) -> datetime.datetime | None:
    if isinstance(value, str):
        return datetime.datetime.fromisoformat(value)
    return value if isinstance(value, datetime.datetime) else None
