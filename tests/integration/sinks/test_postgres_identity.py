"""Tables that are dropped, emptied or replaced: positions are true of the table that holds their rows."""

from dataclasses import replace

import pytest

from penstock.errors import BatchAborted, Conflict
from penstock.lab.bench.throwaway_postgres import RunningPostgres
from penstock.record.positions import OffsetRange, SourcePartition

from support.postgres_driver import OTHER, TP, Driver, ask
from support.postgres_tables import COPY, IDS, MADE, PARTITIONED, PARTS, SWAP, fill


@pytest.mark.parametrize(
    "change",
    [
        pytest.param("DROP TABLE orders", id="dropped"),
        pytest.param(f"DROP TABLE orders; {MADE}", id="dropped and made"),
        pytest.param("TRUNCATE orders", id="truncated"),
        pytest.param("TRUNCATE orders; INSERT INTO orders (id) VALUES (9)", id="truncated, and other rows"),
        pytest.param(f"{COPY} WITH NO DATA; {SWAP}", id="replaced by an empty one"),
        pytest.param(f"{COPY} WHERE _partition = 0 AND _offset = 0; {SWAP}", id="replaced by an older copy"),
        pytest.param(f"{COPY} WHERE _partition = 0; {SWAP}", id="replaced by a copy of one partition"),
    ],
)
def test_a_table_that_lacks_the_rows_of_its_positions_has_none(postgres: RunningPostgres, change: str) -> None:
    server = postgres.database()
    fill(server)
    ask(server, change)

    with Driver(server) as driver:
        found = driver.positions

    assert {} == found


@pytest.mark.parametrize(
    "change",
    [
        pytest.param("VACUUM FULL orders", id="vacuumed"),
        pytest.param("ALTER TABLE orders ADD COLUMN seen timestamptz DEFAULT clock_timestamp()", id="rewritten"),
        pytest.param("ALTER TABLE orders ALTER COLUMN id TYPE numeric", id="type changed"),
        pytest.param("DELETE FROM orders", id="rows deleted"),
        pytest.param("UPDATE orders SET note = 'changed'", id="rows changed"),
        pytest.param(f"{COPY}; {SWAP}", id="replaced by a copy"),
        pytest.param("BEGIN; TRUNCATE orders; ROLLBACK", id="truncated and taken back"),
    ],
)
def test_a_table_that_is_kept_up_keeps_its_positions(postgres: RunningPostgres, change: str) -> None:
    server = postgres.database()
    fill(server)
    with postgres.connect(server.database) as connection:
        connection.autocommit = True
        connection.execute(change)

    with Driver(server) as driver:
        found = driver.positions
        driver.write([(4, "d")], start=2)
        again = driver.positions

    assert {TP: 2, OTHER: 1} == found
    assert {TP: 3, OTHER: 1} == again


def test_an_upserted_table_is_known_by_the_rows_of_its_last_batch(postgres: RunningPostgres) -> None:
    server = postgres.database()

    with Driver(server, mode="upsert", key=["id"]) as driver:
        driver.write([(1, "gives way"), (2, "b")])
        driver.write([(2, "takes the place of the last row of the other partition")], source_partition=OTHER)
        ask(server, f"{COPY}; ALTER TABLE copy ADD PRIMARY KEY (id); {SWAP}")
        found = driver.positions

    assert {TP: 2, OTHER: 1} == found


def test_a_partitioned_table_may_lose_an_old_part_and_is_missed_as_a_whole(postgres: RunningPostgres) -> None:
    server = postgres.database()
    ask(server, f"{PARTITIONED}; {PARTS}")
    fill(server)

    with Driver(server) as driver:
        driver.write([(4, "d")], start=2)
        ask(server, "DROP TABLE orders_1")
        without_a_part = driver.positions
        ask(server, "TRUNCATE orders")
        empty = driver.positions

    assert {TP: 3, OTHER: 1} == without_a_part
    assert {} == empty


def test_another_table_in_the_file_does_not_go_on_from_the_position_of_the_first(postgres: RunningPostgres) -> None:
    server = postgres.database()
    fill(server)

    with Driver(server, table="others") as other:
        there = other.positions
        other.write([(1, "a")])
        filled = other.positions
    with Driver(server) as driver:
        back = driver.positions

    assert ({}, {TP: 1}) == (there, filled)
    assert {OTHER: 1} == back, "this table has rows beyond the position of the other, which would come twice"


@pytest.mark.parametrize("change", ["DROP TABLE orders CASCADE", "TRUNCATE orders", f"{COPY} WITH NO DATA; {SWAP}"])
def test_a_table_that_goes_under_a_running_batch_gets_nothing_of_it(postgres: RunningPostgres, change: str) -> None:
    server = postgres.database()

    with Driver(server) as driver:
        driver.write([(1, "a")])
        staged = driver.stage([(2, "b")], start=1)
        expected = driver.positions
        ask(server, change)
        with pytest.raises(
            BatchAborted, match=r"the table public.orders was (dropped|changed) while a batch was running"
        ):
            driver.prepare(staged, expected=expected)
        driver.sink.abandon()
        found = driver.positions

    assert {} == found
    assert [("orders",)] * (change[:4] != "DROP") == ask(
        server, "SELECT tablename FROM pg_tables WHERE tablename = 'orders'"
    )


