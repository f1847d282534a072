"""Games in Redis, shared by several servers.

A change is optimistic: 1. WATCH the game and read it; 2. run the action here; 3. write game and indexes in one MULTI.
If another server wrote between 1 and 3, Redis refuses 3, and everything begins again from 1. Events are given out only
after 3, so they are published once. A server that is killed between 3 and publishing takes those events with it.
"""

import asyncio
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import TypeVar

import orjson
from redis.asyncio import Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import WatchError

from penstock.errors import BadInput
from penstock.lab.simulator.game import LARGEST, SMALLEST, Game
from penstock.lab.simulator.store import Change, no_such_game, no_such_token
from penstock.transports.address import parse
from penstock.transports.redis_client import login, translated

T = TypeVar("T")

_PREFIX = "penstock:simulator"
_DUE = f"{_PREFIX}:due"
_KEPT_S = 24 * 3600
_LOOK_AGAIN_S = 0.02
_ANSWER_S = 5.0


class RedisStore:
    """The store that several servers share."""

    def __init__(self, address: str) -> None:
        if not address.startswith("redis://"):
            raise BadInput("games are kept in memory or in Redis", fix="Write memory or redis://HOST:PORT/0")
        self._address = parse(address)
        self._redis = Redis(
            **login(self._address),
            socket_connect_timeout=_ANSWER_S,
            socket_timeout=_ANSWER_S,
            decode_responses=True,
            # Once, for a connection from before an outage is found to be dead only when it is used. Repeating is safe:
            # a lone command may run twice, and of a broken MULTI redis-py says WatchError instead.
            retry=Retry(NoBackoff(), 1),
        )

    def _answering(self) -> AbstractContextManager[None]:
        return translated(self._address, "keeping the games")

    async def check(self) -> None:
        """Raise unless Redis answers and lets us in."""
        with self._answering():
            await self._redis.zcard(_DUE)

    async def log_in(self, token: str, user: str) -> None:
        """Remember who has this token, for a day; an earlier token of the user is forgotten."""
        with self._answering():
            earlier = await self._redis.getset(_login(user), token)
            async with self._redis.pipeline(transaction=True) as pipe:
                pipe.expire(_login(user), _KEPT_S)
                pipe.set(_token(token), user, ex=_KEPT_S)
                if earlier is not None:
                    pipe.delete(_token(str(earlier)))
                await pipe.execute()

    async def log_out(self, token: str) -> None:
        """Forget a token, if it is known; the name it stood for goes with the day."""
        with self._answering():
            await self._redis.delete(_token(token))

    async def games_of(self, user: str) -> int:
        """Return how many games the user is in that are not over."""
        with self._answering():
            return int(await self._redis.scard(_playing(user)))

    async def count(self) -> int:
        """Return how many games are kept."""
        with self._answering():
            return int(await self._redis.zcard(_DUE))

    async def user_of(self, token: str) -> str:
        """Return the user of a token."""
        with self._answering():
            user = await self._redis.get(_token(token))
        if user is None:
            raise no_such_token()
        return str(user)

    async def read(self, game_id: str) -> Game:
        """Return a copy of the game as it is now."""
        with self._answering():
            kept = await self._redis.get(_key(game_id))
        if kept is None:
            raise no_such_game()
        return Game.restore(orjson.loads(kept))

    async def change(
        self, game_id: str, action: Callable[[Game], T], *, make: Callable[[], Game] | None = None
    ) -> Change[T]:
        """Change a game, by the steps above."""
        while True:
            with self._answering():
                done = await self._try_to_change(game_id, action, make)
            if done is not None:
                return done

    async def _try_to_change(
        self, game_id: str, action: Callable[[Game], T], make: Callable[[], Game] | None
    ) -> Change[T] | None:
        key = _key(game_id)
        async with self._redis.pipeline(transaction=True) as pipe:
            await pipe.watch(key)
            kept = await pipe.get(key)
            if kept is not None:
                game = Game.restore(orjson.loads(kept))
            elif make is not None:
                game = make()
            else:
                raise no_such_game()
            result = action(game)
            game.version += 1
            events = game.take_events()
            pipe.multi()  # type: ignore[no-untyped-call]
            pipe.set(key, orjson.dumps(game.state()), ex=_KEPT_S)
            pipe.zadd(_DUE, {game_id: game.due_at})
            if game.is_open:
                pipe.zadd(_waiting(game.size), {game_id: game.due_at})
            else:
                pipe.zrem(_waiting(game.size), game_id)
            for user in game.users:
                if game.is_over:
                    pipe.srem(_playing(user), game_id)
                else:
                    pipe.sadd(_playing(user), game_id)
                    pipe.expire(_playing(user), _KEPT_S)
            try:
                await pipe.execute()
            except WatchError:
                return None
            return Change(result, game, events)

    async def changed(self, game: Game) -> None:
        """Look again and again until the game is another; one that is gone is another, too."""
        version = game.version
        while True:
            await asyncio.sleep(_LOOK_AGAIN_S)
            if (await self.read(game.game_id)).version != version:
                return

    async def waiting(self, size: int) -> list[str]:
        """Return the games of this size that anybody may join, the oldest first."""
        with self._answering():
            return [str(each) for each in await self._redis.zrange(_waiting(size), 0, -1)]

    async def due(self, now: float) -> list[str]:
        """Return the games whose time is up."""
        with self._answering():
            return [str(each) for each in await self._redis.zrange(_DUE, "-inf", now, byscore=True)]

    async def drop(self, game_id: str) -> None:
        """Forget a game."""
        with self._answering():
            async with self._redis.pipeline(transaction=True) as pipe:
                pipe.delete(_key(game_id))
                pipe.zrem(_DUE, game_id)
                for size in range(SMALLEST, LARGEST + 1):
                    pipe.zrem(_waiting(size), game_id)
                await pipe.execute()

    async def close(self) -> None:
        """Let go of the connections."""
        await self._redis.aclose()


def _key(game_id: str) -> str:
    return f"{_PREFIX}:game:{game_id}"


def _token(token: str) -> str:
    return f"{_PREFIX}:token:{token}"


def _login(user: str) -> str:
    return f"{_PREFIX}:login:{user}"


def _playing(user: str) -> str:
    return f"{_PREFIX}:playing:{user}"


def _waiting(size: int) -> str:
    return f"{_PREFIX}:waiting:{size}"
