"""The simulation into Kafka and Redis: what was played is what arrives, at both speeds and from several processes."""

import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

import orjson
import pytest

from penstock.broker.ports import find_free
from penstock.errors import BadInput, DeliveryFailed, Transient
from penstock.kafka import topics
from penstock.kafka.reader import read_all
from penstock.lab.bench.throwaway_redis import RunningRedis
from penstock.lab.simulator import sending
from penstock.lab.simulator.sending import Destination, SentSimulation, simulate_to
from penstock.lab.simulator.simulation import SimulationOptions
from penstock.lab.simulator.truth import read_truth

from conftest import Cli, RunningKafka
from support.waiting import until

Speed = Literal["live", "max"]


def played(place: Path, destination: Destination, speed: Speed, **options: Any) -> SentSimulation:
    given = {"players": 6, "games": 8, "seed": 11, "malformed": 0.05, **options}
    return simulate_to(SimulationOptions(speed=speed, truth=place / f"{speed}.jsonl", **given), destination)


def by_game(kafka: RunningKafka, topic: str) -> dict[str, list[tuple[int, Any]]]:
    """Return what is in the topic, without times, per key and in order."""
    found: dict[str, list[tuple[int, Any]]] = {}
    for message in read_all(kafka.connection, topic):
        value = bytes(message.value() or b"")
        content = re.sub(rb'"at":"[^"]*"?', b'"at":""', value)
        try:
            content = orjson.loads(content)
        except orjson.JSONDecodeError:
            content = re.sub(rb"20[-0-9T:.]*$", b"", content)
        found.setdefault(bytes(message.key() or b"").decode(), []).append((int(message.partition() or 0), content))
    return found


def events_of(records: list[tuple[int, Any]]) -> list[Any]:
    return [
        content
        for _, content in records
        if isinstance(content, dict) and isinstance(content.get("message"), str) and "game_id" in content
    ]


def test_both_speeds_put_the_same_games_in_the_topic_and_write_the_same_truth(
    kafka: RunningKafka, tmp_path: Path
) -> None:
    results, found = {}, {}
    speeds: tuple[Speed, Speed] = ("live", "max")
    for speed in speeds:
        destination = Destination(topic=f"speeds.{speed}", connection=kafka.connection)
        results[speed] = played(tmp_path, destination, speed)
        found[speed] = by_game(kafka, f"speeds.{speed}")

    assert 4 == topics.partition_count(kafka.admin(), "speeds.live")
    assert results["live"].by_message == results["max"].by_message
    assert 0 < results["live"].malformed == results["max"].malformed
    for speed, result in results.items():
        assert (8, 0, result.events + result.malformed) == (result.games, result.dropped, result.sent)
        assert result.sent == sum(map(len, found[speed].values()))
        assert {1} == {len({partition for partition, _ in records}) for records in found[speed].values()}
    assert found["live"].keys() == found["max"].keys()
    for game_id, records in found["max"].items():
        assert events_of(found["live"][game_id]) == events_of(records) != []
    truths = [sorted(read_truth(tmp_path / f"{speed}.jsonl"), key=str) for speed in speeds]
    assert truths[0] == truths[1] != []


def test_each_module_has_a_topic_of_its_own_if_asked_for(kafka: RunningKafka, tmp_path: Path) -> None:
    destination = Destination(topic="modules", by_module=True, connection=kafka.connection)
    result = played(tmp_path, destination, "live")
    found = {module: by_game(kafka, f"modules.{module}") for module in ("lobby", "game")}
    loggers = {
        module: {event["logger"] for records in games.values() for event in events_of(records)}
        for module, games in found.items()
    }

    assert {module: {f"penstock.lab.simulator.{module}"} for module in found} == loggers
    assert result.records == result.sent == sum(len(each) for games in found.values() for each in games.values())
    assert 0 < result.malformed


def test_full_speed_knows_no_modules(tmp_path: Path, cli: Cli) -> None:
    refused = cli("sim", "run", "--by-module", "--speed", "max", home=tmp_path)

    assert 2 == refused.code
    assert "use --speed live" in refused.err


def test_any_transport_takes_the_games(redis_server: RunningRedis, tmp_path: Path) -> None:
    lengths = {}
    speeds: tuple[Speed, Speed] = ("live", "max")
    with redis_server.connect() as client:
        for speed in speeds:
            result = played(tmp_path, Destination(redis_server.address(), topic=f"games.{speed}"), speed)
            lengths[speed] = (result.sent, client.xlen(f"games.{speed}"))

    assert lengths["live"] == lengths["max"]
    assert {True} == {sent == there > 0 for sent, there in lengths.values()}


