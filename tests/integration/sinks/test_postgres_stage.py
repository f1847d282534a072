"""What is staged in a real PostgreSQL: private while a driver lives, and gone after it, however it ended."""

import pytest

from penstock.lab.bench.throwaway_postgres import RunningPostgres
from penstock.secret import Secret
from penstock.sinks.postgres_server import Server

from support.postgres_driver import TP, Driver, Row, ask

STAGES = "SELECT relname FROM pg_class WHERE relname LIKE 'penstock_stage%' AND relkind = 'r'"


def staged(server: Server) -> list[Row]:
    return [row for (stage,) in ask(server, STAGES) for row in ask(server, f'SELECT id, note FROM "{stage}"')]  # noqa: S608


def test_what_a_lost_attempt_staged_goes_with_the_batch(postgres: RunningPostgres) -> None:
    server = postgres.database()

    with Driver(server) as driver:
        driver.stage([(1, "of the attempt that nobody heard of")])
        before = staged(server)
        driver.write([(1, "of the winner")])
        after = staged(server)

    assert [(1, "of the attempt that nobody heard of")] == before
    assert [] == after


def test_a_driver_that_ends_leaves_no_staging_table(postgres: RunningPostgres) -> None:
    server = postgres.database()

    with Driver(server) as driver:
        driver.stage([(1, "a")])

    assert [] == ask(server, STAGES)


@pytest.mark.parametrize("pipeline", ["orders", "another"])
def test_what_a_killed_driver_left_goes_when_the_next_one_opens_and_a_living_ones_stays(
    postgres: RunningPostgres, pipeline: str
) -> None:
    server = postgres.database()
    killed = Driver(server)
    killed.sink.open(killed.schema)
    killed.stage([(1, "of the killed one")])
    assert killed.sink._session.connection is not None
    killed.sink._session.connection.close()

    with Driver(server) as living:
        rows = living.stage([(2, "of the living one")])
        with Driver(server, pipeline=pipeline):
            left = staged(server)
        living.land(rows)

    assert [(2, "of the living one")] == left
    assert [(2,)] == ask(server, "SELECT id FROM orders")


def test_nobody_else_may_read_what_is_staged_whatever_the_schema_gives_away(postgres: RunningPostgres) -> None:
    server = postgres.database()
    role = f"curious of {server.database}"
    ask(server, f"""CREATE ROLE "{role}" LOGIN PASSWORD 'made-up'""")
    ask(server, f'ALTER DEFAULT PRIVILEGES GRANT SELECT ON TABLES TO "{role}", PUBLIC')
    curious = server.model_copy(update={"user": role, "password": Secret.of("made-up")})

    with Driver(server) as driver:
        driver.stage([(1, "private")])
        ((stage,),) = ask(server, STAGES)
        with pytest.raises(Exception, match="permission denied"):
            ask(curious, f'SELECT * FROM "{stage}"')  # noqa: S608 - the name is ours
        driver.write([(1, "private")])
        landed = ask(curious, "SELECT id FROM orders")

    assert [(1,)] == landed
    assert {TP: 1} == driver.positions
    driver.sink.close()


@pytest.mark.parametrize(
    ("column", "change"),
    [
        pytest.param("varchar(3)", "ALTER TABLE orders ALTER COLUMN note TYPE text", id="type"),
        pytest.param("text CHECK (note < 'b')", "ALTER TABLE orders DROP CONSTRAINT orders_note_check", id="check"),
        pytest.param("text NOT NULL", "ALTER TABLE orders ALTER COLUMN note DROP NOT NULL", id="not null"),
    ],
)
def test_rows_are_staged_as_the_table_is_now(postgres: RunningPostgres, column: str, change: str) -> None:
    server = postgres.database()
    refused_at_first = (1, None) if "NULL" in column else (1, "borrowed")
    ask(
        server,
        f"CREATE TABLE orders (id bigint, note {column}, _topic_id text, _partition int, _offset bigint)",
    )

    with Driver(server) as driver:
        _, before = driver.try_stage([refused_at_first])
        ask(server, change)
        _ = driver.positions
        driver.write([refused_at_first])

    assert [0] == [index for index, _ in before]
    assert [refused_at_first] == ask(server, "SELECT id, note FROM orders")


def test_a_batch_that_has_nothing_for_the_sink_holds_no_lock(postgres: RunningPostgres) -> None:
    server = postgres.database()

    with Driver(server) as driver:
        driver.write([(1, "a")])
        assert [] == driver.sink.prepare([], {})
        found = ask(
            server, "SELECT state FROM pg_stat_activity WHERE datname = %s AND state ~ 'trans'", server.database
        )

    assert [] == found
