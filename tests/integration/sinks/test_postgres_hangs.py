"""A PostgreSQL whose processes all hang: everything that waits for it ends, and what it did meanwhile is found out."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from penstock.errors import SinkUnavailable, Transient
from penstock.lab.bench.throwaway_postgres import RunningPostgres
from penstock.record.positions import OffsetRange
from penstock.sinks import postgres_connection
from penstock.sinks.postgres_server import Server
from penstock.sinks.sink import Staged

from support.postgres_driver import TP, Driver, ask, positions_of
from support.postgres_driver import hung as server_hung
from support.waiting import until


@pytest.fixture
def server(postgres: RunningPostgres, monkeypatch: pytest.MonkeyPatch) -> Server:
    monkeypatch.setattr(postgres_connection, "_CLOSING_S", 0.2)
    return postgres.database()


@contextmanager
def hung(postgres: RunningPostgres) -> Iterator[None]:
    """Let the server hang, and be waited for only for a moment; it has all its time while it runs."""
    with server_hung(postgres), pytest.MonkeyPatch.context() as patch:
        patch.setattr(postgres_connection, "_CONNECT_S", 2)
        moment = property(lambda _connection: 0.5, lambda _connection, _seconds: None)
        patch.setattr(postgres_connection.PostgresConnection, "answer_within_s", moment)
        yield


@pytest.mark.parametrize(
    "call",
    [
        pytest.param(lambda driver: driver.positions, id="positions"),
        pytest.param(
            lambda driver: driver.sink.prepare([Staged(OffsetRange(TP, 1, 2), 0, {})], {TP: 1}),
            id="prepare",
        ),
        pytest.param(lambda driver: driver.stage([(2, "b")], start=1), id="connecting"),
    ],
)
def test_a_server_that_hangs_is_an_outage_for_the_driver_and_comes_back(
    postgres: RunningPostgres, server: Server, call: Callable[[Driver], Any]
) -> None:
    with Driver(server) as driver:
        driver.write([(1, "a")])
        with hung(postgres):
            for _ in range(2):
                with pytest.raises(SinkUnavailable, match=r"does not answer: .*(no answer within|timeout)"):
                    call(driver)
                driver.sink.abandon()
        driver.write([(2, "b")], start=1)

    assert {TP: 2} == positions_of(server)


def test_a_server_that_hangs_is_an_outage_for_a_task(postgres: RunningPostgres, server: Server) -> None:
    with Driver(server) as driver:
        staged = driver.stage([(1, "a")])
        stager = driver.sink.stager()(staged.offset_range)
        with hung(postgres), pytest.raises(SinkUnavailable, match="no answer within"):
            stager.write(*driver.batch([(number, "x" * 5000) for number in range(2000)]))


def test_a_commit_that_comes_through_late_is_found_and_not_taken_for_another_driver(
    postgres: RunningPostgres, server: Server
) -> None:
    with Driver(server) as driver:
        driver.write([(1, "a")])
        before = driver.positions
        staged = driver.stage([(2, "b")], start=1)
        driver.prepare(staged)
        with hung(postgres), pytest.raises(SinkUnavailable, match="no answer within"):
            driver.sink.commit()
        with pytest.raises(Transient):
            driver.prepare(driver.stage([(2, "b")], start=1), expected=before)
        driver.sink.abandon()
        found = driver.positions
        driver.write([(3, "c")], start=2)

    assert {TP: 2} == found
    assert [(1,), (2,), (3,)] == ask(server, "SELECT id FROM orders ORDER BY id")


def test_a_statement_that_takes_too_long_is_an_outage_and_the_server_ends_it(server: Server) -> None:
    ask(server, "CREATE FUNCTION slow(text) RETURNS text LANGUAGE sql AS $$ SELECT $1 FROM pg_sleep(600) $$")
    table = "note text CHECK (slow(note) = note), _topic_id text, _partition int, _offset bigint"
    ask(server, f"CREATE TABLE orders (id bigint, {table})")

    impatient = server.model_copy(update={"statement_timeout": 3000})
    with (
        Driver(impatient) as driver,
        pytest.raises(SinkUnavailable, match=r"statement timeout|no answer within"),
    ):
        driver.stage([(1, "a")])

    copying = "SELECT 1 FROM pg_stat_activity WHERE query LIKE '%COPY%FROM STDIN%' AND pid <> pg_backend_pid()"
    until(lambda: [] == ask(server, copying))


def test_a_driver_closes_at_once_although_the_server_hangs(postgres: RunningPostgres, server: Server) -> None:
    driver = Driver(server)
    driver.sink.open(driver.schema)
    closing = threading.Thread(target=driver.sink.close)

    with hung(postgres):
        closing.start()
        closing.join(120)
        is_closed = not closing.is_alive()

    closing.join(240)
    assert is_closed
