"""Where games and logins are kept: the contract, and the store in memory for one server."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from penstock.errors import NotFound
from penstock.lab.simulator.events import Event
from penstock.lab.simulator.game import Game

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Change(Generic[T]):
    """A change that took place: what the action gave, the game after it, and the events to publish."""

    result: T
    game: Game
    events: list[Event]


class Store(Protocol):
    """Keeps games. A change takes place as a whole or, if the action raises, not at all.

    Of several servers that change one game, each sees what the others did before; no change is lost, and the events of
    each are given out once, to the server that made it.
    """

    async def check(self) -> None:
        """Raise unless the store can be used."""

    async def log_in(self, token: str, user: str) -> None:
        """Remember who has this token; an earlier token of the user is forgotten."""

    async def log_out(self, token: str) -> None:
        """Forget a token, if it is known."""

    async def games_of(self, user: str) -> int:
        """Return how many games the user is in that are not over."""

    async def count(self) -> int:
        """Return how many games are kept."""

    async def user_of(self, token: str) -> str:
        """Return the user of a token; `NotFound` if there is none."""

    async def read(self, game_id: str) -> Game:
        """Return a game to look at; `NotFound` if there is none."""

    async def change(
        self, game_id: str, action: Callable[[Game], T], *, make: Callable[[], Game] | None = None
    ) -> Change[T]:
        """Change a game, and make it first if it is not there and `make` says how. The action may run several times."""

    async def changed(self, game: Game) -> None:
        """Return when the game may have changed since it was read."""

    async def waiting(self, size: int) -> list[str]:
        """Return the games of this size that anybody may join."""

    async def due(self, now: float) -> list[str]:
        """Return the games whose time is up."""

    async def drop(self, game_id: str) -> None:
        """Forget a game."""

    async def close(self) -> None:
        """Let go of connections."""


def no_such_game() -> NotFound:
    """Make the error for a game that is not there."""
    return NotFound("there is no such game")


def no_such_token() -> NotFound:
    """Make the error for a token that nobody has."""
    return NotFound("unknown token: log in first")


class MemoryStore:
    """The store of a single server. Nothing in a change waits, so no other change can come between."""

    def __init__(self) -> None:
        self._users: dict[str, str] = {}
        self._tokens: dict[str, str] = {}
        self._playing: dict[str, set[str]] = {}
        self._games: dict[str, Game] = {}
        self._signals: dict[str, asyncio.Event] = {}

    async def check(self) -> None:
        """Do nothing: memory is there."""

    async def log_in(self, token: str, user: str) -> None:
        """Remember who has this token; an earlier token of the user is forgotten."""
        self._users.pop(self._tokens.pop(user, ""), None)
        self._users[token] = user
        self._tokens[user] = token

    async def log_out(self, token: str) -> None:
        """Forget a token, if it is known."""
        if token in self._users:
            del self._tokens[self._users.pop(token)]

    async def games_of(self, user: str) -> int:
        """Return how many games the user is in that are not over."""
        return len(self._playing.get(user, ()))

    async def count(self) -> int:
        """Return how many games are kept."""
        return len(self._games)

    async def user_of(self, token: str) -> str:
        """Return the user of a token."""
        if token not in self._users:
            raise no_such_token()
        return self._users[token]

    async def read(self, game_id: str) -> Game:
        """Return the game itself: whoever reads it sees later changes too."""
        if game_id not in self._games:
            raise no_such_game()
        return self._games[game_id]

    async def change(
        self, game_id: str, action: Callable[[Game], T], *, make: Callable[[], Game] | None = None
    ) -> Change[T]:
        """Change a game; an action of `Game` that raises has changed nothing."""
        game = self._games.get(game_id) or (make() if make else None)
        if game is None:
            raise no_such_game()
        result = action(game)
        self._games[game_id] = game
        for user in game.users:
            self._note(user, game_id, is_over=game.is_over)
        if signal := self._signals.pop(game_id, None):
            signal.set()
        return Change(result, game, game.take_events())

    def _note(self, user: str, game_id: str, *, is_over: bool) -> None:
        games = self._playing.setdefault(user, set())
        (games.discard if is_over else games.add)(game_id)
        if not games:
            del self._playing[user]

    async def changed(self, game: Game) -> None:
        """Return at the next change of the game."""
        await self._signals.setdefault(game.game_id, asyncio.Event()).wait()

    async def waiting(self, size: int) -> list[str]:
        """Return the games of this size that anybody may join, the oldest first."""
        return [game.game_id for game in self._games.values() if game.is_open and game.size == size]

    async def due(self, now: float) -> list[str]:
        """Return the games whose time is up."""
        return [game.game_id for game in self._games.values() if game.due_at <= now]

    async def drop(self, game_id: str) -> None:
        """Forget a game."""
        self._games.pop(game_id, None)
        if signal := self._signals.pop(game_id, None):
            signal.set()

    async def close(self) -> None:
        """Nothing to let go of."""
