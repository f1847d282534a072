"""Chains of drivers on one topic, each killed at another point; then two at once; then one full look."""

from pathlib import Path

import pytest

from penstock.errors import Conflict

from conftest import RunningKafka
from support.chains import make_chain
from support.postgres import RunningPostgres

KILLED = -9


@pytest.mark.timeout(600)
@pytest.mark.parametrize("kind", ["delta", "json", "postgres", "kafka"])
def test_a_chain_of_killed_drivers_loses_and_doubles_nothing(
    kind: str, kafka: RunningKafka, postgres: RunningPostgres, tmp_path: Path
) -> None:
    chain = make_chain([kind], kafka, postgres, tmp_path)
    points = ["planned", "writing", f"in_commit:{kind}", f"sink_committed:{kind}", "committed"]

    for point in points:
        chain.journal.send(1500)
        driver = chain.drive(PENSTOCK_CRASH_AT=point, PENSTOCK_CRASH_AFTER="1")
        assert KILLED == driver.wait(), driver.said
    chain.journal.send(1500)
    both = [chain.drive(), chain.drive()]
    codes = sorted(driver.wait() for driver in both)

    assert [0, Conflict.exit_code] == codes, both[0].said
    assert [] == chain.faults()
    assert 9000 == len(chain.journal.acknowledged)


@pytest.mark.timeout(300)
def test_a_kill_between_two_sinks_leaves_neither_with_more_or_less(
    kafka: RunningKafka, postgres: RunningPostgres, tmp_path: Path
) -> None:
    chain = make_chain(["json", "postgres", "delta"], kafka, postgres, tmp_path)

    for point in ("sink_committed:dead", "sink_committed:json", "sink_committed:postgres"):
        chain.journal.send(1500)
        driver = chain.drive(PENSTOCK_CRASH_AT=point, PENSTOCK_CRASH_AFTER="1")
        assert KILLED == driver.wait(), driver.said
    driver = chain.drive()

    assert 0 == driver.wait(), driver.said
    assert [] == chain.faults()
