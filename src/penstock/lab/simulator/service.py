"""A game server as a process: store, lobby, sockets, events and truth, until it is stopped."""

import asyncio
import signal
from collections import Counter
from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path

from penstock.lab.simulator import events
from penstock.lab.simulator.lobby import Lobby, LobbyOptions
from penstock.lab.simulator.redis_store import RedisStore
from penstock.lab.simulator.sending import Destination
from penstock.lab.simulator.server import Server, ServerOptions
from penstock.lab.simulator.store import MemoryStore, Store
from penstock.lab.simulator.truth import TruthWriter

IN_MEMORY = "memory"
_SIGNALS = (signal.SIGINT, signal.SIGTERM)


@dataclass
class Served:
    """What a server has told, and what of it was accepted."""

    by_message: Counter[str] = field(default_factory=Counter)
    sent: int = 0
    dropped: int = 0


class Service:
    """Everything that `penstock sim serve` needs."""

    def __init__(
        self, destination: Destination, server: ServerOptions, lobby: LobbyOptions, *, state: str, truth: Path | None
    ) -> None:
        self._destination = destination
        self._server = server
        self._lobby = lobby
        self._store: Store = MemoryStore() if state == IN_MEMORY else RedisStore(state)
        self._truth = truth

    async def run(self, *, ready: Callable[[str], None]) -> Served:
        """Serve until SIGINT or SIGTERM; what was logged until then is sent before this returns."""
        served = Served()

        def publish(kind: events.EventKind, fields: events.Fields) -> None:
            events.log(kind, fields)
            served.by_message[kind.message] += 1

        async with AsyncExitStack() as stack:
            stack.push_async_callback(self._store.close)
            await self._store.check()
            self._destination.prepare()
            truth = stack.enter_context(TruthWriter(self._truth)) if self._truth is not None else None
            handler = stack.enter_context(self._destination.events())
            lobby = Lobby(
                self._store,
                self._lobby,
                publish=publish,
                finished=lambda game: truth.write(game.standings()) if truth is not None else None,
            )
            ready(await stack.enter_async_context(Server(lobby).running(self._server)))
            await _stop_asked()
        served.sent, served.dropped = handler.sent, handler.dropped
        return served


async def _stop_asked() -> None:
    """Wait for a signal. A second one ends the process even if logging waits for a broker that is away."""
    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()

    def stop(_number: int, _frame: object) -> None:
        for each in _SIGNALS:
            signal.signal(each, signal.default_int_handler)
        loop.call_soon_threadsafe(stopping.set)

    for each in _SIGNALS:
        signal.signal(each, stop)
    await stopping.wait()
