"""Tables of PostgreSQL that were put back from an older copy: no older row is taken for a newer position."""

from dataclasses import replace

import pytest

from penstock.errors import Conflict
from penstock.lab.bench.throwaway_postgres import RunningPostgres
from penstock.record.positions import OffsetRange, SourcePartition
from penstock.sinks.postgres_server import Server

from support.postgres_driver import OTHER, TP, Driver, ask
from support.postgres_tables import COPY, IDS, MADE, PARTITIONED, PARTS, SWAP, fill

# ruff: noqa: S608 - the statements are made of constants


@pytest.mark.parametrize("mode", ["append", "upsert"])
def test_a_dump_of_rows_and_positions_goes_on_where_it_was_taken(postgres: RunningPostgres, mode: str) -> None:
    server = postgres.database()
    spec = {"mode": mode, "key": ["id"] if mode == "upsert" else []}
    fill(server, **spec)
    dumped = {table: ask(server, f"SELECT * FROM {table}") for table in ("orders", "penstock_positions")}
    with Driver(server, **spec) as driver:  # type: ignore[arg-type]
        driver.write([(1, "newer")], start=2)
        ask(server, "DROP TABLE orders, penstock_positions CASCADE")

    with Driver(server, **spec) as driver:  # type: ignore[arg-type]
        for table, rows in dumped.items():
            for row in rows:
                ask(server, f"INSERT INTO {table} VALUES ({', '.join(['%s'] * len(row))})", *row)
        found = driver.positions
        driver.write([(1, "newer")], start=2)

    assert {TP: 2, OTHER: 1} == found
    assert 1 == len(ask(server, "SELECT * FROM orders WHERE note = 'newer'"))


@pytest.mark.parametrize(
    ("change", "positions"),
    [
        pytest.param("TRUNCATE orders", {}, id="empty"),
        pytest.param("DELETE FROM orders WHERE _offset = 1; VACUUM FULL orders", {TP: 1, OTHER: 1}, id="older"),
        pytest.param("VACUUM FULL orders", {TP: 2, OTHER: 1}, id="whole"),
        pytest.param(f"{COPY} WHERE _partition = 1; {SWAP}", {OTHER: 1}, id="of one partition"),
    ],
)
def test_recovering_goes_on_behind_the_rows_that_the_table_has(
    postgres: RunningPostgres, change: str, positions: dict[object, int]
) -> None:
    server = postgres.database()
    fill(server)
    with postgres.connect(server.database) as connection:
        connection.autocommit = True
        for each in change.split("; "):
            connection.execute(each)

    with Driver(server) as driver:
        driver.sink.recover([TP, OTHER])
        found = driver.positions
        start = (found or {}).get(TP, 0)
        driver.write([(number + 1, "x") for number in range(start, 3)], start=start)

    assert positions == found
    assert [(1,), (2,), (3,)] == ask(server, "SELECT id FROM orders WHERE _partition = 0 ORDER BY id")


@pytest.mark.parametrize(
    ("made", "again", "spec"),
    [
        pytest.param("", "ALTER TABLE orders ADD PRIMARY KEY (id)", {"mode": "upsert", "key": ["id"]}, id="upsert"),
        pytest.param(f"{PARTITIONED}; {PARTS}", "", {}, id="partitioned"),
    ],
)
def test_an_older_copy_is_not_taken_for_the_table_because_a_partition_was_quiet(
    postgres: RunningPostgres, made: str, again: str, spec: dict[str, object]
) -> None:
    server = postgres.database()
    ask(server, made or MADE)
    if again:
        ask(server, again)
    fill(server, **spec)
    ask(server, COPY)

    with Driver(server, **spec) as driver:  # type: ignore[arg-type]
        driver.write([(4, "missing in the copy")], start=2)
    ask(server, f"DROP TABLE orders; {made or MADE}; INSERT INTO orders SELECT * FROM copy; {again}")
    with Driver(server, **spec) as driver:  # type: ignore[arg-type]
        found = driver.positions

    assert {} == found


@pytest.fixture
def shared(postgres: RunningPostgres) -> Server:
    """Make a table of two sinks, `copy` with what it held when one of them was far ahead, and write on."""
    server = postgres.database()
    with Driver(server, name="low") as low, Driver(server, name="high") as high:
        low.write([(number, "low") for number in range(2)])
        high.write([(number + 100, "high") for number in range(6)])
        ask(server, COPY)
        low.write([(number, "low") for number in range(2, 6)], start=2)
    return server


