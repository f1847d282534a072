"""Games played by bots over sockets: a crowd against any server, or server and crowd in this process."""

import asyncio
from collections import Counter
from collections.abc import Callable, Coroutine, Iterable
from typing import TypeVar

from pydantic import BaseModel, Field

from penstock.lab.simulator.dice import Dice
from penstock.lab.simulator.events import Publish
from penstock.lab.simulator.game import LARGEST, SMALLEST, Game
from penstock.lab.simulator.lobby import Lobby, LobbyOptions
from penstock.lab.simulator.plan import PlannedGame, user_name
from penstock.lab.simulator.player import Outcome, Player
from penstock.lab.simulator.server import Server, ServerOptions
from penstock.lab.simulator.store import MemoryStore

T = TypeVar("T")

Outcomes = Counter[Outcome]
Show = Callable[[int, int], None]
"""Called with (games over, games in all)."""

# Bots of this process always come and always act; a slow machine must not change a seeded game.
_PATIENT = LobbyOptions(lobby_timeout_s=600.0, turn_timeout_s=600.0, most_logins=100_000)


class BotOptions(BaseModel, frozen=True, extra="forbid"):
    """How bots play."""

    mistakes: float = Field(
        0.01, ge=0.0, le=0.5, description="Share of turns in which a bot strikes a dead enemy or lets its turn go by."
    )
    think_s: float = Field(0.0, ge=0.0, description="How long a bot behind a socket thinks before it acts.")


class CrowdOptions(BaseModel, frozen=True, extra="forbid"):
    """How many bots play how much."""

    count: int = Field(10, ge=2, le=100_000, description="Bots.")
    games: int = Field(20, ge=1, description="Games in all or, where they join any open game, for each of them.")
    first: int = Field(0, ge=0, description="Number of the first bot.")


async def play_here(
    games: list[PlannedGame], bots: BotOptions, *, publish: Publish, finished: Callable[[Game], None], show: Show
) -> Outcomes:
    """Start a server on a free loopback port, let the crowd play all games, and stop it."""
    lobby = Lobby(MemoryStore(), _PATIENT, publish=publish, finished=finished)
    async with Server(lobby).running(ServerOptions(port=0)) as address:
        return await crowd(address, games, bots, show=show)


async def crowd(server: str, games: list[PlannedGame], bots: BotOptions, *, show: Show) -> Outcomes:
    """Play planned games, each as soon as all of its players are free; gives how players came out."""
    users = sorted({user for game in games for user in game.users})
    players = {user: Player(server, user, mistakes=bots.mistakes, think_s=bots.think_s) for user in users}
    await _together(player.log_in() for player in players.values())
    outcomes: Outcomes = Counter()
    over = 0
    is_free: dict[str, asyncio.Event] = {}

    async def play(game: PlannedGame, before: list[asyncio.Event], after: asyncio.Event) -> None:
        nonlocal over
        for event in before:
            await event.wait()
        outcomes.update(await _together(players[user].play(game) for user in game.users))
        after.set()
        over += 1
        show(over, len(games))

    def in_order() -> Iterable[Coroutine[None, None, None]]:
        for game in games:
            before = [is_free[user] for user in game.users if user in is_free]
            after = asyncio.Event()
            is_free.update(dict.fromkeys(game.users, after))
            yield play(game, before, after)

    await _together(in_order())
    return outcomes


async def open_crowd(
    server: str, numbers: range, games_each: int, bots: BotOptions, *, seed: int, show: Show
) -> Outcomes:
    """Let each of these users play so many games with whoever comes, also from other processes."""
    outcomes: Outcomes = Counter()

    async def play(user: str) -> None:
        player = Player(server, user, mistakes=bots.mistakes, think_s=bots.think_s)
        dice = Dice.named(f"open/{seed}/{user}")
        await player.log_in()
        for _ in range(games_each):
            outcomes[await player.play_any(SMALLEST + dice.below(LARGEST - SMALLEST + 1))] += 1
            show(outcomes.total(), len(numbers) * games_each)

    await _together(play(user_name(number)) for number in numbers)
    return outcomes


async def _together(work: Iterable[Coroutine[None, None, T]]) -> list[T]:
    """Wait for all; the first to fail stops the others, and its error is raised."""
    try:
        async with asyncio.TaskGroup() as group:
            running = [group.create_task(each) for each in work]
    except BaseExceptionGroup as several:
        raise several.exceptions[0] from None
    return [task.result() for task in running]
