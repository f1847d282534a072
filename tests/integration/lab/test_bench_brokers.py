"""The comparison of brokers with real servers, small: a log and a loudspeaker, which differ in everything."""

import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import orjson
import psutil
import pytest

from penstock.errors import EnvironmentNotReady
from penstock.lab.bench import throwaway_redis

from conftest import Cli
from support.waiting import eventually


@pytest.fixture(autouse=True)
def _redis_is_there() -> None:
    try:
        throwaway_redis.find_server()
    except EnvironmentNotReady as error:
        pytest.skip(str(error))


SMALL = ["--events", 1000, "--rounds", 1, "--seconds", 1, "--rate", 500]


def test_a_log_loses_nothing_repeats_what_was_in_hand_and_can_be_read_again(cli: Cli, tmp_path: Path) -> None:
    only = ["--only", "redis-streams"]

    said = cli("bench", "brokers", *SMALL, *only, "--json", "--output", "o.json", "--plot", "p.svg", home=tmp_path)

    assert 0 == said.code, said.err
    (line,) = said.json
    assert said.json == orjson.loads((tmp_path / "o.json").read_bytes())
    assert (0, 0, 0) == (line["away_lost"], line["reader_died_lost"], line["server_died_lost"])
    assert line["reader_died_repeated"] > 0
    assert line["takeover_s"] > 3.0
    assert (1000, 0) == (line["replayed"], line["lost_at_full_speed"])
    assert line["disk_bytes_per_event"] > 200
    assert 0 < line["p50_ms"] <= line["p99_ms"]
    assert "events a second, until acknowledged" in (tmp_path / "p.svg").read_text()
    assert [] == list(tmp_path.glob("bench-*"))


@pytest.mark.soak
def test_a_loudspeaker_loses_what_nobody_hears(cli: Cli) -> None:
    said = cli("bench", "brokers", *SMALL, "--only", "redis-pubsub", "--json")

    assert 0 == said.code, said.err
    (line,) = said.json
    assert (1000, 0, 0) == (line["away_lost"], line["replayed"], line["disk_bytes_per_event"])
    # A quarter was sent in between; of the half before it, at least a quarter had been acknowledged.
    assert 250 < line["reader_died_lost"] <= 500
    assert line["server_died_accepted"] == line["server_died_lost"] >= 1000
    assert (None, 0) == (line["takeover_s"], line["lost_at_full_speed"])


def test_a_bench_that_is_told_to_end_leaves_no_server_and_no_reader(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "penstock", "--home", str(tmp_path), "bench", "brokers", "--events", "1000"]
    process = psutil.Popen([*command, "--only", "redis-pubsub"], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)

    def children() -> dict[str, psutil.Process]:
        found = {}
        for child in process.children():
            with suppress(psutil.NoSuchProcess):
                found["server" if "redis" in child.name() else "reader"] = child
        return found

    started = eventually(children, lambda found: len(found) == 2).values()
    process.terminate()

    assert b"interrupted" in process.communicate(timeout=240)[1]
    assert 130 == process.returncode
    assert [] == [child for child in started if child.is_running()]


def test_an_unknown_broker_is_one_clear_line(cli: Cli) -> None:
    said = cli("bench", "brokers", "--only", "nats")

    assert 2 == said.code
    assert 1 == len(said.error_lines)
    assert "'nats'" in said.error_lines[0]
