"""Locations that share an address are one, whichever event comes first and whoever writes it."""

import itertools
import json
import uuid
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select, update

from penstock.lineage.collected import Facts
from penstock.lineage.store import tables
from penstock.lineage.store.address import StoreAddress
from penstock.lineage.store.database import migrate, open_engine
from penstock.lineage.store.sessions import Session, open_session
from penstock.lineage.store.writing import Writer

from support.lineage_content import of_facts
from support.lineage_history import values
from support.lineage_oracle import content
from support.lineage_samples import event, facet, parent
from support.lineage_store import stored
from support.lineage_stories import facts_of, write_in_batches

_A, _B, _BOTH = "hdfs://a:8020", "hdfs://b:8020", "hdfs://b:8020,a:8020"


@pytest.fixture
def address(tmp_path: Path) -> StoreAddress:
    found = StoreAddress(store=str(tmp_path / "lineage.db"))
    migrate(found)
    return found


def _copy(number: int, place: str, name: str = "/data/orders") -> bytes:
    """Return what a job in that place says of a table there: a schema, a tag, a facet, a symlink, and its parent."""
    run_id, above = (str(uuid.UUID(int=number << 80 | 7 << 76 | 2 << 62 | end)) for end in (1, 2))
    facets: dict[str, Any] = {
        "schema": facet(fields=[{"name": f"c{number}", "type": "string"}]),
        "tags": facet(tags=[{"key": "team", "value": f"t{number}"}]),
        "ours_quality": facet(score=number),
        "symlinks": facet(identifiers=[{"namespace": "hive://meta:9083", "name": "sales.orders", "type": "TABLE"}]),
    }
    how = {"type": "DIRECT", "subtype": "IDENTITY", "description": "", "masking": False}
    field = {"namespace": place, "name": "/data/raw", "field": "id", "transformations": [how]}
    lineage = facet(fields={"id": {"inputFields": [field]}})
    counts = {"outputStatistics": facet(rowCount=number, size=10 * number)}
    said = event(
        "COMPLETE",
        f"1970-01-01T00:00:0{number}Z",
        run_id,
        (place, "copy"),
        run_facets={
            **parent(above, place, "all"),
            "jobDependencies": facet(upstream=[{"job": {"namespace": place, "name": "before"}}]),
        },
        job_facets={"ours_owner": facet(name=f"n{number}")},
        inputs=[{"namespace": place, "name": "/data/raw", "facets": {}}],
        outputs=[
            {"namespace": place, "name": name, "facets": {**facets, "columnLineage": lineage}, "outputFacets": counts}
        ],
    )
    return json.dumps(said).encode()


def _require_equal(address: StoreAddress, events: list[bytes]) -> None:
    found, expected = of_facts(stored(address)), content(events)
    for what, held in expected.items():
        assert held == found[what], what


@pytest.mark.parametrize("order", list(itertools.permutations(range(3))), ids=str)
@pytest.mark.parametrize("size", [1, 2])
def test_in_any_order_the_store_is_what_an_independent_reading_finds(
    address: StoreAddress, order: tuple[int, ...], size: int
) -> None:
    events = [_copy(1, _A), _copy(2, _B), _copy(3, _BOTH), _copy(4, _B, "/data/other")]

    write_in_batches(address, [events[3], *(events[number] for number in order)], size)

    _require_equal(address, events)
    places = [key for key in stored(address).locations if key.type == "hdfs"]
    assert [("hdfs", "a:8020")] == places


def test_one_operation_that_names_a_table_by_both_addresses_has_read_it_once(address: StoreAddress) -> None:
    run_id = "01953100-0000-7000-8000-000000000009"
    said = [
        event("COMPLETE", "2025-02-23T00:00:00Z", run_id, ("etl", "x"), inputs=[
            {"namespace": place, "name": "/t", "facets": {},
             "inputFacets": {"inputStatistics": facet(rowCount=rows)}}])
        for place, rows in ((_A, 5), (_B, 7), (_BOTH, 6))
    ]  # fmt: skip
    events = [json.dumps(each).encode() for each in said]

    write_in_batches(address, events, 1)

    (read,) = stored(address).inputs.values()
    assert 7 == read.num_rows
    _require_equal(address, events)


