"""The podium that pipelines have landed beside the truth that game servers have written, for the newest games."""

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Literal

import orjson
from pydantic import BaseModel, Field

from penstock.config.settings import Settings
from penstock.errors import PenstockError
from penstock.operate.known_tables import known_tables
from penstock.sinks.table_query import rows_of
from penstock.sinks.tables import open_table

_TABLE, _PIPELINE = "game_podium", "game-podium"
_TAIL_BYTES = 256 * 1024
_GAME_ID = re.compile(r"[\w-]{1,64}")
_COMPARED = ("hero_id", "rank", "damage_dealt", "damage_received", "rounds")
_MOST_PLAYERS = 6

Truth = dict[str, list[dict[str, Any]]]


class PodiumRow(BaseModel, frozen=True):
    """One player of one game: in truth, and in the table."""

    game_id: str = Field(description="The game.")
    user: str = Field(description="The player.")
    true_rank: int = Field(description="Rank in truth, 1 for the winner.")
    rank: int | None = Field(description="Rank in the table; none if it is not there.")
    true_damage: int = Field(description="Damage dealt, in truth.")
    damage: int | None = Field(description="Damage dealt, by the table.")
    state: Literal["same", "differs", "not there yet"] = Field(description="Whether every column agrees.")


class Podium(BaseModel, frozen=True):
    """The newest games, and what the table has of them."""

    table: str | None = Field(description="The table that was compared; none if no pipeline has landed one.")
    rows: list[PodiumRow] = Field(description="Players of the newest games, the newest game first, by rank.")


def compare(settings: Settings, games: int) -> Podium:
    """Read the end of the truth and the rows of the same games."""
    truth = newest_truth(sorted((settings.home / "superhero").glob("truth*.jsonl")), games)
    name, landed = _landed(settings, list(truth))
    return Podium(
        table=name,
        rows=[
            _row(right, landed.get((game, right["user"])))
            for game in reversed(truth)
            for right in sorted(truth[game], key=lambda each: int(each["rank"]))
        ],
    )


def newest_truth(files: Iterable[Path], games: int) -> Truth:
    """Return the last whole games of each file; of a long file only its end is read."""
    found: Truth = {}
    for path in files:
        with path.open("rb") as file:
            length = file.seek(0, 2)
            file.seek(max(0, length - _TAIL_BYTES))
            lines = file.read().splitlines(keepends=True)
        here: Truth = {}
        for line in lines[1:] if length > _TAIL_BYTES else lines:
            if line.endswith(b"\n"):
                standing = orjson.loads(line)
                here.setdefault(standing["game_id"], []).append(standing)
        # From the first to fall to the winner: without those, it was cut off at its beginning or end.
        whole = [game for game, each in here.items() if each[0]["rank"] == len(each) and each[-1]["rank"] == 1]
        found |= {game: here[game] for game in whole[-games:] if _GAME_ID.fullmatch(game)}
    return dict(list(found.items())[-games:])


def _landed(settings: Settings, games: list[str]) -> tuple[str | None, dict[tuple[str, str], dict[str, Any]]]:
    """Return the rows of these games by game and player, and the name of their table."""
    known = [each for each in known_tables(settings) if each.path.name == _TABLE or _PIPELINE in each.pipelines]
    if not known:
        return None, {}
    where = "game_id IN ({})".format(", ".join(f"'{each}'" for each in games)) if games else "FALSE"
    try:
        found = rows_of(open_table(known[0].path), columns=[], where=where, limit=len(games) * _MOST_PLAYERS + 1)
    except PenstockError:  # it is being made
        return None, {}
    return known[0].name, {(each["game_id"], each["user"]): each for each in found.to_pylist()}


def _row(right: dict[str, Any], landed: dict[str, Any] | None) -> PodiumRow:
    same = landed is not None and all(landed[name] == right[name] for name in _COMPARED)
    return PodiumRow(
        game_id=right["game_id"],
        user=right["user"],
        true_rank=right["rank"],
        rank=landed["rank"] if landed else None,
        true_damage=right["damage_dealt"],
        damage=landed["damage_dealt"] if landed else None,
        state="same" if same else "differs" if landed else "not there yet",
    )
