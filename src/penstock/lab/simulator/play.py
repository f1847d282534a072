"""Games played by bots over sockets: a crowd against any server, or server and crowd in this process."""

import asyncio
from collections import Counter
from collections.abc import Callable, Coroutine, Iterable
from dataclasses import dataclass
from typing import TypeVar

from pydantic import BaseModel, Field

from penstock.errors import Refused, Transient
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

_AGAIN_S = 1.0
_LOOK_EVERY_S = 0.2
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


@dataclass(frozen=True)
class Scale:
    """Players who come and go while games are played."""

    wanted: Callable[[], int | None]
    """Asked now and then how many there should be; None leaves them as they are."""
    more: Callable[[int, int, int], list[PlannedGame]]
    """Plans the games that newcomers bring: (how many there were, how many there are, how often that was done)."""
    players: int
    """How many there are at first."""


async def play_here(
    games: list[PlannedGame],
    bots: BotOptions,
    *,
    publish: Publish,
    finished: Callable[[Game], None],
    show: Show,
    scale: Scale | None = None,
) -> Outcomes:
    """Start a server on a free loopback port, let the crowd play all games, and stop it."""
    lobby = Lobby(MemoryStore(), _PATIENT, publish=publish, finished=finished)
    async with Server(lobby).running(ServerOptions(port=0)) as address:
        return await crowd(address, games, bots, show=show, scale=scale)


async def crowd(
    server: str, games: list[PlannedGame], bots: BotOptions, *, show: Show, scale: Scale | None = None
) -> Outcomes:
    """Play planned games, each as soon as all of its players are free; gives how players came out.

    Who goes finishes the game that they are in; games that wait for them are not played.
    """
    playing = _Crowd(server, bots, show)
    await _together([playing.play(games), *([playing.follow(scale)] if scale is not None else [])])
    return playing.outcomes


class _Crowd:
    """Players by name, and what is planned for them."""

    def __init__(self, server: str, bots: BotOptions, show: Show) -> None:
        self.outcomes: Outcomes = Counter()
        self._server, self._bots, self._show = server, bots, show
        self._players: dict[str, Player] = {}
        self._joining = asyncio.Lock()
        self._is_free: dict[str, asyncio.Event] = {}
        self._gone: frozenset[str] = frozenset()
        self._over = self._total = 0
        self._is_done = False

    async def play(self, games: list[PlannedGame]) -> None:
        """Play games to the last one."""
        self._total += len(games)
        async with self._joining:  # a second login of somebody would end the first
            bots, new = self._bots, {user for game in games for user in game.users} - self._players.keys()
            players = {user: Player(self._server, user, mistakes=bots.mistakes, think_s=bots.think_s) for user in new}
            await _together(players[user].log_in() for user in sorted(new))
            self._players |= players
        await _together(self._in_order(games))
        self._is_done = self._over == self._total

    async def follow(self, scale: Scale) -> None:
        """Let players come and go as somebody wants, as long as there is a game to play."""
        count, most, times = scale.players, scale.players, 0
        try:
            async with asyncio.TaskGroup() as newcomers:
                while not self._is_done:
                    wanted = scale.wanted() or count
                    most = max(most, wanted)
                    self._gone = frozenset(map(user_name, range(wanted, most)))
                    if wanted > count:
                        times += 1
                        newcomers.create_task(self.play(scale.more(count, wanted, times)))
                    count = wanted
                    await asyncio.sleep(_LOOK_EVERY_S)
        except BaseExceptionGroup as several:
            raise several.exceptions[0] from None

    def _in_order(self, games: list[PlannedGame]) -> Iterable[Coroutine[None, None, None]]:
        for game in games:
            before = [self._is_free[user] for user in game.users if user in self._is_free]
            after = asyncio.Event()
            self._is_free.update(dict.fromkeys(game.users, after))
            yield self._play_one(game, before, after)

    async def _play_one(self, game: PlannedGame, before: list[asyncio.Event], after: asyncio.Event) -> None:
        for event in before:
            await event.wait()
        if self._gone.isdisjoint(game.users):
            self.outcomes.update(await _together(self._players[user].play(game) for user in game.users))
        after.set()
        self._over += 1
        self._show(self._over, self._total)


async def endless_crowd(server: str, numbers: range, bots: BotOptions, *, seed: int) -> None:
    """Let users play one game after the other, for ever; a server that goes is waited for."""

    async def play(user: str) -> None:
        player = Player(server, user, mistakes=bots.mistakes, think_s=bots.think_s)
        dice = Dice.named(f"open/{seed}/{user}")
        while True:
            try:
                await player.log_in()
                while True:
                    await player.play_any(SMALLEST + dice.below(LARGEST - SMALLEST + 1))
            except (Transient, Refused):
                # No server yet, another one that knows nobody, or the user of a crowd before is still in a game.
                await asyncio.sleep(_AGAIN_S)

    await _together(play(user_name(number)) for number in numbers)


async def open_crowd(
    server: str, numbers: range, games_each: int, bots: BotOptions, *, seed: int, show: Show
) -> Outcomes:
    """Let each of these users play this many games with whoever comes, also from other processes."""
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