def test_a_chain_of_shared_addresses_is_one_location(address: StoreAddress) -> None:
    names = ("kafka://d:1", "kafka://c:1", "kafka://b:1,c:1", "kafka://a:1,b:1", "kafka://d:1,c:1")
    events = [_copy(number, place, "topic") for number, place in enumerate(names, 1)]

    write_in_batches(address, events, 1)

    found = {key: each.addresses for key, each in stored(address).locations.items() if key.type == "kafka"}
    assert {("kafka", "a:1"): {f"kafka://{host}:1" for host in "abcd"}} == found
    _require_equal(address, events)


def _write(session: Session, writer: Writer, facts: Facts) -> None:
    session.begin()
    writer.write(facts)
    session.commit()
    writer.committed()


def test_a_writer_that_has_united_locations_forgets_what_all_their_addresses_belonged_to(address: StoreAddress) -> None:
    events = [_copy(1, "hdfs://b:8020,c:8020"), _copy(2, "hdfs://a:8020,b:8020"), _copy(3, "hdfs://c:8020")]

    write_in_batches(address, events, 1)

    _require_equal(address, events)


def test_a_writer_learns_that_another_one_has_united_what_it_remembers(address: StoreAddress) -> None:
    events = [_copy(1, _A), _copy(2, _B), _copy(3, _BOTH), _copy(4, _B), _copy(5, _A)]
    sessions = [open_session(address) for _ in range(2)]
    writers = [Writer(each) for each in sessions]
    for number, one in ((0, 0), (1, 0), (2, 1), (3, 0), (4, 1)):
        _write(sessions[one], writers[one], facts_of([events[number]]))
    for each in sessions:
        each.close()

    _require_equal(address, events)


def test_a_batch_that_is_taken_back_has_united_nothing(address: StoreAddress) -> None:
    events = [_copy(1, _A), _copy(2, _B), _copy(3, _BOTH)]
    session = open_session(address)
    writer = Writer(session)
    for each in events[:2]:
        _write(session, writer, facts_of([each]))
    session.begin()
    writer.write(facts_of([events[2]]))
    session.rollback()
    before = {key for key in stored(address).locations if key.type == "hdfs"}
    _write(session, writer, facts_of([events[2]]))
    session.close()

    assert {("hdfs", "a:8020"), ("hdfs", "b:8020")} == before
    _require_equal(address, events)


def test_the_id_in_another_catalogue_is_kept(address: StoreAddress) -> None:
    write_in_batches(address, [_copy(1, _A), _copy(2, _B)], 1)
    engine = open_engine(address)
    of = tables.location.c
    with engine.begin() as connection:
        connection.execute(update(tables.location).where(of.name == "b:8020").values(external_id="cmdb-7"))
    write_in_batches(address, [_copy(3, _BOTH)], 1)
    with engine.connect() as connection:
        found = connection.execute(select(of.name, of.external_id).where(of.type == "hdfs")).all()
    engine.dispose()

    assert [("a:8020", "cmdb-7")] == found


@pytest.mark.parametrize("seed", range(3))
def test_a_history_with_clusters_under_several_addresses_is_the_same_in_pieces_and_backwards(
    address: StoreAddress, seed: int
) -> None:
    events = values(seed, 60, malformed=0)

    write_in_batches(address, events[::-1], 7)

    _require_equal(address, events)


@pytest.mark.parametrize("order", list(itertools.permutations(range(3))), ids=str)
def test_of_contradicting_jobs_and_parents_the_same_count_whenever_their_locations_become_one(
    address: StoreAddress, order: tuple[int, ...]
) -> None:
    run_id, other, above = (str(uuid.UUID(int=7 << 76 | 2 << 62 | number)) for number in range(3))
    said = (
        (run_id, ("airflow://c:1", "clean"), "x"),
        (run_id, ("airflow://b:1", "load"), "x"),
        (other, ("airflow://c:1", "load"), "y"),
    )
    events = [
        json.dumps(event("START", "1970-01-01T00:00:01Z", of, job, run_facets=parent(above, job[0], starter))).encode()
        for of, job, starter in said
    ]
    events.append(_copy(1, "airflow://a:1,b:1,c:1"))

    write_in_batches(address, [*(events[number] for number in order), events[3]], 1)

    _require_equal(address, events)
