"""Dice whose whole state is one number, so that a game can be kept as text and go on elsewhere.

A linear congruential generator with Knuth's constants, of which only the upper half is shown: even enough for a game,
quick in Python, and no use for secrets.
"""

import hashlib
from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")

ROLLS = 2**32
_MASK = 2**64 - 1
_FACTOR = 6364136223846793005
_STEP = 1442695040888963407


class Dice:
    """The same name rolls the same numbers, on every machine and in every process."""

    __slots__ = ("state",)

    def __init__(self, state: int) -> None:
        self.state = state

    @classmethod
    def named(cls, name: str) -> "Dice":
        """Return the dice of this name, as they were before the first roll."""
        return cls(int.from_bytes(hashlib.blake2b(name.encode(), digest_size=8).digest()))

    def roll(self) -> int:
        """Roll a number below `ROLLS`."""
        self.state = state = (self.state * _FACTOR + _STEP) & _MASK
        return state >> 32

    def below(self, limit: int) -> int:
        """Roll a number from 0 to one less than the limit."""
        self.state = state = (self.state * _FACTOR + _STEP) & _MASK
        return (state >> 32) * limit >> 32

    def pick(self, things: Sequence[T]) -> T:
        """Choose one."""
        return things[self.below(len(things))]

    def sample(self, things: Sequence[T], count: int) -> list[T]:
        """Choose this many different ones, in the order in which they were drawn."""
        drawn: list[T] = []
        while len(drawn) < count:
            # Drawn again rather than taken out: copying a long list costs more than a second throw.
            thing = things[self.below(len(things))]
            if thing not in drawn:
                drawn.append(thing)
        return drawn