def test_a_server_that_is_not_there_is_reported_before_anything_is_played(tmp_path: Path) -> None:
    (port,) = find_free("127.0.0.1", 1)
    for address in (f"kafka://127.0.0.1:{port}", f"redis://127.0.0.1:{port}/0", f"amqp://127.0.0.1:{port}"):
        with pytest.raises(Transient):
            played(tmp_path, Destination(address), "max")
    with pytest.raises(BadInput, match="no transport is known"):
        Destination("pigeon://home")

    assert [] == list(tmp_path.iterdir())


def test_events_that_a_server_did_not_take_are_reported_and_never_counted_as_sent(
    redis_server: RunningRedis, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sending, "_FLUSH_TIMEOUT_S", 0.5)
    options = SimulationOptions(games=8, truth=tmp_path / "truth.jsonl")
    destination = Destination(redis_server.address(), topic="games.lost")
    try:
        with pytest.raises(DeliveryFailed, match=r"[1-9]\d* of \d+ records were not accepted by redis://"):
            simulate_to(options, destination, show=lambda _done, _total: redis_server.kill())
    finally:
        redis_server.start()


def test_run_ends_by_itself_with_a_table_and_the_truth(kafka: RunningKafka, cli: Cli, tmp_path: Path) -> None:
    truth = tmp_path / "truth.jsonl"
    common = ("sim", "run", "--games", 6, "--players", 5, "--malformed", 0.05, "--topic", "run.cli", "--truth", truth)
    shown = cli(*common, home=kafka.home)
    counted = cli(*common, "--speed", "max", "--json", home=kafka.home)

    assert (0, 0) == (shown.code, counted.code), shown.err + counted.err
    assert re.search(r"Match Ended +6\n", shown.out)
    assert "0 dropped" in shown.err
    assert str(truth) in shown.err
    assert 6 == counted.json["games"] == len({each.game_id for each in read_truth(truth)})
    assert 2 * counted.json["sent"] == len(read_all(kafka.connection, "run.cli"))


@contextmanager
def serving(*arguments: str | Path, home: Path, place: Path) -> Iterator[tuple[str, "subprocess.Popen[bytes]"]]:
    """Run a server of its own process; gives its address, and ends it by its id."""
    said = place / f"server-{len(list(place.iterdir()))}.txt"
    command = [sys.executable, "-m", "penstock", "--home", str(home), "sim", "serve", "--port", "0"]
    with said.open("wb") as output:
        process = subprocess.Popen([*command, *map(str, arguments)], stdout=output, stderr=output, cwd=place)
    try:
        until(lambda: b"serving games at" in said.read_bytes() or process.poll() is not None)
        address = re.search(r"ws://[0-9.:]+[0-9]", said.read_text())
        assert address, said.read_text()
        yield address[0], process
    finally:
        process.kill()
        process.wait()


def test_servers_and_players_as_processes_of_their_own_play_the_games_of_the_seed(
    kafka: RunningKafka, redis_server: RunningRedis, cli: Cli, tmp_path: Path
) -> None:
    shared = ("--state", redis_server.address().replace("/0?", "/2?"), "--topic", "processes")
    with (
        serving(*shared, "--truth", tmp_path / "one.jsonl", home=kafka.home, place=tmp_path) as (first, one),
        serving(*shared, "--truth", tmp_path / "two.jsonl", home=kafka.home, place=tmp_path) as (second, two),
    ):
        done = [
            cli("sim", "players", "--count", 5, "--games", 4, "--first", start, "--server", address, "--json")
            for start, address in ((0, first), (5, second))
        ]
        for process in (one, two):
            process.send_signal(signal.SIGTERM)
        codes = [process.wait(60) for process in (one, two)]
    played(
        tmp_path,
        Destination(topic="processes.max", connection=kafka.connection),
        "max",
        players=5,
        games=4,
        seed=1,
        malformed=0.0,
    )
    found, expected = by_game(kafka, "processes"), by_game(kafka, "processes.max")
    truth = [each for name in ("one", "two") for each in read_truth(tmp_path / f"{name}.jsonl")]

    assert [0, 0] == codes
    assert [4, 4] == [each.json["won"] for each in done]
    assert 8 == len(found)
    for game_id, records in expected.items():
        assert events_of(records) == events_of(found[game_id])
    assert {each.game_id for each in truth} == found.keys()
    assert set(read_truth(tmp_path / "max.jsonl")) <= set(truth)


def test_a_port_in_use_and_a_store_that_is_away_stop_the_server_before_it_begins(kafka: RunningKafka, cli: Cli) -> None:
    broker = kafka.connection.bootstrap_servers.split(":")[1]
    taken = cli("sim", "serve", "--port", broker, home=kafka.home)
    away = cli("sim", "serve", "--port", 0, "--state", "redis://127.0.0.1:1/0", home=kafka.home)

    assert (6, 4) == (taken.code, away.code)
    assert [True] == [f"port {broker} on 127.0.0.1 is in use" in line for line in taken.error_lines]
    assert [True] == ["Redis at 127.0.0.1:1 does not answer" in line for line in away.error_lines]
