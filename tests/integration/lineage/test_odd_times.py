"""Runs whose ids or events name a time that cannot be: they are stored, and neither stop nor outlive the others."""

import datetime
import uuid
from pathlib import Path

import pyarrow as pa
import pytest

from penstock.lab.bench.throwaway_postgres import RunningPostgres
from penstock.lineage.questions import of_store
from penstock.lineage.shapes.parameters import JobsQuery, RunsQuery
from penstock.lineage.stager import EVENT
from penstock.lineage.store.address import StoreAddress
from penstock.lineage.store.cleaning import clean
from penstock.lineage.store.landing import LineageSink
from penstock.lineage.store.partitions import found
from penstock.lineage.store.sessions import PostgresSession
from penstock.record.positions import OffsetRange, SourcePartition
from penstock.sinks.sink import Staged
from penstock.testing.fake_clock import FakeClock

from support import lineage_odd_times as odd_times
from support.lineage_store import comparable, differences, ids_of, store_on, stored
from support.lineage_stories import facts_of

NOW = datetime.datetime(2026, 3, 15, 12, tzinfo=datetime.UTC)
DAY = datetime.timedelta(days=1)
_PARTITION = SourcePartition("input.runs", "topic", 0)


class _Landing:
    """Lands events as a driver does, batch after batch."""

    def __init__(self, address: StoreAddress, folder: Path) -> None:
        self._sink = LineageSink(address, "store", "lineage", folder)
        self._sink.open(pa.schema([(EVENT, pa.string())]))
        self._offset = 0

    def land(self, *said: odd_times.Said) -> list[bytes]:
        events = [odd_times.event(each) for each in said]
        offset_range = OffsetRange(_PARTITION, self._offset, self._offset + len(events))
        stager = self._sink.stager()(offset_range)
        rows = pa.record_batch({EVENT: pa.array([each.decode() for each in events])})
        assert [] == stager.write(rows, pa.array(range(len(events))))
        self._sink.prepare([Staged(offset_range, len(events), stager.finish())], {_PARTITION: self._offset or None})
        self._sink.commit()
        self._offset += len(events)
        return events

    def close(self) -> None:
        self._sink.close()


def _bounds(address: StoreAddress, table: str) -> list[str]:
    assert address.server is not None
    session = PostgresSession(address.server, address.schema_name)
    names = [each.name for each in found(session.connection, table)]
    session.close()
    return names


@pytest.mark.parametrize("unit", ["day", "month", "year"])
def test_times_that_cannot_be_wait_apart_until_they_are_near(
    postgres: RunningPostgres, tmp_path: Path, unit: str
) -> None:
    address = StoreAddress(**store_on(postgres.database()), partition_by=unit)
    early = datetime.datetime(1, 1, 1, tzinfo=datetime.UTC)
    late = datetime.datetime(9999, 12, 31, 23, 59, 59, tzinfo=datetime.UTC)
    later = NOW + 3 * 366 * DAY
    said = [(odd_times.run_id(made, 1), "START", NOW) for made in (*odd_times.MADE, NOW, later)]
    said += [(uuid.UUID(int=number, version=4), "START", time) for number, time in enumerate((early, late, NOW))]
    with FakeClock(NOW):
        landing = _Landing(address, tmp_path)
        events = [*landing.land(*said), *landing.land(*said)]
        at_first = _bounds(address, "run")
    with FakeClock(later):
        events += landing.land(*[(id_, "COMPLETE", later) for id_, _, _ in said])
        landing.close()

    assert 1 == len(at_first)
    assert 2 == len(_bounds(address, "run"))
    assert {} == differences(comparable(facts_of(events)), stored(address))


def test_a_run_of_years_ahead_is_no_jobs_last_one_and_the_last_of_a_list(
    postgres: RunningPostgres, tmp_path: Path
) -> None:
    address = StoreAddress(**store_on(postgres.database()))
    ahead, usual, earlier = (odd_times.run_id(made, 1) for made in (NOW + 1000 * DAY, NOW, NOW - DAY))
    with FakeClock(NOW):
        landing = _Landing(address, tmp_path)
        landing.land(*[(each, "START", NOW) for each in (earlier, ahead, usual)])
        landing.close()
        with of_store(address) as asked:
            runs = asked.runs(RunsQuery(since=NOW - 30 * DAY))
            jobs = asked.jobs(JobsQuery())

    assert [usual, earlier, ahead] == [each.id for each in runs.items]
    assert [usual] == [each.last_run.id for each in jobs.items if each.last_run is not None]


def test_clean_removes_of_times_that_cannot_be_what_has_ended(postgres: RunningPostgres, tmp_path: Path) -> None:
    address = StoreAddress(**store_on(postgres.database()))
    over = [odd_times.run_id(made, 1) for made in (*odd_times.MADE, NOW - 40 * DAY)]
    young = [odd_times.run_id(made, 2) for made in (*odd_times.MADE, NOW - 40 * DAY)]
    with FakeClock(NOW):
        landing = _Landing(address, tmp_path)
        landing.land(*[(each, "START", NOW - 40 * DAY) for each in (*over, *young)])
        landing.land(*[(each, "COMPLETE", NOW - 39 * DAY) for each in over])
        landing.land(*[(each, "COMPLETE", NOW) for each in young])
        landing.close()
        would = clean(address, NOW - 30 * DAY, dry_run=True)
        done = clean(address, NOW - 30 * DAY, dry_run=False)

    assert would == done
    assert {*young} == ids_of(address, "run") == ids_of(address, "operation")
    assert {*young} == ids_of(address, "input", "operation_id") == ids_of(address, "output", "operation_id")
