"""Chains of drivers on one topic, each killed at another point; then two at once; then one full look."""

from pathlib import Path

import pytest

from penstock.errors import Conflict
from penstock.lab.bench.throwaway_postgres import RunningPostgres

from conftest import RunningKafka
from support.chains import Chain, make_chain

KILLED = -9


def kill_in_turn(chain: Chain, points: list[str]) -> None:
    """Kill one driver per point, each in its second batch; then let two run at once."""
    for point in points:
        chain.journal.send(1500)
        driver = chain.drive(PENSTOCK_CRASH_AT=point, PENSTOCK_CRASH_AFTER="1")
        assert KILLED == driver.wait(), driver.said
    chain.journal.send(1500)
    both = [chain.drive(), chain.drive()]
    codes = sorted(driver.wait() for driver in both)

    assert [0, Conflict.exit_code] == codes, both[0].said
    assert [] == chain.faults()
    assert 1500 * (len(points) + 1) == len(chain.journal.acknowledged)


SINKS = ["json", "postgres", "delta", "kafka"]
# A kill inside of one sink's commit is also one after the commit of the sink before it, and between the two.
COMMITS = [f"in_commit:{sink}" for sink in SINKS]


@pytest.mark.parametrize(
    "points",
    [
        pytest.param(["writing", *COMMITS], id="commits"),
        pytest.param(
            ["planned", "writing", *COMMITS, "sink_committed:kafka", "committed"], id="all", marks=pytest.mark.soak
        ),
    ],
)
def test_a_chain_of_killed_drivers_loses_and_doubles_nothing_in_any_of_four_sinks(
    points: list[str], kafka: RunningKafka, postgres: RunningPostgres, tmp_path: Path
) -> None:
    kill_in_turn(make_chain(SINKS, kafka, postgres, tmp_path), points)


@pytest.mark.soak
@pytest.mark.parametrize("kind", ["delta", "iceberg", "json", "postgres", "kafka"])
def test_a_chain_of_killed_drivers_loses_and_doubles_nothing(
    kind: str, kafka: RunningKafka, postgres: RunningPostgres, tmp_path: Path
) -> None:
    points = ["planned", "writing", f"in_commit:{kind}", f"sink_committed:{kind}", "committed"]
    points += ["compacting:iceberg", "compacted:iceberg"] if kind == "iceberg" else []

    kill_in_turn(make_chain([kind], kafka, postgres, tmp_path), points)
