"""A PostgreSQL that goes away, comes back, or does not let anybody in: what is waited for, and what is safe."""

import threading
import traceback
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from penstock.errors import BadInput, BatchAborted, NotFound, PenstockError, Refused, SinkUnavailable, Transient
from penstock.lab.bench.throwaway_postgres import RunningPostgres
from penstock.record.positions import OffsetRange
from penstock.secret import Secret
from penstock.sinks import postgres_session
from penstock.sinks.postgres_server import Server
from penstock.sinks.postgres_stager import PostgresStagerFactory
from penstock.sinks.sink import Staged

from support.postgres_driver import TP, Driver, ask, cut, positions_of
from support.waiting import until

WAITING = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = %s"
STAGES = "SELECT format('%I', relname) FROM pg_class WHERE relname LIKE 'penstock_stage%' AND relkind = 'r'"


def test_staged_rows_that_are_gone_make_the_batch_run_again(postgres: RunningPostgres) -> None:
    server = postgres.database()

    with Driver(server) as driver:
        staged = driver.stage([(1, "a"), (2, "b")])
        ((stage,),) = ask(server, STAGES)
        ask(server, f"TRUNCATE {stage}")
        with pytest.raises(BatchAborted, match="2 of 2 rows staged for sink 'postgres' are gone"):
            driver.prepare(staged)
        driver.sink.abandon()
        found = driver.positions
        driver.write([(1, "a"), (2, "b")])

    assert {} == found
    assert [(1,), (2,)] == ask(server, "SELECT id FROM orders ORDER BY id")


def test_one_staged_row_that_is_gone_is_missed_too(postgres: RunningPostgres) -> None:
    server = postgres.database()

    with Driver(server) as driver:
        staged = driver.stage([(1, "a"), (2, "b")])
        ((stage,),) = ask(server, STAGES)
        ask(server, f"DELETE FROM {stage} WHERE id = 1")  # noqa: S608 - the name is ours
        with pytest.raises(BatchAborted, match="1 of 2 rows"):
            driver.prepare(staged)

    assert {} == positions_of(server)


def test_a_staging_table_that_is_dropped_is_lost_work_for_tasks_and_driver(postgres: RunningPostgres) -> None:
    server = postgres.database()

    with Driver(server) as driver:
        staged = driver.stage([(1, "a")])
        ((stage,),) = ask(server, STAGES)
        ask(server, f"DROP TABLE {stage}")
        with pytest.raises(Transient):
            driver.stage([(1, "a")])
        with pytest.raises(BatchAborted):
            driver.prepare(staged)
        driver.sink.abandon()
        found = driver.positions
        driver.write([(1, "a")])

    assert {} == found
    assert [(1,)] == ask(server, "SELECT id FROM orders")


def test_a_killed_server_loses_what_was_staged_and_nothing_that_was_committed(postgres: RunningPostgres) -> None:
    server = postgres.database()

    with Driver(server) as driver:
        driver.write([(1, "a")])
        staged = driver.stage([(2, "b")], start=1)
        postgres.kill()
        postgres.start()
        with pytest.raises(SinkUnavailable):
            driver.prepare(staged, expected={TP: 1})
        with pytest.raises(BatchAborted):
            driver.prepare(staged)
        driver.sink.abandon()
        after = driver.positions
        driver.write([(2, "b")], start=1)

    assert {TP: 1} == after
    assert {TP: 2} == positions_of(server)
    assert [(1, "a"), (2, "b")] == ask(server, "SELECT id, note FROM orders ORDER BY id")


def test_a_server_killed_after_the_batch_was_prepared_has_nothing_of_it(postgres: RunningPostgres) -> None:
    server = postgres.database()

    with Driver(server) as driver:
        driver.prepare(driver.stage([(1, "a")]))
        postgres.kill()
        with pytest.raises(SinkUnavailable):
            driver.sink.commit()
        postgres.start()
        after = driver.positions
        driver.write([(1, "a")])

    assert {} == after
    assert {TP: 1} == positions_of(server)
    assert [(1,)] == ask(server, "SELECT id FROM orders")


@pytest.fixture
def stopped(postgres: RunningPostgres) -> Iterator[Driver]:
    """A driver whose server went away after a first batch."""
    with Driver(postgres.database()) as driver:
        driver.write([(1, "a")])
        with postgres.down():
            yield driver


@pytest.mark.parametrize(
    "call",
    [
        pytest.param(lambda driver: driver.sink.open(driver.schema), id="open"),
        pytest.param(lambda driver: driver.positions, id="positions"),
        pytest.param(lambda driver: driver.stage([(2, "b")], start=1), id="stage"),
        pytest.param(
            lambda driver: driver.sink.prepare([Staged(OffsetRange(TP, 1, 2), 0, {})], {TP: 1}),
            id="prepare",
        ),
    ],
)
def test_a_server_that_is_down_is_an_outage_twice_in_a_row_and_nobody_is_blamed(
    stopped: Driver, call: Callable[[Driver], Any]
) -> None:
    for _ in range(2):
        with pytest.raises(SinkUnavailable, match="does not answer"):
            call(stopped)
        stopped.sink.abandon()