@pytest.mark.parametrize("change", [SWAP, "TRUNCATE orders; INSERT INTO orders SELECT * FROM copy"])
def test_rows_of_another_sink_are_not_taken_for_those_of_a_restored_table(shared: Server, change: str) -> None:
    ask(shared, change)

    with Driver(shared, name="low") as low:
        found = low.positions
        with pytest.raises(Conflict, match="sink 'high' of pipeline 'orders' writes rows of orders/0 to it, too"):
            low.sink.recover([TP])
        again = low.positions

    assert ({}, {}) == (found, again)


def test_a_table_of_two_sinks_that_lacks_nothing_goes_on_when_told_so(
    postgres: RunningPostgres, shared: Server
) -> None:
    with postgres.connect(shared.database) as connection:
        connection.autocommit = True
        connection.execute("VACUUM FULL orders")

    with Driver(shared, name="low") as low:
        with pytest.raises(Conflict, match="which of them this sink has written is not known") as refused:
            low.sink.recover([TP])
        ask(shared, str(refused.value).partition("run: ")[2])
        found = low.positions

    assert {TP: 6} == found


def test_a_table_of_two_sinks_that_was_emptied_is_filled_again_by_both(shared: Server) -> None:
    ask(shared, "TRUNCATE orders")

    with Driver(shared, name="low") as low, Driver(shared, name="high") as high:
        for each in (low, high):
            each.sink.recover([TP])
        for each in (low, high):
            each.write([(1, "again")])

    assert [(1,), (1,)] == ask(shared, IDS)


def test_a_part_of_a_partitioned_table_restored_from_an_older_dump_is_noticed(postgres: RunningPostgres) -> None:
    server = postgres.database()
    ask(server, f"{PARTITIONED}; {PARTS}")
    fill(server)
    ask(server, "CREATE TABLE copy AS SELECT * FROM orders_1")

    with Driver(server) as driver:
        driver.write([(4, "missing in the copy")], start=1, source_partition=OTHER)
        driver.write([(5, "in another part, and later")], start=2)
        ask(
            server,
            "DROP TABLE orders_1; CREATE TABLE orders_1 PARTITION OF orders FOR VALUES IN (1);"
            "INSERT INTO orders SELECT * FROM copy",
        )
        found = driver.positions
        driver.sink.recover([TP, OTHER])
        again = driver.positions

    assert {} == found
    assert {TP: 3, OTHER: 1} == again


def test_rows_that_a_trigger_puts_into_an_inheriting_table_are_missed_there(postgres: RunningPostgres) -> None:
    server = postgres.database()
    ask(
        server,
        f"""
        {MADE}; CREATE TABLE child () INHERITS (orders);
        CREATE FUNCTION redirect() RETURNS trigger LANGUAGE plpgsql AS
        $$ BEGIN INSERT INTO child SELECT NEW.*; RETURN NULL; END $$;
        CREATE TRIGGER redirect BEFORE INSERT ON orders FOR EACH ROW EXECUTE FUNCTION redirect()""",
    )
    fill(server)

    with Driver(server) as driver:
        before = driver.positions
        ask(server, "TRUNCATE child")
        after = driver.positions

    assert {TP: 2, OTHER: 1} == before
    assert {} == after


@pytest.mark.parametrize("change", ["TRUNCATE orders", f"{COPY} WHERE _offset = 0; {SWAP}"])
def test_a_row_that_a_replay_wrote_does_not_tell_how_far_a_replaced_table_reaches(
    postgres: RunningPostgres, change: str
) -> None:
    server = postgres.database()
    with Driver(server) as driver:
        driver.write([(0, "x"), (1, "x"), (3, "x")], offsets=[0, 1, 3])
    ask(server, change)
    letter = SourcePartition("orders.dead", "replay-0badcafe-orders.dead", 0)
    with Driver(server) as replay:
        staged = replace(replay.stage([(2, "x")], offsets=[2]), offset_range=OffsetRange(letter, 0, 1))
        replay.sink.positions([letter])
        assert [] == replay.sink.prepare([staged], {letter: None})
        replay.sink.commit()

    said = r"a replay has written to it since: .* of orders/0 reach is not known"
    with Driver(server) as driver, pytest.raises(Conflict, match=said):
        driver.sink.recover([TP])
    ask(server, "TRUNCATE orders")
    with Driver(server) as driver:
        driver.sink.recover([TP])
        found = driver.positions

    assert {} == found
