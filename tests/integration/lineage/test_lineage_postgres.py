"""What only PostgreSQL has: partitions, made when rows need them and dropped whole; and the rest there, too."""

import datetime
import random
import uuid
from typing import Any

import orjson
import pytest
from sqlalchemy import select

from penstock.errors import Conflict, NotFound
from penstock.lab.bench.throwaway_postgres import RunningPostgres
from penstock.lineage.query import lists
from penstock.lineage.shapes.parameters import OperationsQuery, RunsQuery
from penstock.lineage.store import tables
from penstock.lineage.store.address import StoreAddress
from penstock.lineage.store.cleaning import clean
from penstock.lineage.store.database import migrate, open_engine
from penstock.lineage.store.partitions import Partitions, found
from penstock.lineage.store.sessions import PostgresSession
from penstock.uuid7 import uuid7

from support.lineage_content import of_facts
from support.lineage_history import values
from support.lineage_oracle import content
from support.lineage_samples import event
from support.lineage_spoilt import odd_events
from support.lineage_store import add_io, add_run, comparable, differences, ids_of, store_on, stored
from support.lineage_stories import facts_of, random_events, stream_event, write_in_batches

NOW = datetime.datetime(2026, 3, 15, 12, tzinfo=datetime.UTC)
TIME = "2026-03-14T10:00:00Z"
DAY = datetime.timedelta(days=1)


@pytest.fixture
def address(postgres: RunningPostgres) -> StoreAddress:
    server = postgres.database()
    address = StoreAddress(**store_on(server))
    migrate(address)
    return address


def make_partitions(address: StoreAddress, *moments: datetime.datetime, unit: str = "month") -> list[str]:
    """Make the partitions of runs that these times need; return all that there are."""
    assert address.server is not None
    session = PostgresSession(address.server, address.schema_name)
    Partitions(unit).make(session.connection, tables.run, moments, NOW)
    names = [each.name for each in found(session.connection, "run")]
    session.close()
    return names


def test_the_store_holds_what_all_events_say_in_any_order(address: StoreAddress) -> None:
    dice = random.Random(11)
    events = random_events(dice, 150)
    again = [*events, *dice.sample(events, 50)]
    dice.shuffle(again)
    write_in_batches(address, again, size=13)

    assert {} == differences(comparable(facts_of(events)), stored(address))


def test_what_is_in_the_table_already_is_merged_in_each_month_that_a_batch_is_about(address: StoreAddress) -> None:
    begun = datetime.datetime(2026, 1, 31, 22, 30, tzinfo=datetime.UTC)
    make_partitions(address, begun, begun + DAY)

    def told(day: int, hours: int, rows: int) -> bytes:
        at = begun + day * DAY
        run_id = str(uuid7(int(at.timestamp() * 1000), day))
        read = {"namespace": "kafka://a", "name": "t", "inputFacets": {"inputStatistics": {"rowCount": rows}}}
        time = (at + datetime.timedelta(hours=hours)).isoformat()
        return orjson.dumps(event("RUNNING", time, run_id, ("n", run_id), inputs=[read]))

    first = [*(told(day, 0, rows=day) for day in range(3)), *(told(0, hours, hours) for hours in range(5))]
    again = [*(told(day, 0, rows=9) for day in range(40)), *(told(0, hours, 9) for hours in (4, 800))]
    for each in (first, again):
        write_in_batches(address, each, size=len(each))

    assert {} == differences(comparable(facts_of([*first, *again])), stored(address))


def test_numbers_and_names_beyond_what_a_column_or_an_index_holds_stop_nothing(address: StoreAddress) -> None:
    dice = random.Random(3)
    long, longer = ("".join(dice.choices("abcdefghij", k=size)) for size in (1900, 5000))
    ours = {"jobType": {"integration": "PENSTOCK", "processingType": "BATCH", "jobType": "BATCH"}}
    jobs = [(f"{longer}://host", "j"), (f"{long}://{long}", "j"), (f"kafka://{long}", "j"), (longer, longer)]
    told = [event("COMPLETE", TIME, str(uuid.uuid4()), job) for job in jobs]
    batch = {"penstock_batch": {"batch": 2**63}}
    told.append(event("COMPLETE", TIME, str(uuid.uuid4()), ("n", "p"), run_facets=batch, job_facets=ours))
    events = [orjson.dumps(each) for each in told]
    write_in_batches(address, events, size=2)

    assert {} == differences(comparable(facts_of(events)), stored(address))


def test_whatever_stands_anywhere_in_an_event_the_store_takes_it(address: StoreAddress) -> None:
    events = odd_events(random.Random(1), 300)
    write_in_batches(address, events, size=37)

    assert {} == differences(comparable(facts_of(events)), stored(address))


def test_locations_that_share_an_address_are_one_in_any_order(address: StoreAddress) -> None:
    events = values(4, 60, malformed=0)
    write_in_batches(address, events[::-1], size=11)

    expected, actual = content(events), of_facts(stored(address))
    for what, held in expected.items():
        assert held == actual[what], what
    assert 2 == sum(kind == "kafka" for kind, _ in actual["locations"])