def test_a_server_that_comes_back_is_used_by_the_same_driver(postgres: RunningPostgres) -> None:
    server = postgres.database()

    with Driver(server) as driver:
        driver.write([(1, "a")])
        with postgres.down(), pytest.raises(SinkUnavailable):
            _ = driver.positions
        driver.write([(2, "b")], start=1)

    assert {TP: 2} == positions_of(server)
    assert [(1,), (2,)] == ask(server, "SELECT id FROM orders ORDER BY id")


@pytest.mark.parametrize("moment", ["write", "finish"])
def test_a_task_whose_connection_is_cut_is_an_outage_and_no_row_is_blamed(
    postgres: RunningPostgres, moment: str
) -> None:
    server = postgres.database()

    with Driver(server) as driver:
        staged = driver.stage([(1, "a")])
        stager = driver.sink.stager()(staged.offset_range)
        rows = driver.batch([(1, "a")])
        if moment == "finish":
            stager.write(*rows)
        cut(server)
        with pytest.raises(SinkUnavailable):
            stager.write(*rows)


def test_a_commit_after_the_connection_was_cut_is_an_outage_and_the_position_has_not_moved(
    postgres: RunningPostgres,
) -> None:
    server = postgres.database()

    with Driver(server) as driver:
        driver.write([(1, "a")])
        driver.prepare(driver.stage([(2, "b")], start=1))
        cut(server)
        with pytest.raises(SinkUnavailable):
            driver.sink.commit()
        with pytest.raises(SinkUnavailable):
            driver.sink.commit()
        after = driver.positions

    assert {TP: 1} == after
    assert [(1,)] == ask(server, "SELECT id FROM orders")


def test_a_new_connection_has_nothing_to_commit_and_does_not_say_yes(postgres: RunningPostgres) -> None:
    server = postgres.database()

    with Driver(server) as driver:
        driver.prepare(driver.stage([(1, "a")]))
        cut(server)
        with pytest.raises(SinkUnavailable):
            _ = driver.positions
        assert {} == driver.positions
        with pytest.raises(PenstockError):
            driver.sink.commit()


@pytest.fixture
def no_answer_to_commits(postgres: RunningPostgres) -> Iterator[None]:
    """Commits happen, and their answer waits for a standby that there is not."""
    with postgres.connect() as connection:
        connection.autocommit = True
        connection.execute("ALTER SYSTEM SET synchronous_standby_names = 'nobody'")
        connection.execute("SELECT pg_reload_conf()")
        until(lambda: connection.execute("SHOW synchronous_standby_names").fetchone() == ("nobody",))
        # It is the checkpointer that tells all sessions to wait, once it has read the settings too: when it is busy,
        # a commit may still pass. A checkpoint asked for now begins after that.
        connection.execute("CHECKPOINT")
        yield
        connection.execute("ALTER SYSTEM RESET synchronous_standby_names")
        connection.execute("SELECT pg_reload_conf()")
        until(lambda: connection.execute("SHOW synchronous_standby_names").fetchone() == ("",))


def test_a_commit_whose_answer_is_lost_is_an_outage_and_the_position_says_that_it_happened(
    postgres: RunningPostgres, request: pytest.FixtureRequest
) -> None:
    server = postgres.database()
    errors: list[BaseException] = []

    def commit(driver: Driver) -> None:
        try:
            driver.sink.commit()
        except BaseException as error:  # noqa: BLE001 - shown by the assertion
            errors.append(error)

    with Driver(server) as driver:
        driver.prepare(driver.stage([(1, "a")]))
        request.getfixturevalue("no_answer_to_commits")
        thread = threading.Thread(target=commit, args=[driver])
        thread.start()
        until(lambda: ask(server, WAITING.replace("wait_event_type", "wait_event"), "SyncRep") == [(1,)])
        cut(server)
        thread.join(240)
        after = driver.positions

    assert [SinkUnavailable] == [type(error) for error in errors]
    assert "Nothing of this batch was written" not in str(errors[0])
    assert {TP: 1} == after
    assert [(1,)] == ask(server, "SELECT id FROM orders")


def test_abandoning_and_closing_after_the_connection_was_cut_is_no_error(postgres: RunningPostgres) -> None:
    server = postgres.database()

    with Driver(server) as driver:
        staged = driver.stage([(1, "a")])
        driver.prepare(staged)
        cut(server)
        driver.sink.abandon()
        driver.land(staged)

    assert {TP: 1} == positions_of(server)


