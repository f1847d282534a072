import datetime
import uuid

import pytest

from penstock.lineage.query import lists
from penstock.lineage.shapes.parameters import OperationsQuery, RunsQuery

from support.lineage_rows import NOON, Rows

_DAY = datetime.timedelta(days=1)
_BEGUN, _ENDED = NOON - 90 * _DAY, NOON + 2 * _DAY


@pytest.mark.parametrize("page_size", [1, 50])
def test_a_stream_that_goes_on_is_listed_behind_what_began_in_the_window(rows: Rows, page_size: int) -> None:
    job = rows.job("job")
    stream, batch, over = (rows.run(job, _BEGUN, status=0) for _ in range(3))
    recent = rows.run(job, NOON)
    operation = rows.operation(stream, _BEGUN, type="STREAMING", ended_at=_ENDED)
    rows.operation(batch, _BEGUN, type="BATCH")
    rows.operation(over, _BEGUN, type="STREAMING", ended_at=NOON - 2 * _DAY)

    def listed(since: datetime.datetime, until: datetime.datetime | None = None) -> list[uuid.UUID]:
        found = []
        for page in range(1, 6):
            query = RunsQuery(since=since, until=until, status=["STARTED", "SUCCEEDED"], page=page, page_size=page_size)
            with rows.engine.connect() as connection:
                found += [each.id for each in lists.runs(connection, query).items]
        return found

    assert [recent, stream] == listed(NOON - _DAY)
    assert [stream] == listed(NOON + _DAY)
    assert [] == listed(_ENDED + _DAY)
    assert [] == listed(_BEGUN - 2 * _DAY, _BEGUN - _DAY)
    with rows.engine.connect() as connection:
        page = lists.operations(connection, OperationsQuery(run_id=[stream, batch, over], since=NOON))
    assert [operation] == [each.id for each in page.items]


def test_filters_of_a_list_hold_for_streams_too(rows: Rows) -> None:
    wanted, other = rows.job("wanted"), rows.job("other")
    runs = [rows.run(job, _BEGUN, status=0) for job in (wanted, other)]
    for each in runs:
        rows.operation(each, _BEGUN, type="STREAMING")

    with rows.engine.connect() as connection:
        found = lists.runs(connection, RunsQuery(since=NOON, job_id=[wanted], search_query="wanted"))

    assert [runs[0]] == [each.id for each in found.items]
    assert 1 == found.meta.total_count
