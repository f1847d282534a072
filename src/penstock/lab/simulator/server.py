"""The game server: five routes over WebSocket, one JSON object in, one JSON object out.

`/api/v1/login`, `/api/v1/game/find`, `/api/v1/game/lobby`, `/api/v1/game/hero`, `/api/v1/game/action`. Every answer has
`ok` and `status`. A message that cannot be used is answered with what is wrong with it, and touches no game.
"""

import asyncio
import errno
import http
import logging
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import Any

import orjson
from pydantic import BaseModel, Field
from websockets.asyncio.server import ServerConnection, serve
from websockets.exceptions import ConnectionClosed
from websockets.http11 import Request, Response
from websockets.typing import Origin

from penstock.errors import BadInput, Conflict, PenstockError, Transient
from penstock.lab.simulator.game import Game
from penstock.lab.simulator.lobby import Lobby
from penstock.transports.address import server_name

Message = dict[str, Any]
Route = Callable[[Message], Awaitable[Message]]

LARGEST_MESSAGE_BYTES = 16 * 1024
_LARGEST_FRAME_BYTES = 1024 * 1024
_TICK_S = 0.05

logger = logging.getLogger("penstock.game_server")
logger.addHandler(logging.NullHandler())
# Broken handshakes are the clients' business. Without this, websockets would print a traceback for each.
_quiet = logging.getLogger("penstock.game_server.websockets")
_quiet.propagate = False
_quiet.addHandler(logging.NullHandler())


class ServerOptions(BaseModel, frozen=True, extra="forbid"):
    """Where the server listens, and to whom."""

    host: str = Field("127.0.0.1", min_length=1, description="Address to listen on.")
    port: int = Field(8765, ge=0, le=65_535, description="Port to listen on; 0 takes a free one.")
    shares_port: bool = Field(
        default=False, description="Whether other servers may listen on the same port; the system shares players out."
    )
    origins: tuple[str, ...] = Field(
        (), description="Web pages whose scripts may connect, such as https://game.example; programs always may."
    )


class Server:
    """Answers messages of players. Nothing that a client sends stops it."""

    def __init__(self, lobby: Lobby) -> None:
        self._lobby = lobby
        self._routes: dict[str, Route] = {
            "/api/v1/login": self._login,
            "/api/v1/game/find": self._find,
            "/api/v1/game/lobby": self._wait,
            "/api/v1/game/hero": self._hero,
            "/api/v1/game/action": self._action,
        }

    @asynccontextmanager
    async def running(self, options: ServerOptions) -> AsyncIterator[str]:
        """Serve while the block runs; gives the address. A port in use is `Conflict`."""
        try:
            listening = await serve(
                self._talk,
                options.host,
                options.port,
                # A browser names the page; without this, any page that somebody visits could play here.
                origins=[None, *(Origin(each) for each in options.origins)],
                process_request=self._check_path,
                reuse_port=options.shares_port or None,
                max_size=_LARGEST_FRAME_BYTES,
                compression=None,
                logger=_quiet,
            )
        except OSError as error:
            raise _cannot_listen(error, options) from None
        port = next(iter(listening.sockets)).getsockname()[1]
        stopping = asyncio.Event()
        clock = asyncio.create_task(self._keep_time(stopping))
        try:
            yield f"ws://{server_name(options.host, port)}"
        finally:
            # Before Python 3.12 `wait_for`, which the client of Redis uses, can lose that a task was cancelled.
            stopping.set()
            await clock
            listening.close()
            await listening.wait_closed()

    async def _keep_time(self, stopping: asyncio.Event) -> None:
        while not stopping.is_set():
            await asyncio.sleep(_TICK_S)
            try:
                await self._lobby.expire()
            except Transient as error:
                logger.warning("%s", error)

    def _check_path(self, connection: ServerConnection, request: Request) -> Response | None:
        if request.path in self._routes:
            return None
        return connection.respond(http.HTTPStatus.NOT_FOUND, f"no such route; there are {', '.join(self._routes)}\n")

    async def _talk(self, connection: ServerConnection) -> None:
        route = self._routes[connection.request.path if connection.request else ""]
        if route == self._login:
            route = partial(self._login, address=str(connection.remote_address[0]))
        with suppress(ConnectionClosed):
            async for content in connection:
                answer = await _while_connected(connection, self._answer(route, content))
                if answer is not None:
                    await connection.send(orjson.dumps(answer), text=True)

    async def _answer(self, route: Route, content: str | bytes) -> Message:
        try:
            return {"ok": True, **await route(_read(content))}
        except PenstockError as error:
            return {"ok": False, "status": error.what}
        except Exception:
            # One message must never cost the other players their games.
            logger.exception("a defect in the game server")
            return {"ok": False, "status": "the server failed at this message; others are not affected"}

    async def _login(self, message: Message, address: str = "") -> Message:
        token = await self._lobby.login(_text(message, "user"), address)
        return {"status": "logged in", "token": token}

    async def _find(self, message: Message) -> Message:
        game_id = _text(message, "game_id") if "game_id" in message else None
        game = await self._lobby.find(_text(message, "token"), _number(message, "players"), game_id)
        return {"status": "joined", "game_id": game.game_id}

    async def _wait(self, message: Message) -> Message:
        game, user = await self._lobby.wait(_text(message, "token"), _text(message, "game_id"))
        if game.status == "timed out":
            return {"status": "timed out", "game_id": game.game_id}
        if game.status == "ended":
            rank = game.ranks[game.seat_of(user)]
            return {"status": "game ended", "game_id": game.game_id, "winner": game.users[game.seat], "rank": rank}
        return {
            "status": "your turn",
            "game_id": game.game_id,
            "turn": game.turn,
            "round": game.round,
            "alive": game.alive,
            "fallen": game.fallen,
            "health": dict(zip(game.users, game.health, strict=True)),
        }

    async def _hero(self, message: Message) -> Message:
        game, user = await self._lobby.seen_by(_text(message, "token"), _text(message, "game_id"))
        if not game.heroes:
            raise Conflict("the game has not started")
        seat = game.seat_of(user)
        hero = game.heroes[seat]
        return {
            "status": "alive" if game.health[seat] else "fallen",
            "hero_id": hero.hero_id,
            "hero": hero.name,
            "attack": hero.attack,
            "health": game.health[seat],
        }

    async def _action(self, message: Message) -> Message:
        token, game_id, action = (_text(message, name) for name in ("token", "game_id", "action"))
        if action == "pass":
            await self._lobby.pass_turn(token, game_id)
            return {"status": "passed"}
        if action != "attack":
            raise BadInput("unknown action; there are 'attack' and 'pass'")
        enemy = _text(message, "enemy")
        damage, game = await self._lobby.attack(token, game_id, enemy)
        if not damage:
            return {"ok": False, "status": "the enemy is dead already; it is still your turn"}
        return {"status": "attacked", "enemy": enemy, "damage": damage, "health": _health(game, enemy)}


