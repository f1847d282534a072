"""PostgreSQL and SQLite give the same answers about the same events."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest
from fastapi.testclient import TestClient
from sqlalchemy import select

from penstock.lab.bench.throwaway_postgres import RunningPostgres
from penstock.lineage.api.app import make_app
from penstock.lineage.api.service import Service
from penstock.lineage.store import tables
from penstock.lineage.store.address import StoreAddress
from penstock.lineage.store.database import migrate, open_engine

from support import lineage_history
from support.lineage_answers import name_of, named
from support.lineage_rows import NOON, uuid7
from support.lineage_samples import event as lineage_event
from support.lineage_store import store_on
from support.lineage_stories import write_in_batches

_WINDOW = {"since": "2026-01-01T00:00:00Z"}
_WEEK = {"since": "2026-03-03T00:00:00Z", "until": "2026-03-06T00:00:00Z"}


@pytest.fixture(scope="module")
def clients(postgres: RunningPostgres, tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[TestClient]]:
    path = tmp_path_factory.mktemp("lineage") / "lineage.db"
    addresses = [StoreAddress(store=str(path)), StoreAddress(**store_on(postgres.database()), partition_by="day")]
    events = lineage_history.values(7, 40, malformed=0)
    engines = []
    for address in addresses:
        migrate(address)
        write_in_batches(address, events, 50)
        engines.append(open_engine(address))
    yield [TestClient(make_app(Service(each, None)), base_url="http://127.0.0.1") for each in engines]
    for engine in engines:
        engine.dispose()


@pytest.fixture(params=["sqlite", "postgresql"])
def empty(request: pytest.FixtureRequest, tmp_path: Path) -> StoreAddress:
    if request.param == "sqlite":
        return StoreAddress(store=str(tmp_path / "lineage.db"))
    server: RunningPostgres = request.getfixturevalue("postgres")
    return StoreAddress(**store_on(server.database()))


def _all(client: TestClient, path: str, **parameters: Any) -> list[Any]:
    items: list[Any] = []
    page = 1
    while page:
        answer = client.get(f"/v1/{path}", params={**parameters, "page": page, "page_size": 50})
        assert 200 == answer.status_code, answer.text
        items += answer.json()["items"]
        page = answer.json()["meta"]["next_page"]
    return items


def _lineage(client: TestClient, path: str, start: str, **parameters: Any) -> Any:
    wanted = {**_WINDOW, "start_node_id": start, "depth": 10, "include_column_lineage": True, **parameters}
    answer = client.get(f"/v1/{path}/lineage", params=wanted)
    assert 200 == answer.status_code, answer.text
    return named(answer.json())


@pytest.mark.parametrize("path", ["datasets", "jobs"])
def test_both_databases_tell_the_same_lineage_of_datasets_and_jobs(clients: list[TestClient], path: str) -> None:
    granularities = ["OPERATION", "RUN", "JOB", "DATASET"] if path == "datasets" else ["RUN", "JOB"]
    numbers = [{name_of(each["data"]): each["id"] for each in _all(client, path)} for client in clients]
    answers = 0
    for name in sorted(numbers[0])[:: max(1, len(numbers[0]) // 4)]:
        for granularity in granularities:
            for window in (_WINDOW, _WEEK):
                one, other = (
                    _lineage(client, path, number[name], granularity=granularity, **window)
                    for client, number in zip(clients, numbers, strict=True)
                )
                answers += bool(one["inputs"] or one["outputs"])

                assert one == other, (name, granularity)
    assert sorted(numbers[0]) == sorted(numbers[1])
    assert answers > 5


def test_both_databases_tell_the_same_of_runs_and_operations(clients: list[TestClient]) -> None:
    runs = [_all(client, "runs", **_WINDOW) for client in clients]
    ids = [each["id"] for each in runs[0]][:50]
    operations = [_all(client, "operations", **_WINDOW, run_id=ids) for client in clients]

    assert [each["statistics"] for each in runs[0]] == [each["statistics"] for each in runs[1]]
    assert [each["id"] for each in runs[0]] == [each["id"] for each in runs[1]]
    assert operations[0] == operations[1]
    assert operations[0]
    for path, items in (("runs", runs[0][:4]), ("operations", operations[0][:4])):
        for item in items:
            one, other = (_lineage(client, path, item["id"], depth=3) for client in clients)

            assert one == other


@pytest.mark.parametrize(
    ("path", "parameters"),
    [
        ("locations", {}),
        ("tags", {}),
        ("search", {"search_query": "etl"}),
        ("search", {"search_query": "application_"}),
        ("datasets", {"search_query": "kafka"}),
        ("jobs", {"search_query": "etl1", "job_type": "SPARK_APPLICATION"}),
        ("runs", {**_WINDOW, "search_query": "application_"}),
    ],
)
def test_both_databases_list_and_find_the_same(
    clients: list[TestClient], path: str, parameters: dict[str, str]
) -> None:
    def told(client: TestClient) -> list[str]:
        items = _all(client, path, **parameters)
        assert items
        things = [each.get("data", each) for each in items]
        return sorted(str(each.get("name") or each.get("external_id")) for each in things)

    assert told(clients[0]) == told(clients[1])


def test_counts_that_no_sum_holds_are_answered_with_the_greatest_number(empty: StoreAddress) -> None:
    greatest = 2**63 - 1
    counts = {"outputStatistics": {"rowCount": greatest, "size": greatest, "fileCount": 3}}
    target = {"namespace": "hive://meta", "name": "target", "outputFacets": counts}
    other = {**target, "name": "other"}
    ids = [str(uuid7(NOON, number)) for number in (1, 2)]
    made = [lineage_event("COMPLETE", NOON.isoformat(), each, ("local", "j"), outputs=[target, other]) for each in ids]
    migrate(empty)
    write_in_batches(empty, [orjson.dumps(each) for each in made], 1)
    engine = open_engine(empty)
    client = TestClient(make_app(Service(engine, None)), base_url="http://127.0.0.1")

    runs, operations = _all(client, "runs", **_WINDOW), _all(client, "operations", **_WINDOW, run_id=ids)
    job = client.get("/v1/jobs/lineage", params={**_WINDOW, "start_node_id": _all(client, "jobs")[0]["id"]}).json()
    with engine.connect() as connection:
        used = connection.execute(select(tables.usage_by_day.c.num_rows, tables.usage_by_day.c.num_files)).all()
    engine.dispose()

    sums = {"total_datasets": 2, "total_bytes": greatest, "total_rows": greatest, "total_files": 6}
    assert [sums] * 4 == [each["statistics"]["outputs"] for each in (*runs, *operations)]
    assert [(greatest, 6)] * 2 == [(each["num_rows"], each["num_files"]) for each in job["relations"]["outputs"]]
    assert [6, 6] == [int(files) for _, files in used]
    assert all(int(rows) >= greatest for rows, _ in used)
