"""One game: who plays, whose turn it is, what a blow takes off, who falls and who wins.

Pure: no clock, no network, no logging. Whoever changes a game takes its events and publishes them. The game's id and
the names of its players alone decide seats, heroes and dice, so the same actions give the same game everywhere. A
refused action raises and changes nothing.
"""

from dataclasses import dataclass
from typing import Any, Literal, NoReturn

from penstock.errors import BadInput, Conflict, NotFound
from penstock.lab.simulator import events
from penstock.lab.simulator.dice import Dice
from penstock.lab.simulator.heroes import BY_ID, ROSTER, Hero

SMALLEST, LARGEST = 2, 6
# A blow takes between 75 % and 125 % of the attack, which for every hero is at least 1.
_LEAST_PERCENT, _SWING = 75, 51

Status = Literal["waiting", "playing", "ended", "timed out"]


# Not frozen: making a frozen one takes three times as long, and a run under load makes very many.
@dataclass(slots=True)
class Standing:
    """How a player came out of a finished game."""

    game_id: str
    user: str
    hero_id: str
    rank: int
    damage_dealt: int
    damage_received: int
    rounds: int


class Game:
    """The state of one game. Lists have one entry a seat."""

    __slots__ = (
        "_dice",
        "_events",
        "_idle",
        "alive",
        "dealt",
        "due_at",
        "fallen",
        "game_id",
        "health",
        "heroes",
        "is_private",
        "ranks",
        "received",
        "round",
        "seat",
        "size",
        "status",
        "turn",
        "users",
        "version",
    )

    def __init__(self, game_id: str, size: int, *, is_private: bool = False) -> None:
        if not SMALLEST <= size <= LARGEST:
            raise BadInput(f"a game has {SMALLEST} to {LARGEST} players, not {size}")
        self.game_id = game_id
        self.size = size
        self.is_private = is_private
        self.status: Status = "waiting"
        self.users: list[str] = []
        self.heroes: list[Hero] = []
        self.health: list[int] = []
        self.dealt = [0] * size
        self.received = [0] * size
        self.ranks = [0] * size
        self.alive: list[str] = []  # by seat
        self.fallen: list[str] = []  # the first to fall first
        self.seat = 0
        self.turn = 1
        self.round = 1
        self.due_at = 0.0  # for the lobby, which has a clock
        self.version = 0  # for the store, which tells waiting players of a change
        self._idle = 0
        self._dice = Dice.named(game_id)
        self._events: list[events.Event] = []

    def take_events(self) -> list[events.Event]:
        """Return what has happened since this was asked last."""
        taken, self._events = self._events, []
        return taken

    def join(self, user: str) -> None:
        """Sit down; the last one to come starts the match."""
        if user in self.users:
            raise Conflict("you are in this game already")
        if self.status != "waiting":
            raise Conflict("the game is full" if self.status == "playing" else "the game is over")
        self.users.append(user)
        if len(self.users) == self.size:
            self._start()

    def _start(self) -> None:
        dice = self._dice
        # Sorted first, so that seats do not depend on who came first.
        self.users = dice.sample(sorted(self.users), self.size)
        self.heroes = dice.sample(ROSTER, self.size)
        self.health = [hero.health for hero in self.heroes]
        self.alive = self.users.copy()
        self.status = "playing"
        self._emit(events.MATCH_STARTED, {"game_id": self.game_id, "players": self.size})
        for seat, (user, hero) in enumerate(zip(self.users, self.heroes, strict=True)):
            self._emit(
                events.HERO_SELECTED,
                {
                    "game_id": self.game_id,
                    "user": user,
                    "seat": seat,
                    "hero_id": hero.hero_id,
                    "hero": hero.name,
                    "attack": hero.attack,
                    "health": hero.health,
                },
            )

    @property
    def is_open(self) -> bool:
        """Whether anybody may join."""
        return self.status == "waiting" and not self.is_private

    @property
    def is_over(self) -> bool:
        """Whether nothing will happen any more."""
        return self.status in {"ended", "timed out"}

    def seat_of(self, user: str) -> int:
        """Return the seat of a player; `NotFound` for anybody else."""
        try:
            return self.users.index(user)
        except ValueError:
            raise NotFound(f"'{user}' is not in this game") from None

    def is_turn_of(self, user: str) -> bool:
        """Whether the game waits for this player."""
        return self.status == "playing" and self.users[self.seat] == user

    def attack(self, user: str, enemy: str) -> int:
        """Strike; return what it took off, which is 0 only if the enemy was dead: then the turn goes on."""
        seat = self.seat
        if self.status != "playing" or self.users[seat] != user:
            self._refuse(user)
        if enemy == user:
            raise BadInput("you cannot attack yourself")
        target = self.seat_of(enemy)
        before = self.health[target]
        self._idle = 0
        if before == 0:
            self._emit(events.ATTACKED_DEAD_ENEMY, {**self._this_turn(), "enemy": enemy})
            return 0
        damage = self.heroes[seat].attack * (_LEAST_PERCENT + self._dice.below(_SWING)) // 100
        damage = min(damage, before)
        self.health[target] = after = before - damage
        self.dealt[seat] += damage
        self.received[target] += damage
        self._emit(
            events.ATTACK_COMPLETED,
            {
                "game_id": self.game_id,
                "turn": self.turn,
                "round": self.round,
                "user": user,
                "hero_id": self.heroes[seat].hero_id,
                "enemy": enemy,
                "enemy_hero_id": self.heroes[target].hero_id,
                "damage": damage,
                "health_before": before,
                "health_after": after,
            },
        )
        if after == 0:
            self.ranks[target] = len(self.alive)
            self.alive.remove(enemy)
            self.fallen.append(enemy)
        if len(self.alive) == 1:
            self._end(winner=seat)
        else:
            self._pass_on()
        return damage

    def pass_turn(self, user: str) -> None:
        """Let the turn go by on purpose: a missed turn of somebody who is there."""
        if not self.is_turn_of(user):
            self._refuse(user)
        self._idle = 0
        self._emit(events.TURN_MISSED, self._this_turn())
        self._pass_on()

    def expire(self) -> None:
        """Time is up: a lobby that did not fill times out, a player who did not act misses the turn.

        When nobody has acted for a whole round, the game times out.
        """
        if self.status == "waiting":
            self._time_out("lobby")
        elif self.status == "playing":
            self._emit(events.TURN_MISSED, self._this_turn())
            self._idle += 1
            if self._idle == len(self.alive):
                self._time_out("players")
            else:
                self._pass_on()

    def standings(self) -> list[Standing]:
        """Return the outcome, from the first to fall to the winner; nothing for a game that did not end."""
        if self.status != "ended":
            return []
        seats = sorted(range(self.size), key=self.ranks.__getitem__, reverse=True)
        return [
            Standing(
                self.game_id,
                self.users[seat],
                self.heroes[seat].hero_id,
                self.ranks[seat],
                self.dealt[seat],
                self.received[seat],
                self.round,
            )
            for seat in seats
        ]

    def _refuse(self, user: str) -> NoReturn:
        if self.status == "waiting":
            raise Conflict("the game has not started")
        if self.status != "playing":
            raise Conflict("the game is over")
        self.seat_of(user)
        raise Conflict("it is not your turn")

    def _this_turn(self) -> events.Fields:
        return {"game_id": self.game_id, "turn": self.turn, "round": self.round, "user": self.users[self.seat]}

    def _pass_on(self) -> None:
        self.turn += 1
        health, seat = self.health, self.seat
        while True:
            seat += 1
            if seat == self.size:
                seat = 0
                self.round += 1
            if health[seat]:
                self.seat = seat
                return

    def _end(self, winner: int) -> None:
        self.ranks[winner] = 1
        self.status = "ended"
        self._emit(
            events.MATCH_ENDED,
            {
                "game_id": self.game_id,
                "players": self.size,
                "winner": self.users[winner],
                "winner_hero_id": self.heroes[winner].hero_id,
                "rounds": self.round,
                "turns": self.turn,
            },
        )

    def _time_out(self, reason: Literal["lobby", "players"]) -> None:
        self.status = "timed out"
        self._emit(events.GAME_TIMED_OUT, {"game_id": self.game_id, "reason": reason})

    def _emit(self, kind: events.EventKind, fields: events.Fields) -> None:
        self._events.append((kind, fields))

    def state(self) -> dict[str, Any]:
        """Return everything but events not yet taken, as plain JSON."""
        kept = {name.removeprefix("_"): getattr(self, name) for name in self.__slots__ if name != "_events"}
        return {**kept, "heroes": [hero.hero_id for hero in self.heroes], "dice": self._dice.state}

    @classmethod
    def restore(cls, state: dict[str, Any]) -> "Game":
        """Make the game that `state` was taken from."""
        game = cls(state["game_id"], state["size"])
        for name in cls.__slots__:
            if name not in {"_events", "_dice", "heroes"}:
                setattr(game, name, state[name.removeprefix("_")])
        game.heroes = [BY_ID[hero_id] for hero_id in state["heroes"]]
        game._dice = Dice(state["dice"])
        return game
