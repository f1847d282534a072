"""Which games a seed stands for: their ids, and who plays in each."""

import uuid
from collections.abc import Iterator
from dataclasses import dataclass

from penstock.lab.simulator.dice import Dice
from penstock.lab.simulator.game import LARGEST, SMALLEST

_SPACE = uuid.UUID("2b1f6c1e-6f0a-4c39-9d51-7d1f0b7d3c55")


@dataclass(frozen=True, slots=True)
class PlannedGame:
    """A game that will be played."""

    game_id: str
    users: tuple[str, ...]


def user_name(number: int) -> str:
    """Return the name of a player, counted from 0."""
    return f"USER{number:03d}"


def plan(players: int, games: int, seed: int, *, first: int = 0) -> Iterator[PlannedGame]:
    """Return this many games of 2 to 6 of these players; the same arguments give the same games."""
    name = f"{seed}/{first}/{players}"
    dice = Dice.named(f"plan/{name}")
    users = [user_name(number) for number in range(first, first + players)]
    for number in range(games):
        size = SMALLEST + dice.below(min(LARGEST, players) - SMALLEST + 1)
        game_id = str(uuid.uuid5(_SPACE, f"{name}/{number}"))
        yield PlannedGame(game_id, tuple(dice.sample(users, size)))
