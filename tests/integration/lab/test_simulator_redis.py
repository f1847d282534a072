"""Several game servers that share Redis: the same games as one server plays, and every event told once."""

import asyncio
from collections import Counter
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import orjson
import pytest

from penstock.errors import Conflict, NotFound
from penstock.lab.bench.throwaway_redis import RunningRedis
from penstock.lab.simulator.lobby import Lobby, LobbyOptions
from penstock.lab.simulator.plan import plan
from penstock.lab.simulator.play import BotOptions, crowd
from penstock.lab.simulator.player import Player
from penstock.lab.simulator.redis_store import RedisStore
from penstock.lab.simulator.server import Server, ServerOptions
from penstock.lab.simulator.simulation import SimulationOptions, simulate
from penstock.lab.simulator.truth import read_truth
from penstock.testing import FakeClock

from support.game_house import House, Told, ask_once, lived


def test_a_name_that_is_in_a_game_in_redis_cannot_be_taken_over(shared: str) -> None:
    async def story() -> tuple[int, bool, int]:
        store = RedisStore(shared)
        try:
            with FakeClock() as clock:
                lobby = Lobby(store, LobbyOptions(lobby_timeout_s=30))
                token = await lobby.login("anna")
                await lobby.find(token, 2)
                with pytest.raises(Conflict, match="is in a game"):
                    await lobby.login("anna")
                clock.advance(31)
                await lobby.expire()
                again = await lobby.login("anna")
                with pytest.raises(NotFound, match="unknown token"):
                    await store.user_of(token)
                return await store.games_of("anna"), "anna" == await store.user_of(again), await store.count()
        finally:
            await store.close()

    assert (0, True, 1) == lived(story())


@pytest.fixture
def shared(redis_server: RunningRedis) -> str:
    """Return the address of an empty database, in which no other test has games."""
    with redis_server.connect() as client:
        client.execute_command("SELECT", 1)
        client.flushdb()
    return redis_server.address().replace("/0?", "/1?")


def test_two_servers_that_share_redis_play_the_same_games_as_one_and_tell_every_event_once(
    shared: str, tmp_path: Path
) -> None:
    games = list(plan(8, 6, seed=77))

    async def story() -> tuple[Told, list[Any], Counter[Any]]:
        stores = [RedisStore(shared) for _ in range(2)]
        one, other = (House(store) for store in stores)
        async with one.running() as first, other.running() as second:
            # Each player logs in at one server and plays at both, by turns.
            players = {user: Wanderer((first, second), user) for game in games for user in game.users}
            for player in players.values():
                await player.log_in()
            outcomes: Counter[Any] = Counter()
            for game in games:
                outcomes.update(await asyncio.gather(*(players[user].play(game) for user in game.users)))
        assert min(len(one.told), len(other.told)) > 0
        for store in stores:
            await store.close()
        return one.told + other.told, one.standings + other.standings, outcomes

    told, standings, outcomes = lived(story())
    records: list[Any] = []
    options = SimulationOptions(players=8, games=6, seed=77, speed="max", truth=tmp_path / "truth.jsonl")
    simulate(options, records.extend)
    expected = [orjson.loads(record["value"]) for record in records]

    assert 6 == outcomes["won"]
    assert by_turn(expected) == by_turn([{"message": name, **fields} for name, fields in told])
    assert {tuple(each.model_dump().values()) for each in read_truth(options.truth)} == {
        tuple(getattr(each, name) for name in type(each).__slots__) for each in standings
    }


class Wanderer(Player):
    """A player whose every request goes to another server than the one before."""

    def __init__(self, servers: tuple[str, str], user: str) -> None:
        super().__init__(servers[0], user, mistakes=0.01)
        self._others = servers[::-1]

    def _route(self, name: str) -> Any:
        self._server, self._others = self._others[0], self._others[::-1]
        return super()._route(name)


