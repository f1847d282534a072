"""A bot behind sockets: logs in, finds a game, and strikes when it is its turn."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from http import HTTPStatus
from typing import Any, Literal, cast
from urllib.parse import urlsplit

import orjson
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import InvalidHandshake, InvalidMessage, InvalidStatus, WebSocketException

from penstock.errors import BadInput, PenstockError, Refused, Transient
from penstock.lab.simulator.bot import Bot
from penstock.lab.simulator.plan import PlannedGame

Outcome = Literal["won", "lost", "timed out"]

_ROUTES = {"login": "login", "find": "game/find", "lobby": "game/lobby", "hero": "game/hero", "action": "game/action"}
_OPEN_TIMEOUT_S = 10.0


class Player:
    """One user who plays one game after the other."""

    def __init__(self, server: str, user: str, *, mistakes: float = 0.0, think_s: float = 0.0) -> None:
        self._server = checked_server(server)
        self._user = user
        self._mistakes = mistakes
        self._think_s = think_s
        self._token = ""

    async def log_in(self) -> None:
        """Get a token; `Transient` if no server answers."""
        self._token = (await self._ask_once("login", {"user": self._user}))["token"]

    async def play(self, game: PlannedGame) -> Outcome:
        """Join this very game and play it to its end."""
        return await self._play(len(game.users), {"game_id": game.game_id})

    async def play_any(self, players: int) -> Outcome:
        """Join any game of this size and play it to its end."""
        return await self._play(players, {})

    async def _play(self, players: int, wanted: dict[str, str]) -> Outcome:
        found = await self._ask_once("find", {"token": self._token, "players": players, **wanted})
        me = {"token": self._token, "game_id": found["game_id"]}
        bot = Bot(found["game_id"], self._user, mistakes=self._mistakes)
        async with self._route("lobby") as lobby, self._route("action") as action:
            while True:
                news = await self._ask(lobby, me)
                if news["status"] == "timed out":
                    return "timed out"
                if news["status"] == "game ended":
                    return "won" if news["winner"] == self._user else "lost"
                await asyncio.sleep(self._think_s)
                enemy = bot.choose(news["alive"], news["fallen"])
                move = {"action": "pass"} if enemy is None else {"action": "attack", "enemy": enemy}
                # A refusal is no reason to stop: the enemy was dead, or the turn went by. The lobby knows what is next.
                await self._exchange(action, me | move)

    async def _ask_once(self, route: str, message: dict[str, Any]) -> dict[str, Any]:
        async with self._route(route) as connection:
            return await self._ask(connection, message)

    async def _ask(self, connection: ClientConnection, message: dict[str, Any]) -> dict[str, Any]:
        answer = await self._exchange(connection, message)
        if not answer["ok"]:
            raise Refused(f"the game server refused {self._user}: {answer['status']}")
        return answer

    async def _exchange(self, connection: ClientConnection, message: dict[str, Any]) -> dict[str, Any]:
        try:
            await connection.send(orjson.dumps(message), text=True)
            return cast("dict[str, Any]", orjson.loads(await connection.recv()))
        except WebSocketException:
            raise Transient(f"the game server at {self._server} has gone away") from None

    @asynccontextmanager
    async def _route(self, name: str) -> AsyncIterator[ClientConnection]:
        try:
            connection = await connect(
                f"{self._server}/api/v1/{_ROUTES[name]}",
                open_timeout=_OPEN_TIMEOUT_S,
                compression=None,
                proxy=None,
            )
        except (OSError, TimeoutError, InvalidHandshake) as error:
            raise _no_server(self._server, error) from None
        try:
            yield connection
        finally:
            await connection.close()


def _no_server(server: str, error: Exception) -> PenstockError:
    # A server that stops says 503, or hangs up without a word.
    stops = (isinstance(error, InvalidStatus) and error.response.status_code == HTTPStatus.SERVICE_UNAVAILABLE) or (
        isinstance(error, InvalidMessage) and isinstance(error.__cause__, EOFError)
    )
    if isinstance(error, InvalidHandshake) and not stops:
        return BadInput(f"what answers at {server} is not a game server")
    return Transient(f"no game server answers at {server}", fix="Start one with: penstock sim serve")


def checked_server(address: str) -> str:
    """Accept ws://HOST:PORT only."""
    try:
        parts = urlsplit(address)
        is_right = parts.scheme == "ws" and parts.hostname and parts.port and not parts.path.strip("/")
    except ValueError:
        is_right = False
    if not is_right:
        raise BadInput(f"'{address}' is not an address of a game server: write ws://HOST:PORT")
    return address.rstrip("/")
