"""An answer takes several statements, and shows one state of the store, whatever is written between them."""

import datetime
from pathlib import Path
from typing import Any

import orjson
import pytest
from sqlalchemy import event

from penstock.lab.bench.throwaway_postgres import RunningPostgres
from penstock.lineage.query import lists
from penstock.lineage.query.bounded import bound
from penstock.lineage.query.lineage import lineage
from penstock.lineage.query.walk import Start
from penstock.lineage.query.window import Window
from penstock.lineage.shapes.parameters import DatasetsQuery
from penstock.lineage.store.address import StoreAddress
from penstock.lineage.store.cleaning import clean
from penstock.lineage.store.database import migrate, open_engine

from support.lineage_rows import uuid7
from support.lineage_samples import event as lineage_event
from support.lineage_store import store_on
from support.lineage_stories import write_in_batches

_A, _B, _BOTH = "hdfs://a:8020", "hdfs://b:8020", "hdfs://a:8020,b:8020"
_TIME = datetime.datetime(2026, 3, 14, 10, tzinfo=datetime.UTC)


@pytest.fixture(params=["sqlite", "postgresql"])
def address(request: pytest.FixtureRequest, tmp_path: Path) -> StoreAddress:
    keys: dict[str, Any] = {"store": str(tmp_path / "lineage.db")}
    if request.param == "postgresql":
        postgres: RunningPostgres = request.getfixturevalue("postgres")
        keys = store_on(postgres.database())
    address = StoreAddress(**keys)
    migrate(address)
    return address


def _copy(number: int, place: str) -> bytes:
    run_id = str(uuid7(_TIME, number))
    tables = [[{"namespace": place, "name": name}] for name in ("/raw", "/orders")]
    made = lineage_event("COMPLETE", _TIME.isoformat(), run_id, (place, "copy"), inputs=tables[0], outputs=tables[1])
    return orjson.dumps(made)


def test_locations_that_become_one_and_runs_that_go_while_an_answer_is_made_leave_it_whole(
    address: StoreAddress,
) -> None:
    write_in_batches(address, [_copy(1, _A), _copy(2, _B)], size=1)
    engine = open_engine(address)
    statements = 0

    def change(*_: Any) -> None:
        nonlocal statements
        statements += 1
        if statements == 1:
            write_in_batches(address, [_copy(3, _BOTH)], size=1)
            clean(address, _TIME + datetime.timedelta(days=30), dry_run=False)

    with engine.connect() as connection, bound(connection):
        before = lists.datasets(connection, DatasetsQuery())
        event.listen(engine, "after_cursor_execute", change)
        listed = lists.datasets(connection, DatasetsQuery())
        found = lineage(
            connection,
            Start("DATASET", int(listed.items[0].id)),
            direction="BOTH",
            granularity="RUN",
            depth=3,
            window=Window(_TIME),
        )
    event.remove(engine, "after_cursor_execute", change)
    with engine.connect() as connection, bound(connection):
        after = lists.datasets(connection, DatasetsQuery())
    engine.dispose()

    assert before == listed
    assert 4 == listed.meta.total_count
    assert 1 == len(found.nodes.runs)
    assert 2 == after.meta.total_count