def by_turn(events: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    """Return what happened in an order that does not depend on which server told it."""
    apart = {"at", "level", "logger"}
    return sorted(
        (
            each["game_id"],
            each.get("turn", 0),
            each["message"],
            sorted((k, str(v)) for k, v in each.items() if k not in apart),
        )
        for each in events
    )


def test_of_many_servers_that_act_at_once_exactly_one_wins_each_turn(shared: str) -> None:
    async def story() -> tuple[Told, list[Any]]:
        told: Told = []
        stores = [RedisStore(shared) for _ in range(4)]
        lobbies = [
            Lobby(store, LobbyOptions(), publish=lambda kind, fields: told.append((kind.message, fields)))
            for store in stores
        ]
        tokens = {user: await lobbies[0].login(user) for user in ("anna", "bert", "carl")}
        joined = await asyncio.gather(
            *(
                lobby.find(token, 3, "5f0c2f5e-8a34-4f0e-9d57-0d0f6a9a1b11")
                for lobby, token in zip(lobbies, tokens.values(), strict=False)
            )
        )
        game = next(game for game in joined if game.status == "playing")
        outcomes = []
        for _ in range(20):
            user = game.users[game.seat]
            enemy = next(each for each in game.alive if each != user)
            outcomes.append(
                await asyncio.gather(
                    *(lobby.attack(tokens[user], game.game_id, enemy) for lobby in lobbies), return_exceptions=True
                )
            )
            game, _ = await lobbies[0].seen_by(tokens[user], game.game_id)
            if game.is_over:
                break
        for store in stores:
            await store.close()
        return told, outcomes

    told, outcomes = lived(story())
    attacks = [fields for name, fields in told if name == "Attack Completed"]

    assert len(outcomes) == len(attacks) > 3
    assert list(range(1, len(attacks) + 1)) == [fields["turn"] for fields in attacks]
    for tries in outcomes:
        assert [Conflict] * 3 == [type(each) for each in tries if isinstance(each, Exception)]
    assert 1 == [name for name, _ in told].count("Match Started")


def test_two_servers_behind_one_address_play_games_to_their_end(shared: str) -> None:
    games = list(plan(6, 4, seed=5))

    async def story() -> tuple[Counter[Any], list[int]]:
        stores = [RedisStore(shared) for _ in range(2)]
        houses = [House(store) for store in stores]
        async with AsyncExitStack() as stack:
            first = ServerOptions(port=0, shares_port=True)
            address = await stack.enter_async_context(Server(houses[0].lobby).running(first))
            second = first.model_copy(update={"port": int(address.rpartition(":")[2])})
            await stack.enter_async_context(Server(houses[1].lobby).running(second))
            outcomes = await crowd(address, games, BotOptions(), show=lambda _done, _total: None)
        for store in stores:
            await store.close()
        return outcomes, [sum(name == "Match Ended" for name, _ in house.told) for house in houses]

    outcomes, ended = lived(story())

    assert (4, 4) == (outcomes["won"], sum(ended))


def test_a_turn_whose_time_is_up_is_missed_once_however_many_servers_watch(shared: str) -> None:
    async def story(clock: FakeClock) -> list[list[str]]:
        told: list[str] = []
        stores = [RedisStore(shared) for _ in range(3)]
        options = LobbyOptions(turn_timeout_s=10.0)
        lobbies = [Lobby(store, options, publish=lambda kind, _: told.append(kind.message)) for store in stores]
        for user in ("anna", "bert", "carl"):
            await lobbies[0].find(await lobbies[0].login(user), 3, "0d9f4f4e-3f0b-4d6a-8b62-64b3f3f7c0aa")
        seen = []
        for _ in range(3):
            told.clear()
            clock.advance(11.0)
            await asyncio.gather(*(lobby.expire() for lobby in lobbies))
            seen.append(list(told))
        for store in stores:
            await store.close()
        return seen

    with FakeClock() as clock:
        seen = lived(story(clock))

    assert [["Turn Missed"], ["Turn Missed"], ["Turn Missed", "Game Timed Out"]] == seen


def test_while_redis_is_away_players_are_told_so_and_afterwards_the_game_goes_on(
    redis_server: RunningRedis, shared: str
) -> None:
    async def story() -> list[str]:
        store = RedisStore(shared)
        async with House(store).running() as address:
            token = (await ask_once(address, "login", {"user": "anna"}))["token"]
            redis_server.kill()
            try:
                away = await ask_once(address, "game/find", {"token": token, "players": 2})
            finally:
                redis_server.start()
            back = await ask_once(address, "game/find", {"token": token, "players": 2})
        await store.close()
        return [away["status"], back["status"]]

    away, back = lived(story())

    assert "does not answer" in away
    assert "joined" == back
