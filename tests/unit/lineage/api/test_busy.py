"""A service that is asked more than it can answer at a time says so, and stays alive."""

import asyncio
from pathlib import Path

import anyio.to_thread
import httpx
import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient
from sqlalchemy import create_engine, text
from sqlalchemy.pool import QueuePool

from penstock.errors import BadInput
from penstock.lineage.api.service import Service
from penstock.lineage.query import bounded
from penstock.lineage.query.bounded import bound
from penstock.lineage.store.address import StoreAddress
from penstock.lineage.store.database import migrate, open_engine, writing

from support.lineage_rows import Rows

_LONG = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 20000000) SELECT max(i) FROM n"


def test_whoever_finds_all_connections_to_the_store_in_use_is_told_to_come_again(
    app_of_this_machine: FastAPI, rows: Rows
) -> None:
    engine = create_engine(rows.engine.url, poolclass=QueuePool, pool_size=1, max_overflow=0, pool_timeout=0.01)
    app_of_this_machine.state.service = Service(engine, sign_in=None)
    client = TestClient(app_of_this_machine, base_url="http://127.0.0.1:8000", raise_server_exceptions=False)
    with engine.connect():
        answer = client.get("/v1/datasets")
    engine.dispose()

    assert (503, "unavailable", "5") == (
        answer.status_code,
        answer.json()["error"]["code"],
        answer.headers["retry-after"],
    )


def test_the_service_says_that_it_is_alive_while_all_its_threads_are_at_work(app_of_this_machine: FastAPI) -> None:
    async def asked() -> list[int]:
        threads = anyio.to_thread.current_default_thread_limiter()
        for number in range(int(threads.total_tokens)):
            threads.acquire_on_behalf_of_nowait(number)
        transport = httpx.ASGITransport(app_of_this_machine)
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:8000") as client:
            answers = [client.get(f"/monitoring/{path}") for path in ("ping", "metrics")]
            return [each.status_code for each in await asyncio.wait_for(asyncio.gather(*answers), 30)]

    assert [200, 200] == asyncio.run(asked())


def test_a_question_to_a_file_ends_in_time_and_a_write_after_it_is_not_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    address = StoreAddress(store=str(tmp_path / "lineage.db"))
    migrate(address)
    engine = open_engine(address, pool_size=1)
    monkeypatch.setattr(bounded, "LONGEST_S", 0)
    with engine.connect() as connection, pytest.raises(BadInput, match="takes longer"), bound(connection):
        connection.execute(text(_LONG))
    with writing(engine) as connection:
        counted = connection.execute(text(_LONG.replace("20000000", "2000000"))).scalar_one()
    engine.dispose()

    assert 2_000_000 == counted
