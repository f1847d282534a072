"""A game server under test, and what its players ask it over sockets."""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar, cast

import orjson
from websockets.asyncio.client import ClientConnection, connect

from penstock.lab.simulator.events import EventKind, Fields
from penstock.lab.simulator.lobby import Lobby, LobbyOptions
from penstock.lab.simulator.server import Server, ServerOptions
from penstock.lab.simulator.store import MemoryStore, Store

T = TypeVar("T")
Told = list[tuple[str, dict[str, Any]]]


class House:
    """A server under test: its address, and what its games told."""

    def __init__(self, store: Store | None = None, **options: float) -> None:
        self.told: Told = []
        self.standings: list[Any] = []
        self.lobby = Lobby(
            store or MemoryStore(),
            LobbyOptions(**{"lobby_timeout_s": 60.0, "turn_timeout_s": 60.0, **options}),
            publish=self._publish,
            finished=lambda game: self.standings.extend(game.standings()),
        )
        self.first_attack = asyncio.Event()

    def _publish(self, kind: EventKind, fields: Fields) -> None:
        self.told.append((kind.message, fields))
        if kind.message == "Attack Completed":
            self.first_attack.set()

    def running(self, port: int = 0) -> Any:
        return Server(self.lobby).running(ServerOptions(port=port))


def lived(story: Coroutine[Any, Any, T]) -> T:
    return asyncio.run(asyncio.wait_for(story, 240))


async def ask(connection: ClientConnection, message: Any) -> dict[str, Any]:
    content = message if isinstance(message, str | bytes) else orjson.dumps(message).decode()
    await connection.send(content)
    return cast("dict[str, Any]", orjson.loads(await connection.recv()))


async def ask_once(address: str, route: str, message: Any) -> dict[str, Any]:
    async with connect(f"{address}/api/v1/{route}", proxy=None) as connection:
        return await ask(connection, message)


async def started(address: str, *users: str) -> tuple[str, dict[str, str]]:
    """Log these users in and start a game of them; gives its id and their tokens."""
    tokens = {user: (await ask_once(address, "login", {"user": user}))["token"] for user in users}
    for token in tokens.values():
        found = await ask_once(address, "game/find", {"token": token, "players": len(users)})
    return found["game_id"], tokens


async def whose_turn(address: str, game_id: str, tokens: dict[str, str]) -> tuple[str, dict[str, Any]]:
    """Wait in the lobby as everybody; gives who is up, and what that player was told."""
    waiting = {
        asyncio.create_task(ask_once(address, "game/lobby", {"token": token, "game_id": game_id})): user
        for user, token in tokens.items()
    }
    done, others = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
    for each in others:
        each.cancel()
    await asyncio.gather(*others, return_exceptions=True)
    # When the game is over, several are told at once.
    task = min(done, key=lambda each: waiting[each])
    return waiting[task], task.result()