def test_a_partition_is_made_when_rows_need_it_and_takes_those_that_waited(address: StoreAddress) -> None:
    waiting = add_run(address, NOW, None)
    made = make_partitions(address, NOW, NOW - 20 * DAY, NOW + 20 * DAY)
    far = make_partitions(address, NOW - 5000 * DAY, NOW + 5000 * DAY)

    assert ["run_2026_02", "run_2026_03", "run_2026_04"] == made == far
    assert {waiting} == _ids_in(address, "run_2026_03")


@pytest.mark.parametrize(("unit", "name"), [("day", "run_2026_03_15"), ("year", "run_2026")])
def test_partitions_are_as_long_as_wanted(address: StoreAddress, unit: str, name: str) -> None:
    assert [name] == make_partitions(address, NOW, unit=unit)


def test_clean_drops_a_partition_of_which_nothing_stays_and_deletes_from_the_others(address: StoreAddress) -> None:
    make_partitions(address, NOW, NOW - 31 * DAY, NOW - 62 * DAY)
    gone = [add_run(address, NOW - days * DAY, NOW - days * DAY) for days in (70, 68, 31, 14)]
    running = add_run(address, NOW - 30 * DAY, None)
    young = add_run(address, NOW - 2 * DAY, NOW)
    add_io(address, running, NOW - 20 * DAY)
    border = NOW - 10 * DAY
    would = clean(address, border, dry_run=True)
    before = ids_of(address, "run")
    done = clean(address, border, dry_run=False)

    assert ({*gone, running, young}, would) == (before, done)
    assert [("run", 4, ("run_2026_01",)), ("input", 1, ())] == [_told(done, "run"), _told(done, "input")]
    assert ({running, young}, set()) == (ids_of(address, "run"), ids_of(address, "input", "operation_id"))
    assert ["run_2026_02", "run_2026_03"] == make_partitions(address)


def test_a_stream_that_goes_on_is_listed_and_what_it_was_last_seen_to_do_is_not_cleaned(address: StoreAddress) -> None:
    run_id, border = uuid7(round((NOW - 70 * DAY).timestamp() * 1000), 5), NOW - 10 * DAY
    write_in_batches(address, [stream_event(run_id, "RUNNING", NOW - days * DAY) for days in (70, 50, 40)], size=2)
    would = clean(address, border, dry_run=True)

    assert would == clean(address, border, dry_run=False)
    for table in ("input", "output", "column_lineage"):
        assert {NOW - 40 * DAY} == ids_of(address, table, "created_at")
    engine = open_engine(address)
    with engine.connect() as connection:
        runs = lists.runs(connection, RunsQuery(since=NOW))
        operations = lists.operations(connection, OperationsQuery(since=NOW, run_id=[run_id]))
    engine.dispose()
    assert [run_id] == [each.id for each in runs.items] == [each.id for each in operations.items]


def _told(cleaned: list[Any], table: str) -> tuple[str, int, tuple[str, ...]]:
    return next((each.table, each.rows, each.partitions) for each in cleaned if each.table == table)


def _ids_in(address: StoreAddress, partition: str) -> set[Any]:
    assert address.server is not None
    session = PostgresSession(address.server, address.schema_name)
    found_ids = {each[0] for each in session.run(f'SELECT id FROM "{partition}"')}  # noqa: S608 - our own
    session.close()
    return found_ids


def test_usage_says_who_reads_a_dataset_per_day_and_per_month(address: StoreAddress) -> None:
    run = add_run(address, NOW - 3 * DAY, None)
    for days in (3, 3, 1):
        add_io(address, run, NOW - days * DAY)
    engine = open_engine(address)
    view, months = tables.usage_by_day, tables.usage_by_month
    with engine.connect() as connection:
        by_day = connection.execute(select(view.c.direction, view.c.day, view.c.num_runs).order_by(view.c.day)).all()
        by_month = connection.execute(select(months.c.month, months.c.num_runs)).all()
    engine.dispose()

    assert [("READ", (NOW - days * DAY).date(), 1) for days in (3, 1)] == [tuple(each) for each in by_day]
    assert [(datetime.date(2026, 3, 1), 1)] == [tuple(each) for each in by_month]


def test_a_database_without_a_store_is_named(postgres: RunningPostgres) -> None:
    with pytest.raises(NotFound, match="there is no lineage store at postgresql://"):
        open_engine(StoreAddress(**store_on(postgres.database())))


def test_an_older_schema_is_refused_by_a_driver_and_brought_up_to_date_by_hand(address: StoreAddress) -> None:
    assert address.server is not None
    session = PostgresSession(address.server, address.schema_name)
    for each in (
        "DROP VIEW usage_by_day",
        "DROP VIEW usage_by_month",
        "DROP INDEX ix_operation_streaming",
        "UPDATE alembic_version SET version_num = '0001'",
    ):
        session.run(each)
    session.commit()
    session.close()
    with pytest.raises(Conflict, match=r"has the schema 0001.*penstock lineage migrate"):
        migrate(address, upgrade=False)

    assert (True, False) == (migrate(address), migrate(address, upgrade=False))
