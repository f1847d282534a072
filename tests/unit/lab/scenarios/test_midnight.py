"""Midnight's truth must be what a right store holds, and notice every way in which a wrong one differs."""

import json
import sqlite3
import threading
from contextlib import closing
from pathlib import Path

import pytest

from penstock.lab.scenarios.midnight import truth
from penstock.lab.scenarios.midnight.day import DAY_S, HOUR_S, MIDNIGHT_S, DayClock, events_of_day
from penstock.lab.scenarios.midnight.midnight import compare
from penstock.lineage.store.address import StoreAddress
from penstock.lineage.store.database import migrate

from support.lineage_stories import write_in_batches
from support.waiting import until

VALUES = [each.value for each in events_of_day(400, seed=3)]


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("store") / "lineage.db"
    address = StoreAddress(store=str(path))
    migrate(address)
    write_in_batches(address, VALUES, 100)
    return path


def stored(path: Path, *changes: str) -> truth.Rows:
    """Read the store as it would be after these statements."""
    with closing(sqlite3.connect(path)) as connection:
        for change in changes:
            connection.execute(change)
        return truth.of_store(connection.execute)


def test_a_store_that_took_the_whole_day_is_the_truth(filled: Path) -> None:
    accounts, differences = compare(truth.of_events(VALUES), stored(filled))

    assert [] == differences
    assert all(each.truth == each.stored > 0 and each.difference == 0 for each in accounts)
    assert {"runs", "operations", "jobs", "datasets", "inputs", "outputs"} == {each.what for each in accounts}


def test_the_truth_does_not_depend_on_the_order_of_events_or_on_repeats() -> None:
    assert truth.of_events(VALUES) == truth.of_events([*VALUES[::-1], *VALUES[:50]])


@pytest.mark.parametrize(
    ("change", "where"),
    [
        ("DELETE FROM run WHERE id = (SELECT min(id) FROM run)", "runs"),
        ("UPDATE run SET status = 3 WHERE id = (SELECT min(id) FROM run)", "runs"),
        ("UPDATE run SET job_id = job_id % 2 + 1 WHERE id = (SELECT min(id) FROM run WHERE job_id > 2)", "runs"),
        ("UPDATE operation SET status = 3 WHERE id = (SELECT min(id) FROM operation)", "operations"),
        ("INSERT INTO job (location_id, name, name_key) VALUES (1, 'new', 'new')", "jobs"),
        ("UPDATE dataset SET name_key = 'other' WHERE id = 1", "datasets"),
        ("DELETE FROM input WHERE operation_id = (SELECT min(operation_id) FROM input)", "inputs"),
        ("UPDATE output SET num_rows = 7 WHERE operation_id = (SELECT max(operation_id) FROM output)", "outputs"),
    ],
)
def test_whatever_is_missing_added_or_changed_in_the_store_is_told(filled: Path, change: str, where: str) -> None:
    _, differences = compare(truth.of_events(VALUES), stored(filled, change))

    assert f"stored {where}" in {each.where for each in differences}


def test_an_event_that_never_came_is_missed(filled: Path) -> None:
    ends = next(value for value in VALUES if json.loads(value)["eventType"] == "COMPLETE")

    _, differences = compare(truth.of_events([value for value in VALUES if value != ends]), stored(filled))

    assert differences


def test_the_day_has_its_spikes_at_the_hours_at_which_everybody_starts_and_goes_both_ways() -> None:
    day = events_of_day(1500, seed=1)

    hours = [0] * 24
    for each in day:
        hours[int(each.due_s // HOUR_S)] += 1
    busiest = sorted(range(24), key=lambda hour: -hours[hour])[:4]
    assert {0, 12, 13, 15} == set(busiest)
    assert MIDNIGHT_S == 12 * HOUR_S
    assert 1350 < len(day) < 1650
    assert 0.3 < sum(each.by_http for each in day) / len(day) < 0.7
    assert day == events_of_day(1500, seed=1)


def test_runs_that_belong_together_go_one_way() -> None:
    ways: dict[bytes | None, set[bool]] = {}
    for each in events_of_day(400, seed=2):
        parent = json.loads(each.value)["run"]["facets"].get("parent")
        root = json.loads(each.value)["run"]["runId"] if parent is None else parent["root"]["run"]["runId"]
        ways.setdefault(root, set()).add(each.by_http)

    assert {1} == {len(each) for each in ways.values()}


def test_the_clock_waits_at_an_hour_for_what_has_to_happen_first() -> None:
    clock, happened, given_up = DayClock(seconds=0.05), threading.Event(), threading.Event()
    clock.hold(6 * HOUR_S, happened)
    clock.begin()
    until(lambda: clock.now() == 6 * HOUR_S)
    held = clock.now()
    happened.set()

    assert 6 * HOUR_S == held
    assert clock.wait_until(DAY_S, given_up)


def test_whoever_waits_for_an_hour_of_a_day_that_is_given_up_is_told() -> None:
    clock, given_up = DayClock(seconds=1000), threading.Event()
    clock.begin()
    given_up.set()

    assert not clock.wait_until(DAY_S, given_up)
