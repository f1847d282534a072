"""Tables that are dropped, emptied, replaced or restored: positions are true of the table that holds their rows."""

from dataclasses import replace

import pytest

from penstock.errors import BatchAborted, Conflict
from penstock.lab.bench.throwaway_postgres import RunningPostgres
from penstock.record.positions import OffsetRange, SourcePartition
from penstock.sinks.postgres_server import Server

from support.postgres_driver import OTHER, TP, Driver, ask

# ruff: noqa: S608 - the statements are made of constants
MADE = "CREATE TABLE orders (id bigint, note text, _topic_id text, _partition int, _offset bigint)"
COPY = "CREATE TABLE copy AS SELECT * FROM orders"
SWAP = "ALTER TABLE orders RENAME TO old; ALTER TABLE copy RENAME TO orders"
PARTITIONED = f"{MADE} PARTITION BY LIST (_partition)"
PARTS = "; ".join(f"CREATE TABLE orders_{n} PARTITION OF orders FOR VALUES IN ({n})" for n in (0, 1))
IDS = "SELECT id FROM orders ORDER BY id"


def fill(server: Server, **spec: object) -> None:
    with Driver(server, **spec) as driver:  # type: ignore[arg-type]
        driver.land(driver.stage([(1, "a"), (2, "b")]), driver.stage([(3, "c")], source_partition=OTHER))


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
        with pytest.raises(BatchAborted, match=r"the table orders was (dropped|changed) while a batch was running"):
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


def test_an_upserted_table_is_known_by_its_last_rows_after_batches_without_any(postgres: RunningPostgres) -> None:
    server = postgres.database()

    with Driver(server, mode="upsert", key=["id"]) as driver:
        driver.land(driver.stage([(1, "a")]), driver.stage([(1, "b"), (1, "c")], source_partition=OTHER))
        driver.land(driver.stage([], start=1))
        ask(server, f"{COPY}; ALTER TABLE copy ADD PRIMARY KEY (id); {SWAP}")
        found = driver.positions

    assert {TP: 1, OTHER: 2} == found


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