def _health(game: Game, user: str) -> int:
    return game.health[game.seat_of(user)]


async def _while_connected(connection: ServerConnection, answering: Awaitable[Message]) -> Message | None:
    """Return the answer, or nothing if the client leaves before."""
    answer = asyncio.ensure_future(answering)
    gone = asyncio.ensure_future(connection.wait_closed())
    try:
        await asyncio.wait((answer, gone), return_when=asyncio.FIRST_COMPLETED)
        return answer.result() if answer.done() else None
    finally:
        answer.cancel()
        gone.cancel()


def _read(content: str | bytes) -> Message:
    if len(content) > LARGEST_MESSAGE_BYTES:
        raise BadInput(f"the message is larger than {LARGEST_MESSAGE_BYTES} bytes")
    try:
        message = orjson.loads(content)
    except orjson.JSONDecodeError:
        raise BadInput("the message is not JSON") from None
    if not isinstance(message, dict):
        raise BadInput("the message is not a JSON object")
    return message


def _text(message: Message, name: str) -> str:
    value = _field(message, name)
    if not isinstance(value, str):
        raise BadInput(f"field '{name}' must be text")
    return value


def _number(message: Message, name: str) -> int:
    value = _field(message, name)
    if not isinstance(value, int) or isinstance(value, bool):
        raise BadInput(f"field '{name}' must be a whole number")
    return value


def _field(message: Message, name: str) -> Any:
    if name not in message:
        raise BadInput(f"missing field '{name}'")
    return message[name]


def _cannot_listen(error: OSError, options: ServerOptions) -> PenstockError:
    if error.errno == errno.EADDRINUSE:
        return Conflict(
            f"port {options.port} on {options.host} is in use",
            safe="Nothing was started",
            fix="Free it, or choose another with --port",
        )
    # asyncio puts its own text around the system's; a name that cannot be resolved has no number of the system.
    reason = os.strerror(error.errno).lower() if error.errno and error.errno > 0 else "there is no such host"
    return BadInput(
        f"the server cannot listen on {server_name(options.host, options.port)}: {reason}",
        fix="Choose another --host or --port",
    )