@pytest.mark.parametrize("reconnected", [False, True], ids=["first connection", "second connection"])
def test_a_table_that_somebody_locked_is_waited_for_for_a_while_only(
    postgres: RunningPostgres,
    monkeypatch: pytest.MonkeyPatch,
    reconnected: bool,  # noqa: FBT001
) -> None:
    monkeypatch.setattr(postgres_session, "_LOCK_TIMEOUT", "100ms")
    server = postgres.database()
    errors: list[BaseException] = []

    def prepare(driver: Driver) -> None:
        try:
            driver.prepare(driver.stage([(1, "a")]))
        except BaseException as error:  # noqa: BLE001 - shown by the assertion
            errors.append(error)

    with Driver(server) as driver:
        if reconnected:
            cut(server)
            with pytest.raises(SinkUnavailable):
                _ = driver.positions
        with postgres.connect(server.database) as other:
            other.execute("LOCK TABLE orders")
            thread = threading.Thread(target=prepare, args=[driver])
            thread.start()
            thread.join(120)
            waits = thread.is_alive()
        thread.join(240)

    assert not waits
    assert [SinkUnavailable] == [type(error) for error in errors]


def test_a_wrong_password_is_refused_and_is_nowhere_in_the_error(postgres: RunningPostgres) -> None:
    wrong = postgres.database().model_copy(update={"password": Secret.of("canary-of-a-wrong-password")})

    with (
        pytest.raises(Refused, match=r"does not let this user in: .*password authentication failed") as caught,
        Driver(wrong),
    ):
        pass

    shown = "".join(traceback.format_exception(caught.value)) + repr(caught.value) + repr(caught.value.__context__)
    assert "canary-of-a-wrong-password" not in shown
    assert postgres.password not in shown


def test_a_task_with_a_wrong_password_is_refused_too(postgres: RunningPostgres) -> None:
    server = postgres.database()

    with Driver(server) as driver:
        staged = driver.stage([(1, "a")])
        mistaken = server.model_copy(update={"password": Secret.of("canary-of-a-wrong-password")})
        factory = PostgresStagerFactory(replace(driver.sink.stager().table, server=mistaken))
        with pytest.raises(Refused) as caught:
            factory(staged.offset_range)

    assert "canary-of-a-wrong-password" not in str(caught.value)


def without_login(server: Server) -> Server:
    ask(server, f"CREATE ROLE sleeper_of_{server.database} NOLOGIN PASSWORD 'made-up'")
    return server.model_copy(update={"user": f"sleeper_of_{server.database}", "password": Secret.of("made-up")})


def without_admission(server: Server) -> Server:
    ask(server, f"CREATE ROLE outsider_of_{server.database} LOGIN PASSWORD 'made-up'")
    ask(server, f"REVOKE CONNECT ON DATABASE {server.database} FROM PUBLIC")
    return server.model_copy(update={"user": f"outsider_of_{server.database}", "password": Secret.of("made-up")})


@pytest.mark.parametrize(
    ("changed", "error", "said"),
    [
        pytest.param(
            lambda server: server.model_copy(update={"password": Secret.of("canary-of-a-wrong-password")}),
            Refused,
            "Check that user 'penstock' exists, and its password (held by the program)",
            id="wrong password",
        ),
        pytest.param(
            lambda server: server.model_copy(update={"password": None}),
            Refused,
            "Say where the password of user 'penstock' is: `password: env:NAME`, or file:PATH",
            id="no password",
        ),
        pytest.param(
            lambda server: server.model_copy(update={"user": "nobody-we-know"}),
            Refused,
            "Check that user 'nobody-we-know' exists",
            id="unknown user",
        ),
        pytest.param(
            lambda server: server.model_copy(update={"database": "nowhere"}),
            NotFound,
            'database "nowhere" does not exist. Make it, or name another one with `user` or `database`',
            id="unknown database",
        ),
        pytest.param(
            lambda server: server.model_copy(update={"sslmode": "require"}),
            Refused,
            "Turn TLS on at the server",
            id="no TLS",
        ),
        pytest.param(
            lambda server: server.model_copy(update={"ca_file": Path("/nowhere/ca.pem"), "sslmode": "verify-full"}),
            BadInput,
            "there is no ca_file /nowhere/ca.pem. Name the PEM file of the server's CA",
            id="no CA file",
        ),
        pytest.param(without_login, Refused, "ALTER ROLE ... LOGIN", id="may not log in"),
        pytest.param(without_admission, Refused, "GRANT CONNECT ON DATABASE", id="may not enter the database"),
    ],
)
def test_what_waiting_does_not_fix_is_refused_at_once_with_what_does(
    postgres: RunningPostgres, changed: Callable[[Server], Server], error: type[PenstockError], said: str
) -> None:
    server = changed(postgres.database())

    with pytest.raises(error) as caught, Driver(server):
        pass

    assert said in str(caught.value)
    assert "canary" not in str(caught.value)
