"""Seeded random schedules of faults, for as long as told: `make soak MINUTES=30 SEED=7`."""

import random
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from penstock.kafka import topics
from penstock.lab.bench.throwaway_postgres import RunningPostgres

from conftest import RunningKafka
from support.chains import Chain, landed_so_far, make_chain
from support.drivers import Driver
from support.waiting import until

SINKS = ["delta", "json", "kafka", "postgres"]
POINTS = ["planned", "writing", "prepared", "sink_committed:dead", "committed"]


def crash(chain: Chain, dice: random.Random, _postgres: RunningPostgres) -> None:
    sink = dice.choice(list(chain.rows))
    point = dice.choice([*POINTS, f"in_commit:{sink}", f"sink_committed:{sink}"])
    driver = chain.drive(PENSTOCK_CRASH_AT=point, PENSTOCK_CRASH_AFTER=str(dice.randrange(3)))
    assert driver.wait() in {-9, 0}, driver.said


def kill_while_it_runs(chain: Chain, dice: random.Random, _postgres: RunningPostgres) -> None:
    driver = _started(chain, dice)
    driver.kill()


def restart_the_database(chain: Chain, dice: random.Random, postgres: RunningPostgres) -> None:
    driver = _started(chain, dice)
    postgres.kill()
    postgres.start()
    assert 0 == driver.wait(), driver.said


def restart_the_broker(chain: Chain, dice: random.Random, _postgres: RunningPostgres) -> None:
    driver = _started(chain, dice)
    chain.kafka.restart()
    assert 0 == driver.wait(), driver.said


def hang(chain: Chain, dice: random.Random, _postgres: RunningPostgres) -> None:
    driver = _started(chain, dice)
    driver.pause()
    time.sleep(dice.uniform(0, 3))  # the fault itself takes time: nothing is waited for
    driver.resume()
    assert 0 == driver.wait(), driver.said


def add_a_partition(chain: Chain, _dice: random.Random, _postgres: RunningPostgres) -> None:
    admin = chain.kafka.admin()
    topics.add_partitions(admin, chain.journal.topic, topics.partition_count(admin, chain.journal.topic) + 1)


def _started(chain: Chain, dice: random.Random) -> Driver:
    """Start a driver and wait until it is somewhere in its work."""
    sink = dice.choice(list(chain.rows))
    before = landed_so_far(chain, sink)
    driver = chain.drive()
    until(lambda: landed_so_far(chain, sink) > before or driver.process.poll() is not None, 120)
    return driver


FAULTS: list[Callable[[Chain, random.Random, RunningPostgres], None]] = [
    crash,
    crash,
    kill_while_it_runs,
    restart_the_database,
    restart_the_broker,
    hang,
    add_a_partition,
]


@pytest.mark.soak
@pytest.mark.timeout(0)
def test_no_schedule_of_faults_loses_or_doubles_an_event(
    kafka: RunningKafka, postgres: RunningPostgres, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    seed = request.config.getoption("--soak-seed")
    ends_at = time.monotonic() + 60 * request.config.getoption("--soak-minutes")
    dice = random.Random(seed)
    done: list[str] = []
    while not done or time.monotonic() < ends_at:
        folder = tmp_path / str(len(done))
        folder.mkdir()
        chain = make_chain(dice.sample(SINKS, dice.randint(1, 3)), kafka, postgres, folder)
        schedule = [dice.choice(FAULTS) for _ in range(5)]
        for fault in schedule:
            chain.journal.send(dice.randrange(500, 4000))
            fault(chain, dice, postgres)
        driver = chain.drive()
        assert 0 == driver.wait(), driver.said
        told = f"seed {seed}, round {len(done)}: {', '.join(fault.__name__ for fault in schedule)}"
        assert [] == chain.faults(), told
        done.append(told)
