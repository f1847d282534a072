"""What a bot does when it is its turn: strike somebody healthy, and now and then make a mistake.

Its dice hang on the game's id and its name alone, so a bot behind a socket decides as one without.
"""

from collections.abc import Sequence

from penstock.lab.simulator.dice import ROLLS, Dice


class Bot:
    """One player in one game."""

    __slots__ = ("_dice", "_mistakes", "user")

    def __init__(self, game_id: str, user: str, *, mistakes: float) -> None:
        self.user = user
        self._mistakes = mistakes * ROLLS
        self._dice = Dice.named(f"{game_id}/{user}")

    def choose(self, alive: Sequence[str], fallen: Sequence[str]) -> str | None:
        """Name the enemy to strike, or nobody: then the turn is passed."""
        dice = self._dice
        roll = dice.roll()
        if roll < self._mistakes:
            # Half of the mistakes are blows at the dead, once there are any.
            return dice.pick(fallen) if fallen and dice.below(2) else None
        # One of all but the last; the last stands in for the bot itself, so that everybody else is as likely.
        enemy = alive[roll % (len(alive) - 1)]
        return enemy if enemy != self.user else alive[-1]
