import asyncio
from contextlib import suppress
from typing import cast

from penstock.lab.simulator.lobby import Lobby
from penstock.lab.simulator.server import Server, ServerOptions


class LobbyThatLosesCancellations:
    """Looks for games whose time is up as a store does whose client loses that its task was cancelled."""

    def __init__(self) -> None:
        self.looking = asyncio.Event()

    async def expire(self) -> None:
        self.looking.set()
        with suppress(asyncio.CancelledError):
            await asyncio.sleep(0.02)


async def _serve_once() -> bool:
    lobby = LobbyThatLosesCancellations()

    async def serve() -> None:
        async with Server(cast("Lobby", lobby)).running(ServerOptions(port=0)):
            await lobby.looking.wait()

    done, _ = await asyncio.wait({asyncio.create_task(serve())}, timeout=10)
    return bool(done)


def test_a_server_stops_even_if_its_store_loses_that_a_look_was_cancelled() -> None:
    assert asyncio.run(_serve_once())
