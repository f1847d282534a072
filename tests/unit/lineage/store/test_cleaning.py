import datetime
import uuid
from pathlib import Path

import pytest

from penstock.lineage.store.address import StoreAddress
from penstock.lineage.store.cleaning import clean
from penstock.lineage.store.database import migrate

from support import lineage_odd_times as odd_times
from support.lineage_store import add_io, add_operation, add_run, ids_of
from support.lineage_stories import stream_event, write_in_batches

BORDER = datetime.datetime(2026, 3, 15, 12, tzinfo=datetime.UTC)
HOUR, DAY = datetime.timedelta(hours=1), datetime.timedelta(days=1)


@pytest.fixture
def address(tmp_path: Path) -> StoreAddress:
    address = StoreAddress(store=str(tmp_path / "lineage.db"))
    migrate(address)
    return address


def test_exactly_what_was_over_before_the_border_goes(address: StoreAddress) -> None:
    old = add_run(address, BORDER - 2 * DAY, BORDER - DAY)
    across = add_run(address, BORDER - DAY, BORDER)
    young = add_run(address, BORDER, BORDER + DAY)
    running = add_run(address, BORDER - 90 * DAY, None)
    would = clean(address, BORDER, dry_run=True)

    assert {old, across, young, running} == ids_of(address, "run")
    assert would == clean(address, BORDER, dry_run=False)
    assert {across, young, running} == ids_of(address, "run")
    assert 0 == sum(each.rows for each in clean(address, BORDER, dry_run=False))


def test_a_run_that_never_said_so_itself_stays_while_something_younger_is_below_it(address: StoreAddress) -> None:
    forgotten = add_run(address, BORDER - 2 * DAY, None, status=-1)
    parent = add_run(address, BORDER - 2 * DAY, None, status=-1)
    child = add_run(address, BORDER - DAY, None, parent=parent)
    clean(address, BORDER, dry_run=False)

    assert {parent, child} == ids_of(address, "run")
    assert forgotten not in ids_of(address, "run")


def test_hours_of_reading_that_ended_before_the_border_go_also_of_a_run_that_still_runs(address: StoreAddress) -> None:
    running = add_run(address, BORDER - 90 * DAY, None)
    add_io(address, running, BORDER - HOUR)
    kept = add_io(address, running, BORDER - HOUR / 2)
    clean(address, BORDER, dry_run=False)

    assert {kept} == ids_of(address, "input", "operation_id")


def test_facets_go_with_their_runs(address: StoreAddress) -> None:
    add_run(address, BORDER - 2 * DAY, BORDER - DAY, facet="{}")
    running = add_run(address, BORDER - 2 * DAY, None, facet="{}")
    would = {each.table: each.rows for each in clean(address, BORDER, dry_run=True)}
    clean(address, BORDER, dry_run=False)

    assert ({running}, 1) == (ids_of(address, "run_facet", "run_id"), would["run_facet"])


def _write(address: StoreAddress, *events: odd_times.Said) -> None:
    write_in_batches(address, [odd_times.event(each) for each in events], size=1)


def _left(address: StoreAddress) -> dict[str, set[uuid.UUID]]:
    io = {table: ids_of(address, table, "operation_id") for table in ("input", "output", "column_lineage")}
    return {"run": ids_of(address, "run"), "operation": ids_of(address, "operation"), **io}


@pytest.mark.parametrize("made", odd_times.MADE)
def test_when_a_wrong_clock_made_an_id_the_end_of_its_run_counts(
    address: StoreAddress, made: datetime.datetime
) -> None:
    over, young, running = (odd_times.run_id(made, number) for number in range(3))
    for run_id in (over, young, running):
        _write(address, (run_id, "START", BORDER - 3 * DAY))
    _write(address, (over, "COMPLETE", BORDER - 2 * DAY), (young, "COMPLETE", BORDER + DAY))
    would = clean(address, BORDER, dry_run=True)
    done = clean(address, BORDER, dry_run=False)

    found = _left(address)
    assert would == done
    assert {young, running} == found["run"] == found["operation"]
    assert over not in found["input"] | found["output"] | found["column_lineage"]
    assert young in found["input"] & found["output"] & found["column_lineage"]


def test_what_never_said_that_it_began_stays_as_long_as_it_reads_or_writes(address: StoreAddress) -> None:
    silent, active = (odd_times.run_id(BORDER - 90 * DAY, number) for number in range(2))
    _write(address, (silent, "OTHER", BORDER - 2 * DAY), (active, "OTHER", BORDER - 2 * DAY))
    _write(address, (active, "OTHER", BORDER + DAY))
    would = clean(address, BORDER, dry_run=True)

    assert would == clean(address, BORDER, dry_run=False)
    assert [{active}] * 5 == list(_left(address).values())


def test_what_a_stream_that_goes_on_was_last_seen_to_do_stays_with_it(address: StoreAddress) -> None:
    silent, over = (odd_times.run_id(BORDER - 90 * DAY, number) for number in range(2))
    events = [
        stream_event(run_id, "RUNNING", BORDER - days * DAY) for run_id in (silent, over) for days in (90, 80, 70)
    ]
    write_in_batches(address, [*events, stream_event(over, "COMPLETE", BORDER - 60 * DAY)], size=1)
    would = clean(address, BORDER, dry_run=True)

    assert would == clean(address, BORDER, dry_run=False)
    assert {silent} == ids_of(address, "operation")
    for table in ("input", "output", "column_lineage"):
        assert {silent} == ids_of(address, table, "operation_id")
        assert {BORDER - 70 * DAY} == ids_of(address, table, "created_at")


def test_an_operation_that_never_said_its_end_goes_with_the_run_that_ended(address: StoreAddress) -> None:
    killed, running = (add_run(address, BORDER - 90 * DAY, ended) for ended in (BORDER - 80 * DAY, None))
    _gone, kept = (add_operation(address, each, BORDER - 90 * DAY) for each in (killed, running))
    would = clean(address, BORDER, dry_run=True)

    assert would == clean(address, BORDER, dry_run=False)
    assert {kept} == ids_of(address, "operation")
