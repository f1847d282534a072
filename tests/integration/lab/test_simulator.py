"""The game over sockets and, for several servers, over Redis; the simulation into Kafka."""

import asyncio
from collections import Counter
from collections.abc import Coroutine
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, TypeVar, cast

import orjson
import pytest
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.typing import Origin

from penstock.errors import Conflict, NotFound, Transient
from penstock.lab.bench.throwaway_redis import RunningRedis
from penstock.lab.simulator.events import EventKind, Fields
from penstock.lab.simulator.lobby import Lobby, LobbyOptions
from penstock.lab.simulator.plan import plan
from penstock.lab.simulator.play import BotOptions, crowd, open_crowd
from penstock.lab.simulator.player import Player, checked_server
from penstock.lab.simulator.redis_store import RedisStore
from penstock.lab.simulator.server import LARGEST_MESSAGE_BYTES, Server, ServerOptions
from penstock.lab.simulator.simulation import SimulationOptions, simulate
from penstock.lab.simulator.store import MemoryStore, Store
from penstock.lab.simulator.truth import read_truth
from penstock.testing import FakeClock

T = TypeVar("T")
Told = list[tuple[str, dict[str, Any]]]


class House:
    """A server under test: its address, and what its games told."""

    def __init__(self, store: Store | None = None, **options: float) -> None:
        self.told: Told = []
        self.standings: list[Any] = []
        self.lobby = Lobby(
            store or MemoryStore(),
            LobbyOptions(**{"lobby_timeout_s": 60.0, "turn_timeout_s": 60.0, **options}),
            publish=self._publish,
            finished=lambda game: self.standings.extend(game.standings()),
        )
        self.first_attack = asyncio.Event()

    def _publish(self, kind: EventKind, fields: Fields) -> None:
        self.told.append((kind.message, fields))
        if kind.message == "Attack Completed":
            self.first_attack.set()

    def running(self, port: int = 0) -> Any:
        return Server(self.lobby).running(ServerOptions(port=port))


def lived(story: Coroutine[Any, Any, T]) -> T:
    return asyncio.run(asyncio.wait_for(story, 60))


async def ask(connection: ClientConnection, message: Any) -> dict[str, Any]:
    content = message if isinstance(message, str | bytes) else orjson.dumps(message).decode()
    await connection.send(content)
    return cast("dict[str, Any]", orjson.loads(await connection.recv()))


async def ask_once(address: str, route: str, message: Any) -> dict[str, Any]:
    async with connect(f"{address}/api/v1/{route}", proxy=None) as connection:
        return await ask(connection, message)


async def started(address: str, *users: str) -> tuple[str, dict[str, str]]:
    """Log these users in and start a game of them; gives its id and their tokens."""
    tokens = {user: (await ask_once(address, "login", {"user": user}))["token"] for user in users}
    for token in tokens.values():
        found = await ask_once(address, "game/find", {"token": token, "players": len(users)})
    return found["game_id"], tokens


async def whose_turn(address: str, game_id: str, tokens: dict[str, str]) -> tuple[str, dict[str, Any]]:
    """Wait in the lobby as everybody; gives who is up, and what that player was told."""
    waiting = {
        asyncio.create_task(ask_once(address, "game/lobby", {"token": token, "game_id": game_id})): user
        for user, token in tokens.items()
    }
    done, others = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
    for each in others:
        each.cancel()
    await asyncio.gather(*others, return_exceptions=True)
    # When the game is over, several are told at once.
    task = min(done, key=lambda each: waiting[each])
    return waiting[task], task.result()


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


def test_a_server_on_an_ipv6_address_says_where_it_is() -> None:
    async def story() -> bool:
        async with Server(House().lobby).running(ServerOptions(host="::1", port=0)) as address:
            return bool((await ask_once(checked_server(address), "login", {"user": "anna"}))["ok"])

    assert lived(story())


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


def test_a_player_who_vanishes_misses_turns_and_the_others_play_on_to_the_end() -> None:
    async def story() -> Told:
        house = House(turn_timeout_s=0.05)
        async with house.running() as address:
            game_id, tokens = await started(address, "anna", "bert", "gone")
            del tokens["gone"]
            while True:
                user, news = await whose_turn(address, game_id, tokens)
                if news["status"] != "your turn":
                    return house.told
                enemy = next(each for each in news["alive"] if each != user)
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

    asyncio.run(asyncio.wait_for(story(), 15))


def test_a_defect_of_ours_costs_one_message_and_not_the_server(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story() -> list[str]:
        house = House()
        async with house.running() as address, connect(f"{address}/api/v1/login", proxy=None) as connection:
            with monkeypatch.context() as patched:
                patched.setattr(house.lobby, "login", lambda _user: 1 / 0)
                failed = await ask(connection, {"user": "anna"})
            return [failed["status"], (await ask(connection, {"user": "anna"}))["status"]]

    assert ["the server failed at this message; others are not affected", "logged in"] == lived(story())


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
        house = House(lobby_timeout_s=0.3)
        async with house.running() as address:
            outcomes = await open_crowd(address, range(12), 3, BotOptions(), seed=1, show=lambda *_: None)
            return outcomes, house.told

    outcomes, told = lived(story())
    messages = Counter(name for name, _ in told)

    assert 36 == outcomes.total()
    assert outcomes["won"] == messages["Match Ended"] > 0
    assert messages["Match Started"] == messages["Match Ended"]
    assert messages["Hero Selected"] == outcomes["won"] + outcomes["lost"]


@pytest.fixture
def shared(redis_server: RunningRedis) -> str:
    """Give the address of an empty database, in which no other test has games."""
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
    """Give what happened in an order that does not depend on which server told it."""
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
