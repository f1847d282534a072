"""The truth: the final standings of every finished game, one JSON line a player.

A game's lines are written together, from the first to fall (rank N) to the winner (rank 1). A game is in the file if
its winner is, so one that a crash cut short is known as such: it is not read, and the next writer takes it out.
"""

from collections.abc import Iterable
from pathlib import Path
from types import TracebackType
from typing import Self

import orjson
from pydantic import BaseModel, Field, ValidationError

from penstock.config.complaints import in_words
from penstock.errors import BadInput, NotFound
from penstock.lab.simulator.game import Standing

_NEWLINE = orjson.OPT_APPEND_NEWLINE


class TrueStanding(BaseModel, frozen=True, extra="forbid"):
    """How a player came out of a game."""

    game_id: str = Field(description="The game.")
    user: str = Field(description="The player.")
    hero_id: str = Field(description="The player's hero.")
    rank: int = Field(ge=1, description="1 for the winner, up to the number of players for the first to fall.")
    damage_dealt: int = Field(ge=0, description="Health that the player took off others.")
    damage_received: int = Field(ge=0, description="Health that others took off the player.")
    rounds: int = Field(ge=1, description="Rounds that the game took.")


class TruthWriter:
    """Adds finished games to a file; `fresh` empties it first. Not for several processes at once."""

    def __init__(self, path: Path, *, fresh: bool = False) -> None:
        self.path = path
        path.parent.mkdir(parents=True, exist_ok=True)
        if not fresh and path.exists():
            _cut_to_whole_games(path)
        self._file = path.open("wb" if fresh else "ab", buffering=0)

    def write(self, standings: Iterable[Standing]) -> None:
        """Add finished games, whole."""
        lines = b"".join(orjson.dumps(standing, option=_NEWLINE) for standing in standings)
        written = self._file.write(lines) if lines else 0
        while written < len(lines):
            written += self._file.write(lines[written:])

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self.close()


def read_truth(path: Path) -> list[TrueStanding]:
    """Return the standings of all whole games in the order in which they ended."""
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        raise NotFound(f"there is no truth file {path}", fix="Write one with: penstock sim run --truth FILE") from None
    standings = []
    for number, line in enumerate(content[: _whole_length(content)].splitlines(), start=1):
        try:
            standings.append(TrueStanding.model_validate_json(line))
        except ValidationError as error:
            what = in_words(error.errors(include_url=False, include_input=False)[0])
            raise BadInput(f"line {number} of {path} is not a standing: {what}") from None
    return standings


def _whole_length(content: bytes) -> int:
    """Return the length of what ends with a winner's line."""
    end = content.rfind(b"\n") + 1
    while end and b'"rank":1,' not in content[content.rfind(b"\n", 0, end - 1) + 1 : end]:
        end = content.rfind(b"\n", 0, end - 1) + 1
    return end


def _cut_to_whole_games(path: Path) -> None:
    with path.open("r+b") as file:
        file.truncate(_whole_length(file.read()))
