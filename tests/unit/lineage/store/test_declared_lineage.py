"""What a JobEvent says that a job reads and writes: edges of the job, without a run that has done it."""

import datetime
import json
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine, select

from penstock.lineage.query.lineage import lineage
from penstock.lineage.query.walk import Start
from penstock.lineage.query.window import Window
from penstock.lineage.shapes.lineage import Lineage
from penstock.lineage.store import tables
from penstock.lineage.store.address import StoreAddress
from penstock.lineage.store.cleaning import clean
from penstock.lineage.store.database import migrate, open_engine

from support.lineage_samples import event, facet
from support.lineage_store import ids_of
from support.lineage_stories import write_in_batches

_DAY = Window(datetime.datetime(2026, 3, 1, tzinfo=datetime.UTC), datetime.datetime(2026, 3, 2, tzinfo=datetime.UTC))


def _table(name: str, **facets: Any) -> dict[str, Any]:
    return {"namespace": "postgres://db:5432", "name": name, "facets": facets}


def _declared(time: str, source: str, target: str) -> bytes:
    how = {"type": "DIRECT", "subtype": "IDENTITY", "description": "", "masking": False}
    field = {"namespace": "postgres://db:5432", "name": source, "field": "id", "transformations": [how]}
    columns = facet(fields={"id": {"inputFields": [field]}})
    said = {
        "eventTime": time,
        "producer": "https://example.com",
        "job": {"namespace": "views", "name": "Daily", "facets": {}},
        "inputs": [_table(source)],
        "outputs": [_table(target, columnLineage=columns)],
    }
    return json.dumps(said).encode()


@pytest.fixture
def filled(tmp_path: Path) -> Engine:
    address = StoreAddress(store=str(tmp_path / "lineage.db"))
    migrate(address)
    ran = event("COMPLETE", "2026-03-01T12:00:00Z", "019ca900-0000-7000-8000-000000000001", ("etl", "load"),
                inputs=[_table("raw")], outputs=[_table("orders")])  # fmt: skip
    declared = [_declared(f"2026-03-01T{hour}:30:00Z", "orders", "daily") for hour in ("10", "11")]
    write_in_batches(address, [*declared, json.dumps(ran).encode(), declared[0]], 2)
    return open_engine(address)


def _ask(engine: Engine, granularity: Any, window: Window = _DAY) -> Lineage:
    with engine.connect() as connection:
        (start,) = connection.execute(select(tables.dataset.c.id).where(tables.dataset.c.name == "daily")).scalars()
        return lineage(
            connection,
            Start("DATASET", start),
            direction="UPSTREAM",
            granularity=granularity,
            depth=10,
            window=window,
            with_columns=True,
        )


def test_a_declared_job_is_between_its_datasets_and_what_ran_before_it_is_found(filled: Engine) -> None:
    found = _ask(filled, "JOB")

    assert {"raw", "orders", "daily"} == {each.name for each in found.nodes.datasets.values()}
    assert {"Daily", "load"} == {each.name for each in found.nodes.jobs.values()}
    assert (2, 2) == (len(found.relations.inputs), len(found.relations.outputs))
    assert ["id"] == [each for one in found.relations.direct_column_lineage for each in one.fields]
    assert {} == found.nodes.runs


def test_between_datasets_it_counts_as_any_other(filled: Engine) -> None:
    found = _ask(filled, "DATASET")
    names = {number: each.name for number, each in found.nodes.datasets.items()}

    assert {("raw", "orders"), ("orders", "daily")} == {
        (names[each.from_.id], names[each.to.id]) for each in found.relations.inputs
    }


@pytest.mark.parametrize("granularity", ["RUN", "OPERATION"])
def test_where_runs_are_asked_for_none_is_made_up(filled: Engine, granularity: str) -> None:
    found = _ask(filled, granularity)

    assert ({}, {}, []) == (found.nodes.runs, found.nodes.operations, found.relations.outputs)
    with filled.connect() as connection:
        assert 1 == len(connection.execute(select(tables.run)).all())


def test_it_is_seen_in_the_windows_in_which_it_was_said(filled: Engine) -> None:
    since = datetime.datetime(2026, 3, 1, 12, tzinfo=datetime.UTC)

    assert [] == _ask(filled, "JOB", Window(since, None)).relations.outputs


def test_clean_keeps_what_was_said_by_a_clock_that_is_years_ahead(tmp_path: Path) -> None:
    address = StoreAddress(store=str(tmp_path / "lineage.db"))
    migrate(address)
    times = ("2026-03-01T10:30:00Z", "2999-03-01T10:30:00Z")
    write_in_batches(address, [_declared(each, "orders", "daily") for each in times], 2)
    border = datetime.datetime(2026, 4, 1, tzinfo=datetime.UTC)
    would = clean(address, border, dry_run=True)

    assert would == clean(address, border, dry_run=False)
    for table in ("input", "output", "column_lineage"):
        assert {datetime.datetime(2999, 3, 1, 10, tzinfo=datetime.UTC)} == ids_of(address, table, "created_at")


def test_nobody_has_used_what_was_only_declared(filled: Engine) -> None:
    view = tables.usage_by_day.c
    with filled.connect() as connection:
        rows = connection.execute(
            select(tables.dataset.c.name, view.direction, view.num_runs).join(
                tables.dataset, tables.dataset.c.id == view.dataset_id
            )
        )
        found = {(name, direction): runs for name, direction, runs in rows if runs or name == "daily"}

    assert {("raw", "READ"): 1, ("orders", "WRITE"): 1, ("daily", "WRITE"): 0} == found
