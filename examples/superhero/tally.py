"""The logic of the podium, whoever feeds it: Spark through `podium.py`, or any transport through `worker.py`."""

from dataclasses import asdict, dataclass, field
from typing import Any

_BLOW = ("user", "enemy", "damage", "health_after")


@dataclass
class Tally:
    """One game so far. Events may come in any order, and more than once.

    The standings are complete when the match has ended and every turn of it is known.
    """

    players: int = 0
    rounds: int = 0
    turns: int = 0
    heroes: dict[str, str] = field(default_factory=dict)
    blows: dict[str, dict[str, Any]] = field(default_factory=dict)
    """What was done in each turn, by its number; nothing in a turn that was missed. JSON has texts as keys only."""

    def add(self, event: dict[str, Any]) -> None:
        """Take one event of the game."""
        match event["message"]:
            case "Hero Selected":
                self.heroes[event["user"]] = event["hero_id"]
            case "Attack Completed":
                self.blows[str(event["turn"])] = {name: event[name] for name in _BLOW}
            case "Turn Missed":
                self.blows[str(event["turn"])] = {}
            case "Match Ended":
                self.players, self.rounds, self.turns = event["players"], event["rounds"], event["turns"]

    @property
    def is_complete(self) -> bool:
        """Return whether everything is known that the standings need."""
        return self.players > 0 and len(self.heroes) == self.players and len(self.blows) == self.turns

    def standings(self) -> list[dict[str, Any]]:
        """Return a row for each player, the winner first: whoever fell last is second, whoever fell first is last."""
        dealt, received, fell = dict.fromkeys(self.heroes, 0), dict.fromkeys(self.heroes, 0), dict[str, int]()
        for turn, blow in self.blows.items():
            if not blow:
                continue
            dealt[blow["user"]] += blow["damage"]
            received[blow["enemy"]] += blow["damage"]
            if blow["health_after"] == 0:
                fell[blow["enemy"]] = int(turn)
        order = sorted(self.heroes, key=lambda user: -fell.get(user, self.turns + 1))
        return [
            {
                "user": user,
                "hero_id": self.heroes[user],
                "rank": rank,
                "damage_dealt": dealt[user],
                "damage_received": received[user],
                "rounds": self.rounds,
            }
            for rank, user in enumerate(order, 1)
        ]

    def as_dict(self) -> dict[str, Any]:
        """Return what a later `Tally(**...)` goes on from."""
        return asdict(self)
