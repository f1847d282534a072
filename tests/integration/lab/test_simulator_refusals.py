"""What a game server does not take gets a clear answer, and touches neither the game nor the server."""

import asyncio
from contextlib import AsyncExitStack
from typing import Any, cast

import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.typing import Origin

from penstock.lab.simulator.server import LARGEST_MESSAGE_BYTES, Server, ServerOptions

from support.game_house import House, Told, ask, ask_once, lived, started, whose_turn


def test_scripts_of_web_pages_are_refused_unless_their_page_is_named() -> None:
    async def answer(address: str, origin: Origin) -> int:
        try:
            async with connect(f"{address}/api/v1/login", proxy=None, origin=origin) as connection:
                return connection.response.status_code if connection.response is not None else 0
        except InvalidStatus as refusal:
            return refusal.response.status_code

    async def story() -> list[int]:
        options = ServerOptions(port=0, origins=("https://game.example",))
        async with Server(House().lobby).running(options) as address:
            pages = ("https://elsewhere.example", "http://game.example", "https://game.example")
            return [await answer(address, Origin(page)) for page in pages]

    assert [403, 403, 101] == lived(story())


BAD = [
    ("login", "no json at all", "not JSON"),
    ("login", b"\x00\xff\x00", "not JSON"),
    ("login", "[" * 10_000, "not JSON"),
    ("login", [1, 2], "not a JSON object"),
    ("login", {}, "missing field 'user'"),
    ("login", {"user": 5}, "field 'user' must be text"),
    ("login", {"user": ""}, "field 'user' must be"),
    ("login", {"user": "x" * 200}, "field 'user' must be"),
    ("login", {"user": "x" * LARGEST_MESSAGE_BYTES}, "larger than"),
    ("game/find", {"players": 2}, "missing field 'token'"),
    ("game/find", {"token": "wrong", "players": 2}, "unknown token"),
    ("game/find", {"token": "{anna}", "players": "two"}, "field 'players' must be a whole number"),
    ("game/find", {"token": "{anna}", "players": True}, "field 'players' must be a whole number"),
    ("game/find", {"token": "{anna}", "players": 1}, "2 to 6"),
    ("game/find", {"token": "{anna}", "players": 2, "game_id": "x"}, "must be a UUID"),
    ("game/find", {"token": "{anna}", "players": 2, "game_id": None}, "field 'game_id' must be text"),
    ("game/lobby", {"token": "{anna}"}, "missing field 'game_id'"),
    ("game/lobby", {"token": "{anna}", "game_id": "none"}, "no such game"),
    ("game/lobby", {"token": "{carl}", "game_id": "{game}"}, "you are not in this game"),
    ("game/hero", {"token": "{anna}", "game_id": {}}, "field 'game_id' must be text"),
    ("game/hero", {"token": "{carl}", "game_id": "{carls}"}, "not started"),
    ("game/action", {"token": "{up}", "game_id": "{game}"}, "missing field 'action'"),
    ("game/action", {"token": "{up}", "game_id": "{game}", "action": "dance"}, "unknown action"),
    ("game/action", {"token": "{up}", "game_id": "{game}", "action": "attack"}, "missing field 'enemy'"),
    ("game/action", {"token": "{up}", "game_id": "{game}", "action": "attack", "enemy": "zoe"}, "not in this game"),
    ("game/action", {"token": "{up}", "game_id": "{game}", "action": "attack", "enemy": "{user}"}, "yourself"),
    ("game/action", {"token": "{idle}", "game_id": "{game}", "action": "pass"}, "not your turn"),
    ("game/action", {"token": "{carl}", "game_id": "{game}", "action": "pass"}, "not in this game"),
]


def test_bad_messages_get_a_clear_status_and_touch_neither_the_game_nor_the_connection() -> None:
    async def story() -> list[tuple[str, dict[str, Any]]]:
        house = House()
        async with house.running() as address:
            game_id, tokens = await started(address, "anna", "bert")
            carl = (await ask_once(address, "login", {"user": "carl"}))["token"]
            carls = (await ask_once(address, "game/find", {"token": carl, "players": 3}))["game_id"]
            user, _ = await whose_turn(address, game_id, tokens)
            idle = next(token for name, token in tokens.items() if name != user)
            names = {"anna": tokens["anna"], "carl": carl, "game": game_id, "carls": carls, "user": user}
            known = {**names, "up": tokens[user], "idle": idle}
            before = len(house.told)
            answers = []
            async with AsyncExitStack() as stack:
                routes = {
                    route: await stack.enter_async_context(connect(f"{address}/api/v1/{route}", proxy=None))
                    for route in {route for route, _, _ in BAD}
                }
                for route, message, expected in BAD:
                    sent = (
                        {name: known.get(str(value)[1:-1], value) for name, value in message.items()}
                        if isinstance(message, dict)
                        else message
                    )
                    answers.append((expected, await ask(routes[route], sent)))
            still_up, _ = await whose_turn(address, game_id, tokens)
            assert (before, user) == (len(house.told), still_up)
            return answers

    for expected, answer in lived(story()):
        assert (False, True) == (answer["ok"], expected in answer["status"]), (expected, answer)


def test_an_unknown_route_a_huge_frame_and_a_client_that_is_no_websocket_leave_the_server_as_it_was() -> None:
    async def story() -> str:
        async with House().running() as address:
            with pytest.raises(InvalidStatus, match="404"):
                await ask_once(address, "game/cheat", {})
            with pytest.raises(ConnectionClosed, match="1009"):
                await ask_once(address, "login", "x" * 2_000_000)
            host, port = address.removeprefix("ws://").split(":")
            _, writer = await asyncio.open_connection(host, int(port))
            writer.write(b"\x16\x03\x01 this is no handshake\r\n\r\n")
            await writer.drain()
            writer.close()
            return cast("str", (await ask_once(address, "login", {"user": "anna"}))["status"])

    assert "logged in" == lived(story())


def test_a_blow_at_a_dead_enemy_is_refused_with_a_status_and_the_player_may_try_again() -> None:
    async def story() -> tuple[dict[str, Any], dict[str, Any], Told]:
        house = House()
        async with house.running() as address:
            game_id, tokens = await started(address, "anna", "bert", "carl")
            while True:
                user, news = await whose_turn(address, game_id, tokens)
                me = {"token": tokens[user], "game_id": game_id, "action": "attack"}
                if news["fallen"]:
                    break
                victim = "anna" if user != "anna" else "bert"
                await ask_once(address, "game/action", {**me, "enemy": victim})
            refused = await ask_once(address, "game/action", {**me, "enemy": news["fallen"][0]})
            enemy = next(each for each in news["alive"] if each != user)
            return refused, await ask_once(address, "game/action", {**me, "enemy": enemy}), house.told

    refused, accepted, told = lived(story())

    assert (False, "the enemy is dead already; it is still your turn") == (refused["ok"], refused["status"])
    assert "attacked" == accepted["status"]
    assert 1 == [name for name, _ in told].count("Attacked Dead Enemy")


def test_a_defect_of_ours_costs_one_message_and_not_the_server(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story() -> list[str]:
        house = House()
        async with house.running() as address, connect(f"{address}/api/v1/login", proxy=None) as connection:
            with monkeypatch.context() as patched:
                patched.setattr(house.lobby, "login", lambda _user: 1 / 0)
                failed = await ask(connection, {"user": "anna"})
            return [failed["status"], (await ask(connection, {"user": "anna"}))["status"]]

    assert ["the server failed at this message; others are not affected", "logged in"] == lived(story())
