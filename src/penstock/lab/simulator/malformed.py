"""Malformed records among the events: seeded, so that the same run has the same ones at the same places."""

import orjson

from penstock.lab.simulator.dice import ROLLS, Dice
from penstock.lab.simulator.events import EventKind, Fields, encode

KINDS = ("cut", "wrong type", "missing field", "text", "empty")


class Spoiler:
    """Makes malformed records, so many that they are this share of all records."""

    def __init__(self, share: float) -> None:
        self._after_an_event = share / (1 - share)
        self._dice: dict[str, Dice] = {}

    def after(self, kind: EventKind, fields: Fields) -> list[bytes]:
        """Return the malformed records that follow an event; each game has dice of its own."""
        game_id = fields["game_id"]
        dice = self._dice.get(game_id) or self._dice.setdefault(game_id, Dice.named(f"malformed/{game_id}"))
        made = []
        left = self._after_an_event
        while left > 0:
            if dice.roll() < left * ROLLS:
                made.append(_malformed(dice, kind, fields))
            left -= 1
        return made

    def forget(self, game_id: str) -> None:
        """Drop the dice of a game that is over."""
        self._dice.pop(game_id, None)


def _malformed(dice: Dice, kind: EventKind, fields: Fields) -> bytes:
    value = encode(kind, fields)
    match dice.pick(KINDS):
        case "cut":
            return value[: 1 + dice.below(len(value) - 1)]
        case "wrong type":
            return orjson.dumps({**orjson.loads(value), "game_id": [dice.below(1000)], "message": dice.below(1000)})
        case "missing field":
            lacking = {"at", "message", "game_id"}
            return orjson.dumps({name: each for name, each in orjson.loads(value).items() if name not in lacking})
        case "text":
            return f"{fields['game_id']} is over there".encode()
        case _:
            return b""
