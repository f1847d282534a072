"""The lobby over the store in memory: who meets whom, and what happens when time is up."""

import asyncio
import uuid
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import pytest

from penstock.errors import BadInput, Conflict, NotFound, Transient
from penstock.lab.simulator.events import EventKind, Fields
from penstock.lab.simulator.game import Game
from penstock.lab.simulator.lobby import Lobby, LobbyOptions
from penstock.lab.simulator.store import MemoryStore
from penstock.testing import FakeClock


class House:
    """A lobby whose events are kept, and whose time passes when told."""

    def __init__(self, clock: FakeClock) -> None:
        self.told: list[str] = []
        self.finished: list[Game] = []
        self._clock = clock
        options = LobbyOptions(lobby_timeout_s=30, turn_timeout_s=10, keep_s=60)
        self.lobby = Lobby(MemoryStore(), options, publish=self._publish, finished=self.finished.append)

    def _publish(self, kind: EventKind, fields: Fields) -> None:
        self.told.append(f"{kind.message} {fields['reason']}" if "reason" in fields else kind.message)

    async def later(self, seconds: float) -> None:
        self._clock.advance(seconds)
        await self.lobby.expire()


@pytest.fixture
def house() -> Iterator[House]:
    with FakeClock() as clock:
        yield House(clock)


def lived(story: Callable[[], Awaitable[Any]]) -> Any:
    return asyncio.run(asyncio.wait_for(story(), 20))


def test_players_who_ask_for_the_same_size_meet_and_others_do_not(house: House) -> None:
    async def story() -> list[str]:
        tokens = [await house.lobby.login(user) for user in "ABCD"]
        return [(await house.lobby.find(token, size)).game_id for token, size in zip(tokens, [2, 3, 2, 2], strict=True)]

    one, alone, same, next_game = lived(story)

    assert one == same
    assert 3 == len({one, alone, next_game})
    assert ["Match Started", "Hero Selected", "Hero Selected"] == house.told


def test_a_user_never_meets_itself(house: House) -> None:
    async def story() -> tuple[str, str]:
        token = await house.lobby.login("A")
        return (await house.lobby.find(token, 2)).game_id, (await house.lobby.find(token, 2)).game_id

    one, other = lived(story)

    assert one != other


def test_a_name_that_is_in_a_game_cannot_be_taken_over_and_afterwards_the_newest_login_counts(house: House) -> None:
    async def story() -> None:
        first = await house.lobby.login("A")
        await house.lobby.find(first, 2)
        with pytest.raises(Conflict, match="is in a game"):
            await house.lobby.login("A")
        await house.later(31)
        second = await house.lobby.login("A")
        with pytest.raises(NotFound, match="unknown token"):
            await house.lobby.find(first, 2)
        await house.lobby.find(second, 2)

    lived(story)

    assert ["Game Timed Out lobby"] == house.told


def test_logins_without_end_log_nobody_out_who_plays_or_comes_from_elsewhere() -> None:
    lobby = Lobby(MemoryStore(), LobbyOptions(most_logins=3))

    async def story() -> tuple[str, str]:
        idle, playing = await lobby.login("A", "10.0.0.1"), await lobby.login("B", "10.0.0.2")
        game = await lobby.find(playing, 2)
        first = await lobby.login("C", "10.0.0.2")
        for number in range(10):
            await lobby.login(f"x{number}", "10.0.0.2")
        with pytest.raises(NotFound, match="unknown token"):
            await lobby.find(first, 3)
        return (await lobby.seen_by(playing, game.game_id))[1], (await lobby.find(idle, 3)).users[0]

    assert ("B", "A") == lived(story)


def test_an_address_whose_players_all_play_gets_no_further_login() -> None:
    lobby = Lobby(MemoryStore(), LobbyOptions(most_logins=2))

    async def story() -> None:
        for user in "AB":
            await lobby.find(await lobby.login(user, "10.0.0.1"), 3)
        with pytest.raises(Transient, match="as many players as this server takes"):
            await lobby.login("C", "10.0.0.1")
        await lobby.login("C", "10.0.0.2")

    lived(story)


def test_when_all_logins_are_taken_the_address_that_has_the_most_loses_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.lab.simulator.lobby._MOST_LOGINS", 4)
    lobby = Lobby(MemoryStore(), LobbyOptions())

    async def story() -> None:
        crowd = [await lobby.login(user, "10.0.0.1") for user in "ABC"]
        alone = await lobby.login("D", "10.0.0.2")
        newest = await lobby.login("E", "10.0.0.3")
        with pytest.raises(NotFound, match="unknown token"):
            await lobby.find(crowd[0], 2)
        for token in (*crowd[1:], alone, newest):
            await lobby.find(token, 2)

    lived(story)


def test_beyond_the_most_games_none_is_begun_and_those_that_are_can_be_joined() -> None:
    lobby = Lobby(MemoryStore(), LobbyOptions(most_games=2))
    private = str(uuid.uuid4())

    async def story() -> str:
        tokens = [await lobby.login(user) for user in "ABCD"]
        await lobby.find(tokens[0], 2)
        await lobby.find(tokens[1], 3, private)
        for players, game_id in ((4, None), (2, str(uuid.uuid4()))):
            with pytest.raises(Transient, match="as many games as this server takes"):
                await lobby.find(tokens[2], players, game_id)
        await lobby.find(tokens[2], 2)
        return (await lobby.find(tokens[3], 3, private)).game_id

    assert private == lived(story)


