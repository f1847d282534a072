"""Random histories on shared servers: `make histories COUNT=200 SEED=1`."""

import json
import random
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from penstock.lab.bench.throwaway_postgres import RunningPostgres

from conftest import RunningKafka
from support.histories import faults
from support.histories.faults import Fault
from support.histories.run import live
from support.histories.sabotage import SABOTAGES
from support.histories.world import Servers

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="session")
def servers(kafka: RunningKafka, postgres: RunningPostgres, spark: "SparkSession") -> Servers:
    """The run's own servers; drivers find the JVM by the way that PySpark has for it."""
    gateway = getattr(spark.sparkContext, "_gateway").gateway_parameters  # noqa: B009 - nothing public tells it
    return Servers(
        kafka,
        postgres,
        {"PYSPARK_GATEWAY_PORT": str(gateway.port), "PYSPARK_GATEWAY_SECRET": gateway.auth_token},
    )


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "seed" in metafunc.fixturenames:
        first, count = metafunc.config.getoption("--soak-seed"), metafunc.config.getoption("--histories")
        metafunc.parametrize("seed", range(first, first + count))


@pytest.mark.histories
@pytest.mark.timeout(900)
def test_a_random_history_loses_doubles_and_skips_nothing(
    seed: int, servers: Servers, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    world = live(servers, seed, tmp_path)
    kept = Path(request.config.getoption("--histories-folder"))
    kept.mkdir(parents=True, exist_ok=True)
    (kept / f"{seed}.jsonl").write_text("".join(json.dumps(each) + "\n" for each in world.story))

    assert [] == world.violations


@pytest.mark.soak
@pytest.mark.timeout(0)
def test_servers_that_hang_for_longer_than_any_time_limit_cost_nothing_but_time(
    servers: Servers, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    seed = request.config.getoption("--soak-seed")
    ends_at = time.monotonic() + 60 * request.config.getoption("--soak-minutes")
    hangs = [each for each in faults.FAULTS if each.happen in (faults.hang_broker, faults.hang_postgres)]
    while time.monotonic() < ends_at:
        dice = random.Random(seed)
        schedule = [dice.choice(hangs), dice.choice(faults.FAULTS), dice.choice(hangs)]
        kinds = ["postgres", dice.choice(["delta", "json", "kafka"])]
        world = live(servers, seed, tmp_path / str(seed), kinds=kinds, faults=schedule, longest_hang_s=150)

        assert [] == world.violations, f"seed {seed}"
        seed += 1


_LOST, _DOUBLED, _CHANGED, _INVENTED = "lost", "rows and", "not what was sent", "never acknowledged"
_EXPLAINED = frozenset({9})
_CALM, _PURGED, _RECREATED = (
    Fault(faults.catch_up),
    Fault(faults.purge_unread, _EXPLAINED),
    Fault(faults.recreate_unread, _EXPLAINED),
)
_BROKEN: list[tuple[str, str, Fault, str]] = [
    ("loses the last row of a batch", "postgres", _CALM, _LOST),
    ("doubles a row", "postgres", _CALM, _DOUBLED),
    ("changes a value", "postgres", _CALM, _CHANGED),
    ("swaps two rows", "postgres", _CALM, _CHANGED),
    ("invents a row", "postgres", _CALM, _INVENTED),
    ("moves the position without the data", "postgres", _CALM, _LOST),
    ("writes the data without the position", "kafka", Fault(faults.crash_behind_a_sink), _DOUBLED),
    ("skips what retention took in silence", "delta", _PURGED, _LOST),
    ("reads a recreated topic as if nothing had happened", "json", _RECREATED, _LOST),
    ("loses dead letters", "delta", _CALM, _LOST),
    ("changes the bytes of dead letters", "delta", _CALM, "other bytes"),
    ("says that all is well and does nothing", "delta", _CALM, _LOST),
]


@pytest.mark.histories
@pytest.mark.parametrize(("sabotage", "kind", "fault", "found"), _BROKEN, ids=[each[0] for each in _BROKEN])
def test_the_judge_finds_what_is_wrong_with_a_pipeline_that(
    sabotage: str, kind: str, fault: Fault, found: str, servers: Servers, tmp_path: Path
) -> None:
    world = live(servers, 1, tmp_path, sabotage=sabotage, kinds=[kind], faults=[_CALM, fault], shapes=["cut short"])

    assert [] != [each for each in world.violations if found in each], world.violations


@pytest.mark.histories
@pytest.mark.parametrize("fault", [_CALM, _PURGED, _RECREATED], ids=lambda fault: fault.name)
def test_the_judge_is_content_with_the_same_history_of_a_sound_pipeline(
    fault: Fault, servers: Servers, tmp_path: Path
) -> None:
    world = live(servers, 1, tmp_path, kinds=["postgres", "delta"], faults=[_CALM, fault], shapes=["cut short"])

    assert [] == world.violations


def test_every_sabotage_has_its_history() -> None:
    assert list(SABOTAGES) == [name for name, _, _, _ in _BROKEN]
