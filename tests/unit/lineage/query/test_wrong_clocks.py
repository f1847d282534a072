"""What a wrong clock has put years ahead is listed, and never taken for the latest."""

import datetime
import uuid
from collections.abc import Iterator

import pytest

from penstock.lineage.query import lists
from penstock.lineage.query.catalogue import latest_schemas
from penstock.lineage.query.history import last_runs
from penstock.lineage.query.lineage import lineage
from penstock.lineage.query.search import batches
from penstock.lineage.query.walk import Start
from penstock.lineage.query.window import Window
from penstock.lineage.shapes.parameters import BatchesQuery, OperationsQuery, RunsQuery
from penstock.lineage.store import tables
from penstock.testing import FakeClock

from support.lineage_rows import NOON, Rows

HOUR = datetime.timedelta(hours=1)
AHEAD = [datetime.datetime(year, 6, 1, tzinfo=datetime.UTC) for year in (2900, 2030)]


@pytest.fixture(autouse=True)
def _at_noon() -> Iterator[None]:
    with FakeClock(NOON):
        yield


@pytest.mark.parametrize("page_size", [1, 2, 3, 50])
def test_runs_and_operations_of_years_ahead_come_last_on_whatever_page(rows: Rows, page_size: int) -> None:
    job = rows.job("job")
    near = [rows.run(job, NOON + each * HOUR) for each in (2, 0, -5)]  # a clock may be some hours wrong
    expected = [*near, *[rows.run(job, each) for each in AHEAD]]
    operations = [rows.operation(each, made) for each, made in zip(near, [NOON, *AHEAD], strict=True)]

    with rows.engine.connect() as connection:
        pages = [
            lists.runs(connection, RunsQuery(since=NOON - 24 * HOUR, page=page, page_size=page_size))
            for page in range(1, 7)
        ]
        found = lists.operations(connection, OperationsQuery(since=NOON - 24 * HOUR, run_id=near))

    assert expected == [item.id for page in pages for item in page.items]
    assert {5} == {page.meta.total_count for page in pages}
    assert operations == [item.id for item in found.items]


def test_the_last_run_of_a_job_is_one_of_years_ahead_only_if_it_has_no_other(rows: Rows) -> None:
    usual, wrong = rows.job("usual"), rows.job("wrong")
    run = rows.run(usual)
    rows.run(usual, AHEAD[0])
    only = rows.run(wrong, AHEAD[0])

    with rows.engine.connect() as connection:
        found = last_runs(connection, [usual, wrong])

    assert {usual: run, wrong: only} == {job: each.id for job, each in found.items()}


def test_a_schema_that_was_seen_years_ahead_counts_from_when_it_was_first_seen(rows: Rows) -> None:
    changed, same, wrong = (rows.dataset(name) for name in ("changed", "same", "wrong"))
    old, new = (_schema(rows, name) for name in ("old", "new"))
    _seen(rows, changed, old, NOON - 9 * HOUR, AHEAD[0])
    _seen(rows, changed, new, NOON - 5 * HOUR, NOON)
    _seen(rows, same, old, NOON - 9 * HOUR, NOON - 5 * HOUR)
    _seen(rows, same, new, NOON - 4 * HOUR, AHEAD[0])
    _seen(rows, wrong, new, AHEAD[0], AHEAD[0])

    with rows.engine.connect() as connection:
        found = latest_schemas(connection, [changed, same, wrong])

    assert dict.fromkeys([changed, same, wrong], "new") == {each: found[each].fields[0].name for each in found}


def test_answers_show_the_schema_of_the_last_write_that_is_not_years_ahead(rows: Rows) -> None:
    job, source, target = rows.job("job"), rows.dataset("source"), rows.dataset("target")
    old, new = (_schema(rows, name) for name in ("old", "new"))
    rows.flow(job, source, target, NOON, schema_digest=new)
    rows.flow(job, source, target, AHEAD[0], schema_digest=old)

    with rows.engine.connect() as connection:
        found = lineage(
            connection,
            Start("JOB", job),
            direction="BOTH",
            granularity="JOB",
            depth=1,
            window=Window(NOON - HOUR),
        )

    shown = [each.schema_.fields[0].name for each in found.nodes.datasets.values() if each.schema_ is not None]
    assert ["new", "new"] == shown


def test_the_latest_batch_is_not_the_one_of_years_ahead(rows: Rows) -> None:
    job, source, target = rows.job("pipeline"), rows.dataset("source"), rows.dataset("target")
    made = [rows.flow(job, source, target, each)[1] for each in (NOON, NOON - HOUR, *AHEAD)]
    for each in made:
        rows.put(tables.run_facet, run_id=each, name="penstock_batch", value='{"batch": 1}', seen_at=NOON)

    with rows.engine.connect() as connection:
        found = batches(connection, BatchesQuery(dataset_id=target, since=NOON - 24 * HOUR))

    assert made == [each.run_id for each in found.items]


def _schema(rows: Rows, column: str) -> uuid.UUID:
    digest = uuid.uuid4()
    rows.put(tables.schema, digest=digest, fields=[{"name": column}])
    return digest


def _seen(rows: Rows, dataset: int, digest: uuid.UUID, first: datetime.datetime, last: datetime.datetime) -> None:
    rows.put(tables.dataset_schema, dataset_id=dataset, schema_digest=digest, first_seen_at=first, last_seen_at=last)
