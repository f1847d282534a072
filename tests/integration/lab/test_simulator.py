"""The game over sockets; the simulation into Kafka."""

import asyncio
from collections import Counter
from typing import Any

import orjson
import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed

from penstock.errors import Transient
from penstock.lab.simulator.plan import plan
from penstock.lab.simulator.play import BotOptions, crowd, open_crowd
from penstock.lab.simulator.player import checked_server
from penstock.lab.simulator.server import Server, ServerOptions

from support.game_house import House, Told, ask_once, lived, started, whose_turn


def test_a_server_on_an_ipv6_address_says_where_it_is() -> None:
    async def story() -> bool:
        async with Server(House().lobby).running(ServerOptions(host="::1", port=0)) as address:
            return bool((await ask_once(checked_server(address), "login", {"user": "anna"}))["ok"])

    assert lived(story())


def test_two_users_play_a_whole_game_over_the_five_routes() -> None:
    async def story() -> tuple[Told, dict[str, Any]]:
        house = House()
        async with house.running() as address:
            game_id, tokens = await started(address, "anna", "bert")
            hero = await ask_once(address, "game/hero", {"token": tokens["anna"], "game_id": game_id})
            while True:
                user, news = await whose_turn(address, game_id, tokens)
                if news["status"] != "your turn":
                    break
                enemy = next(each for each in tokens if each != user)
                strike = {"token": tokens[user], "game_id": game_id, "action": "attack", "enemy": enemy}
                done = await ask_once(address, "game/action", strike)
                assert (True, "attacked", enemy) == (done["ok"], done["status"], done["enemy"])
                assert done["health"] == news["health"][enemy] - done["damage"]
            return house.told, {"hero": hero, "end": news}

    told, seen = lived(story())

    assert "game ended" == seen["end"]["status"]
    assert told[-1][1]["winner"] == seen["end"]["winner"]
    assert ("alive", True) == (seen["hero"]["status"], seen["hero"]["health"] > 0)
    assert {"Match Started": 1, "Hero Selected": 2, "Match Ended": 1} == {
        name: count for name, count in Counter(name for name, _ in told).items() if name != "Attack Completed"
    }


def test_a_player_who_vanishes_misses_turns_and_the_others_play_on_to_the_end() -> None:
    async def story() -> Told:
        # Long enough for those who are there: if all of them missed their turns, the game would time out.
        house = House(turn_timeout_s=1.0)
        async with house.running() as address:
            game_id, tokens = await started(address, "anna", "bert", "gone")
            del tokens["gone"]
            while True:
                user, news = await whose_turn(address, game_id, tokens)
                if news["status"] != "your turn":
                    return house.told
                enemy = next(each for each in reversed(news["alive"]) if each != user)
                strike = {"token": tokens[user], "game_id": game_id, "action": "attack", "enemy": enemy}
                await ask_once(address, "game/action", strike)

    told = lived(story())

    assert "Match Ended" == told[-1][0]
    assert "gone" in {fields["user"] for name, fields in told if name == "Turn Missed"}


def test_a_game_in_which_nobody_acts_times_out_and_those_who_wait_are_told() -> None:
    async def story() -> tuple[Told, list[dict[str, Any]]]:
        house = House(turn_timeout_s=0.05)
        async with house.running() as address:
            game_id, tokens = await started(address, "anna", "bert")
            await_end = {"token": tokens["anna"], "game_id": game_id}
            news = [await ask_once(address, "game/lobby", await_end)]
            while news[-1]["status"] == "your turn":
                news.append(await ask_once(address, "game/lobby", await_end))
            return house.told, news

    told, news = lived(story())

    assert "timed out" == news[-1]["status"]
    assert ("Game Timed Out", "players") == (told[-1][0], told[-1][1]["reason"])
    assert 2 == [name for name, _ in told].count("Turn Missed")


def test_a_server_that_stops_does_not_wait_for_players_in_its_lobby() -> None:
    async def story() -> None:
        async with House().running() as address:
            token = (await ask_once(address, "login", {"user": "anna"}))["token"]
            game_id = (await ask_once(address, "game/find", {"token": token, "players": 2}))["game_id"]
            connection = await connect(f"{address}/api/v1/game/lobby", proxy=None)
            await connection.send(orjson.dumps({"token": token, "game_id": game_id}).decode())
        with pytest.raises(ConnectionClosed):
            await connection.recv()

    asyncio.run(asyncio.wait_for(story(), 240))


def test_players_whose_server_goes_away_end_with_one_clear_error() -> None:
    async def story() -> None:
        house = House()
        async with house.running() as address:
            games = list(plan(4, 1, seed=1))
            playing = asyncio.create_task(crowd(address, games, BotOptions(think_s=0.05), show=lambda *_: None))
            await house.first_attack.wait()
        await playing

    with pytest.raises(Transient, match=r"has gone away|no game server answers"):
        lived(story())


def test_bots_who_take_any_game_play_with_each_other_and_a_lobby_that_nobody_joins_times_out() -> None:
    async def story() -> tuple[Counter[Any], Told]:
        house = House(lobby_timeout_s=1.0)
        async with house.running() as address:
            outcomes = await open_crowd(address, range(12), 3, BotOptions(), seed=1, show=lambda *_: None)
            return outcomes, house.told

    outcomes, told = lived(story())
    messages = Counter(name for name, _ in told)

    assert 36 == outcomes.total()
    assert outcomes["won"] == messages["Match Ended"] > 0
    assert messages["Match Started"] == messages["Match Ended"]
    assert messages["Hero Selected"] == outcomes["won"] + outcomes["lost"]