def test_one_player_cannot_take_all_games() -> None:
    lobby = Lobby(MemoryStore(), LobbyOptions(most_games_each=2))

    async def story() -> str:
        greedy, other = [await lobby.login(user) for user in "AB"]
        for _ in range(2):
            await lobby.find(greedy, 2, str(uuid.uuid4()))
        for game_id in (None, str(uuid.uuid4())):
            with pytest.raises(Conflict, match="as many games as one player may be"):
                await lobby.find(greedy, 2, game_id)
        return (await lobby.find(other, 2)).users[0]

    assert "B" == lived(story)


def test_a_game_that_was_asked_for_by_its_id_takes_only_those_who_know_the_id(house: House) -> None:
    game_id = str(uuid.uuid4())

    async def story() -> tuple[str, str, str]:
        tokens = [await house.lobby.login(user) for user in "ABC"]
        return (
            (await house.lobby.find(tokens[0], 2, game_id)).game_id,
            (await house.lobby.find(tokens[1], 2)).game_id,
            (await house.lobby.find(tokens[2], 2, game_id.upper())).game_id,
        )

    first, stranger, second = lived(story)

    assert game_id == first == second != stranger


def test_what_cannot_be_joined_is_refused_with_the_reason(house: House) -> None:
    async def story() -> None:
        token = await house.lobby.login("A")
        game_id = (await house.lobby.find(token, 2, str(uuid.uuid4()))).game_id
        with pytest.raises(NotFound, match="unknown token"):
            await house.lobby.find("nobody", 2)
        with pytest.raises(BadInput, match="2 to 6"):
            await house.lobby.find(token, 7)
        with pytest.raises(BadInput, match="UUID"):
            await house.lobby.find(token, 2, "../../etc")
        with pytest.raises(Conflict, match="for 2 players"):
            await house.lobby.find(await house.lobby.login("B"), 3, game_id)
        with pytest.raises(Conflict, match="already"):
            await house.lobby.find(token, 2, game_id)
        with pytest.raises(BadInput, match="'user'"):
            await house.lobby.login("a b")
        with pytest.raises(NotFound, match="not in this game"):
            await house.lobby.seen_by(await house.lobby.login("C"), game_id)

    lived(story)

    assert [] == house.told


def test_a_lobby_that_does_not_fill_times_out_once_and_is_forgotten_later(house: House) -> None:
    async def story() -> str:
        token = await house.lobby.login("A")
        game = await house.lobby.find(token, 3)
        await house.later(29)
        before = list(house.told)
        await house.later(2)
        await house.later(1)
        status = (await house.lobby.wait(token, game.game_id))[0].status
        await house.later(100)
        with pytest.raises(NotFound, match="no such game"):
            await house.lobby.wait(token, game.game_id)
        assert [] == before
        return status

    assert "timed out" == lived(story)
    assert ["Game Timed Out lobby"] == house.told


def test_a_player_who_does_not_act_misses_the_turn_and_striking_the_dead_does_not_buy_time(house: House) -> None:
    async def story() -> None:
        tokens = {user: await house.lobby.login(user) for user in "ABC"}
        for token in tokens.values():
            game = await house.lobby.find(token, 3)
        victim = game.users[2]
        while game.health[2]:
            user = game.users[game.seat]
            if user == victim:
                await house.lobby.pass_turn(tokens[user], game.game_id)
            else:
                await house.lobby.attack(tokens[user], game.game_id, victim)
        house.told.clear()
        user = game.users[game.seat]
        await house.later(9)
        await house.lobby.attack(tokens[user], game.game_id, victim)
        await house.later(2)
        assert not game.is_turn_of(user)

    lived(story)

    assert ["Attacked Dead Enemy", "Turn Missed"] == house.told


def test_a_game_that_everybody_has_left_times_out_after_one_round_of_missed_turns(house: House) -> None:
    async def story() -> None:
        for user in "AB":
            await house.lobby.find(await house.lobby.login(user), 2)
        house.told.clear()
        for _ in range(5):
            await house.later(11)

    lived(story)

    assert ["Turn Missed", "Turn Missed", "Game Timed Out players"] == house.told
    assert ["timed out"] == [game.status for game in house.finished]


def test_the_one_who_waits_is_told_as_soon_as_it_is_its_turn(house: House) -> None:
    async def story() -> bool:
        tokens = {user: await house.lobby.login(user) for user in "AB"}
        for token in tokens.values():
            game = await house.lobby.find(token, 2)
        first, second = game.users
        waiting = asyncio.create_task(house.lobby.wait(tokens[second], game.game_id))
        await asyncio.sleep(0)
        before = waiting.done()
        await house.lobby.attack(tokens[first], game.game_id, second)
        seen, user = await waiting
        assert not before
        return seen.is_turn_of(user)

    assert lived(story)
