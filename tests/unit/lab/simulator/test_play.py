"""Players who come and go while games are played, on a server of this process."""

import asyncio
from collections import Counter

from penstock.lab.simulator.game import Game
from penstock.lab.simulator.plan import PlannedGame, plan
from penstock.lab.simulator.play import BotOptions, Scale, play_here

GAMES = 12


class Table:
    """Notes who played, and wants so many players, from the first look on."""

    def __init__(self, players: int, wanted: int | None) -> None:
        self.players, self._wanted = players, wanted
        self.over: list[set[str]] = []
        self.shown = (0, 0)

    def more(self, before: int, now: int, times: int) -> list[PlannedGame]:
        return list(plan(now, GAMES * (now - before) // self.players, 1 + times))

    def finished(self, game: Game) -> None:
        self.over.append({each.user for each in game.standings()})

    def show(self, over: int, total: int) -> None:
        self.shown = (over, total)

    def play(self) -> Counter[str]:
        games = list(plan(self.players, GAMES, 1))
        scale = Scale(lambda: self._wanted, self.more, self.players)
        playing = play_here(
            games, BotOptions(), publish=lambda *_: None, finished=self.finished, show=self.show, scale=scale
        )
        return Counter(asyncio.run(asyncio.wait_for(playing, 60)))


def test_newcomers_bring_games_that_are_played_with_those_who_are_there() -> None:
    table = Table(4, 7)
    outcomes = table.play()

    assert (GAMES + 9, GAMES + 9) == table.shown
    assert GAMES + 9 == len(table.over) == outcomes["won"]
    assert {f"USER{number:03d}" for number in range(7)} == set().union(*table.over)


def test_games_that_wait_for_somebody_who_has_gone_are_not_played() -> None:
    table = Table(3, 2)
    table.play()
    there = {"USER000", "USER001"}

    assert (GAMES, GAMES) == table.shown
    assert [there] * sum(set(game.users) == there for game in plan(3, GAMES, 1)) == table.over != []


def test_nobody_who_scales_changes_nothing() -> None:
    table = Table(4, None)
    table.play()

    assert GAMES == len(table.over)
