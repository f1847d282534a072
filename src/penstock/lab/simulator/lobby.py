"""The lobby: brings players together, keeps the time, and publishes what happens in the games.

Events of a change are published after the store has it, and the truth of a game after its last event.
"""

import re
import secrets
import uuid
from collections.abc import Callable
from typing import TypeVar

from pydantic import BaseModel, Field

from penstock.clock import clock
from penstock.errors import BadInput, Conflict, NotFound, Transient
from penstock.lab.simulator import events
from penstock.lab.simulator.game import Game
from penstock.lab.simulator.store import Store

T = TypeVar("T")

_MOST_LOGINS = 100_000
_USER = re.compile(r"[A-Za-z0-9_-]{1,32}")


class LobbyOptions(BaseModel, frozen=True, extra="forbid"):
    """How long the lobby waits, and for how many."""

    lobby_timeout_s: float = Field(30.0, gt=0, description="A game that has not filled by then times out.")
    turn_timeout_s: float = Field(10.0, gt=0, description="A player who has not acted by then misses the turn.")
    keep_s: float = Field(60.0, gt=0, description="How long a game that is over can be asked about.")
    most_games_each: int = Field(10, ge=1, description="Games that one player may be in at a time.")
    most_games: int = Field(10_000, ge=1, description="Games that are kept at a time; beyond, none is begun.")
    most_logins: int = Field(
        10_000,
        ge=1,
        description="Logins that one address may have; beyond, its oldest that plays nowhere is forgotten.",
    )


class Lobby:
    """The rules of the house over any store; several lobbies may share one."""

    def __init__(
        self,
        store: Store,
        options: LobbyOptions,
        *,
        publish: events.Publish = events.log,
        finished: Callable[[Game], None] = lambda _game: None,
    ) -> None:
        self._store = store
        self._options = options
        self._publish = publish
        self._finished = finished
        self._logins: dict[str, dict[str, str]] = {}
        """The tokens by address and user, the oldest first; of several lobbies each knows its own."""

    async def login(self, user: str, address: str = "") -> str:
        """Return a token by which the user is known from now on; an earlier one of the user counts no more.

        While the user is in a game, nobody else can take the name over, and the token is not forgotten.
        """
        if not _USER.fullmatch(user):
            raise BadInput("field 'user' must be 1 to 32 letters, digits, '-' or '_'")
        if await self._store.games_of(user):
            raise Conflict("this user is in a game; log in again when it is over")
        self._logins.get(address, {}).pop(user, None)
        await self._make_room(address)
        token = secrets.token_hex(16)
        await self._store.log_in(token, user)
        self._logins.setdefault(address, {})[user] = token
        return token

    async def _make_room(self, address: str) -> None:
        """Forget an idle login where there are too many: of this address, or of the one that has the most."""
        crowded = address
        if sum(map(len, self._logins.values())) >= _MOST_LOGINS:
            crowded = max(self._logins, key=lambda each: len(self._logins[each]))
        elif len(self._logins.get(address, ())) < self._options.most_logins:
            return
        logins = self._logins[crowded]
        for user in list(logins):
            if not await self._store.games_of(user):
                await self._store.log_out(logins.pop(user, ""))
                return
        raise Transient("there are as many players as this server takes; try again later")

    async def find(self, token: str, players: int, game_id: str | None = None) -> Game:
        """Join a game that waits for players, or begin one; with a game's id that game and no other."""
        user = await self._store.user_of(token)
        if await self._store.games_of(user) >= self._options.most_games_each:
            raise Conflict("you are in as many games as one player may be; finish one first")
        if game_id is not None:
            named = _checked_id(game_id)
            fresh = self._new(named, players, is_private=True)
            try:
                return await self._join(user, named, players)
            except NotFound:
                return await self._begin(user, fresh)
        fresh = self._new(str(uuid.uuid4()), players)
        for waiting in await self._store.waiting(players):
            try:
                return await self._join(user, waiting, players)
            except (Conflict, NotFound):
                continue  # it filled or ended just now, or the user is in it already
        return await self._begin(user, fresh)

    async def _begin(self, user: str, game: Game) -> Game:
        if await self._store.count() >= self._options.most_games:
            raise Transient("there are as many games as this server takes; try again later")
        return await self._join(user, game.game_id, game.size, lambda: game)

    def _new(self, game_id: str, players: int, *, is_private: bool = False) -> Game:
        game = Game(game_id, players, is_private=is_private)
        game.due_at = _now() + self._options.lobby_timeout_s
        return game

    async def _join(self, user: str, game_id: str, players: int, make: Callable[[], Game] | None = None) -> Game:
        def join(game: Game) -> Game:
            if game.size != players:
                raise Conflict(f"that game is for {game.size} players")
            game.join(user)
            return game

        return await self._change(game_id, join, make)

    async def seen_by(self, token: str, game_id: str) -> tuple[Game, str]:
        """Return a game to one of its players, with the player's name."""
        user = await self._store.user_of(token)
        game = await self._store.read(game_id)
        if user not in game.users:
            raise NotFound("you are not in this game")
        return game, user

    async def wait(self, token: str, game_id: str) -> tuple[Game, str]:
        """Wait until it is the player's turn or the game is over."""
        while True:
            game, user = await self.seen_by(token, game_id)
            if game.is_over or game.is_turn_of(user):
                return game, user
            await self._store.changed(game)

    async def attack(self, token: str, game_id: str, enemy: str) -> tuple[int, Game]:
        """Strike; return what it took off, 0 for an enemy that was dead, and the game after it."""
        user = await self._store.user_of(token)
        return await self._change(game_id, lambda game: (game.attack(user, enemy), game))

    async def pass_turn(self, token: str, game_id: str) -> None:
        """Let the turn go by."""
        user = await self._store.user_of(token)
        await self._change(game_id, lambda game: game.pass_turn(user))

    async def expire(self) -> None:
        """Deal with every game whose time is up; another lobby may do so at the same time."""
        now = _now()

        def expire(game: Game) -> None:
            if game.due_at <= now:
                game.expire()

        for game_id in await self._store.due(now):
            try:
                if (await self._store.read(game_id)).is_over:
                    await self._store.drop(game_id)
                else:
                    await self._change(game_id, expire)
            except NotFound:
                await self._store.drop(game_id)

    async def _change(self, game_id: str, action: Callable[[Game], T], make: Callable[[], Game] | None = None) -> T:
        def act(game: Game) -> T:
            before = (game.status, game.turn)
            result = action(game)
            if before != (game.status, game.turn):
                game.due_at = _now() + (self._options.keep_s if game.is_over else self._options.turn_timeout_s)
            return result

        done = await self._store.change(game_id, act, make=make)
        for kind, fields in done.events:
            self._publish(kind, fields)
        if done.events and done.game.is_over:
            self._finished(done.game)
        return done.result


def _now() -> float:
    """Return the time of day: lobbies on several machines share deadlines."""
    return clock().now().timestamp()


def _checked_id(game_id: str) -> str:
    try:
        return str(uuid.UUID(game_id))
    except ValueError:
        raise BadInput("field 'game_id' must be a UUID") from None
