"""The best players over all games: by the podium that the workers made, beside the truth. Pure."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pydantic import BaseModel, Field

from penstock.lab.simulator.truth import TrueStanding

_SHOWN = 10


class Standing(BaseModel, frozen=True):
    """One player, twice: by the podium and in truth."""

    user: str = Field(description="The player.")
    wins: int = Field(description="Games won, by the podium.")
    true_wins: int = Field(description="Games won, in truth.")
    damage: int = Field(description="Damage dealt in all games, by the podium.")
    true_damage: int = Field(description="Damage dealt in all games, in truth.")
    games: int = Field(description="Games of the player that the podium has.")
    true_games: int = Field(description="Games that the player was in.")

    @property
    def true_place(self) -> tuple[int, int, str]:
        """Who won more comes first, then who dealt more damage."""
        return -self.true_wins, -self.true_damage, self.user


def best(podium: Iterable[Mapping[str, Any]], truth: Sequence[TrueStanding]) -> list[Standing]:
    """Return the ten players who won most in truth, and whoever else the podium has and the truth has not."""
    found = _totals(podium)
    right = _totals(each.model_dump() for each in truth)
    everybody = [
        Standing(
            user=user,
            wins=found[user][0],
            true_wins=right[user][0],
            damage=found[user][1],
            true_damage=right[user][1],
            games=found[user][2],
            true_games=right[user][2],
        )
        for user in {*found, *right}
    ]
    return sorted(everybody, key=lambda each: each.true_place)[:_SHOWN]


def _totals(rows: Iterable[Mapping[str, Any]]) -> dict[str, tuple[int, int, int]]:
    """Add up wins, damage and games by player."""
    totals: dict[str, tuple[int, int, int]] = defaultdict(lambda: (0, 0, 0))
    for row in rows:
        wins, damage, games = totals[row["user"]]
        totals[row["user"]] = (wins + (row["rank"] == 1), damage + row["damage_dealt"], games + 1)
    return totals