def test_a_position_without_rows_is_true_of_any_table(postgres: RunningPostgres) -> None:
    server = postgres.database()
    with Driver(server) as driver:
        driver.land(driver.stage([], start=0), driver.stage([], source_partition=OTHER))
    ask(server, "TRUNCATE orders")

    with Driver(server) as driver:
        found = driver.positions

    assert {TP: 0, OTHER: 0} == found


def test_a_table_that_was_filled_again_is_the_new_owner_of_its_positions(postgres: RunningPostgres) -> None:
    server = postgres.database()
    fill(server)
    ask(server, "DROP TABLE orders")

    with Driver(server) as driver:
        driver.write([(1, "a")])
        found = driver.positions

    assert {TP: 1} == found
    assert [(1,)] == ask(server, IDS)


def test_a_table_named_again_after_another_one_gets_no_row_twice(postgres: RunningPostgres) -> None:
    server = postgres.database()
    rows = [(number, "x") for number in range(5)]
    with Driver(server) as driver:
        driver.write(rows)
    with Driver(server, table="others") as other:
        other.sink.recover([TP])
        other.write(rows[:2])

    with Driver(server) as driver:
        back = driver.positions
        with pytest.raises(Conflict, match=r"has rows of .* from offset 2 on") as refused:
            driver.sink.recover([TP])
        ask(server, str(refused.value.fix).partition(": ")[2])
        found = driver.positions
        driver.write(rows[2:], start=2)

    assert {} == back
    assert {TP: 2} == found
    assert [(number,) for number in range(5)] == ask(server, IDS)


@pytest.mark.parametrize(
    "made",
    [
        pytest.param(MADE.replace("TABLE", "UNLOGGED TABLE"), id="table"),
        pytest.param(f"{PARTITIONED}; {PARTS.replace('TABLE', 'UNLOGGED TABLE', 1)}", id="part"),
    ],
)
def test_a_table_that_a_crash_of_the_server_empties_is_refused(postgres: RunningPostgres, made: str) -> None:
    server = postgres.database()
    ask(server, made)

    with pytest.raises(Conflict, match=r"the table orders(_0)? is unlogged or temporary"), Driver(server):
        pass


def test_a_table_that_is_made_unlogged_later_is_refused(postgres: RunningPostgres) -> None:
    server = postgres.database()

    with Driver(server) as driver:
        driver.write([(1, "a")])
        ask(server, "ALTER TABLE orders SET UNLOGGED")
        with pytest.raises(Conflict, match="the table orders is unlogged or temporary"):
            _ = driver.positions


@pytest.mark.parametrize(
    ("again", "change", "found"),
    [
        pytest.param([], "DROP TABLE first", {}, id="no row is left, and the other table is dropped"),
        pytest.param([(number, "y") for number in range(5)], "VACUUM FULL first", {TP: 3}, id="rows are changed"),
    ],
)
def test_replacing_rows_of_one_table_leaves_the_positions_of_another_alone(
    postgres: RunningPostgres, again: list[tuple[int, str]], change: str, found: dict[SourcePartition, int]
) -> None:
    server = postgres.database()
    with Driver(server, table="first", name="first") as first, Driver(server, table="second", name="second") as second:
        first.write([(number, "x") for number in range(3)])
        second.write([(number, "x") for number in range(5)])
    past = SourcePartition(TP.topic, "range-1-x", TP.partition)

    with Driver(server, table="second", name="second") as second:
        second.sink.replace({past: [OffsetRange(TP, 0, 5)]})
        staged = second.stage(again)
        second.sink.positions([past])
        moved = replace(staged, offset_range=OffsetRange(past, 0, 5))
        assert [] == second.sink.prepare([moved], {past: None})
        second.sink.commit()
    with postgres.connect(server.database) as connection:
        connection.autocommit = True
        connection.execute(change)
    with Driver(server, table="first", name="first") as first:
        there = first.positions

    assert found == there


def test_an_upserted_table_is_known_by_its_last_rows_after_batches_without_any(postgres: RunningPostgres) -> None:
    server = postgres.database()

    with Driver(server, mode="upsert", key=["id"]) as driver:
        driver.land(driver.stage([(1, "a")]), driver.stage([(1, "b"), (1, "c")], source_partition=OTHER))
        driver.land(driver.stage([], start=1))
        ask(server, f"{COPY}; ALTER TABLE copy ADD PRIMARY KEY (id); {SWAP}")
        found = driver.positions

    assert {TP: 1, OTHER: 2} == found
