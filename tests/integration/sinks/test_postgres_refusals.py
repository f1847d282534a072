"""Rows that PostgreSQL refuses: each is named, with the reason and without its value, and the others go in."""

import random
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from penstock.errors import BatchAborted, Conflict, Refused, SinkUnavailable
from penstock.lab.bench.throwaway_postgres import RunningPostgres
from penstock.secret import Secret
from penstock.sinks.postgres_server import Server

from support.postgres_driver import OTHER, TP, Driver, ask
from support.postgres_tables import COORDINATES

# ruff: noqa: S608 - the statements are made of constants
CANARY = "canary-4711"


@pytest.mark.parametrize(
    ("column", "kind", "good", "bad", "error"),
    [
        ("text NOT NULL", pa.string(), "there", None, "NotNullViolation"),
        (f"text CHECK (value <> '{CANARY}')", pa.string(), "there", CANARY, "CheckViolation"),
        ("varchar(5)", pa.string(), "short", CANARY, "StringDataRightTruncation"),
        ("varchar(5)", pa.string(), "short", "trail  ", "ValueError"),
        ("short_text", pa.string(), "äöüß ", "äöüß  ", "ValueError"),
        ("numeric(6, 2)", pa.decimal128(38, 2), Decimal("9999.99"), Decimal("12345.67"), "NumericValueOutOfRange"),
        ("smallint", pa.int64(), 1, 4_711_471_100, "NumericValueOutOfRange"),
        ("uuid", pa.string(), "00000000-0000-0000-0000-000000000000", CANARY, "InvalidTextRepresentation"),
        ("text", pa.string(), "there", f"{CANARY}\x00", "DataError"),
        ("jsonb", pa.list_(pa.string()), ["there"], [f"{CANARY}\x00"], "UntranslatableCharacter"),
    ],
)
def test_a_row_that_a_column_refuses_is_named_and_the_others_go_in(
    postgres: RunningPostgres, column: str, kind: pa.DataType, good: Any, bad: Any, error: str
) -> None:
    server = postgres.database()
    ask(server, "CREATE DOMAIN short_text AS varchar(5)")
    ask(server, f"CREATE TABLE orders (id bigint, value {column}, {COORDINATES})")
    rows = [(number, bad if number in {0, 5, 6} else good) for number in range(8)]

    with Driver(server, {"id": pa.int64(), "value": kind}) as driver:
        staged, refused = driver.try_stage(rows, start=100)
        driver.land(staged)
        found = driver.positions

    assert [0, 5, 6] == sorted(index for index, _ in refused)
    assert {("sink", error)} == {(record_error["stage"], record_error["error"]) for _, record_error in refused}
    assert 5 == staged.rows
    assert {TP: 108} == found
    assert [(1, 101), (2, 102), (3, 103), (4, 104), (7, 107)] == ask(
        server, "SELECT id, _offset FROM orders ORDER BY id"
    )


@pytest.mark.parametrize("column", ["uuid", "jsonb", f"text CHECK (value <> '{CANARY}')", "varchar(5)"])
def test_the_value_that_is_refused_is_not_in_the_fault(postgres: RunningPostgres, column: str) -> None:
    server = postgres.database()
    ask(server, f"CREATE TABLE orders (value {column}, {COORDINATES})")

    with Driver(server, {"value": pa.string()}) as driver:
        _, ((_, record_error),) = driver.try_stage([(CANARY,)])

    assert CANARY not in str(record_error)
    assert record_error["message"]


def test_every_row_of_a_chunk_may_be_refused_and_the_position_still_moves(postgres: RunningPostgres) -> None:
    server = postgres.database()
    ask(server, f"CREATE TABLE orders (id bigint, note text NOT NULL, {COORDINATES})")

    with Driver(server) as driver:
        staged, refused = driver.try_stage([(number, None) for number in range(5)])
        driver.land(staged)
        found = driver.positions

    assert [0, 1, 2, 3, 4] == sorted(index for index, _ in refused)
    assert {TP: 5} == found


def test_a_key_that_is_null_is_refused(postgres: RunningPostgres) -> None:
    server = postgres.database()

    with Driver(server, mode="upsert", key=["id"]) as driver:
        staged, refused = driver.try_stage([(1, "a"), (None, "b")])
        driver.land(staged)

    assert [1] == [index for index, _ in refused]
    assert [(1,)] == ask(server, "SELECT id FROM orders")


def test_a_character_that_the_database_cannot_hold_is_its_rows_fault(postgres: RunningPostgres) -> None:
    server = postgres.database(options="ENCODING 'LATIN1' TEMPLATE template0")

    with Driver(server) as driver:
        staged, refused = driver.try_stage([(1, "Größe"), (2, "漢字"), (3, "fine")])
        driver.land(staged)

    assert [1] == [index for index, _ in refused]
    assert [(1, "Größe"), (3, "fine")] == ask(server, "SELECT id, note FROM orders ORDER BY id")


@pytest.mark.parametrize(
    ("kind", "beyond"),
    [(pa.timestamp("us", tz="UTC"), 2**60), (pa.timestamp("us"), 2**60), (pa.date32(), 2**30)],
    ids=str,
)
def test_a_time_that_python_cannot_hold_keeps_no_other_row_out(
    postgres: RunningPostgres, kind: pa.DataType, beyond: int
) -> None:
    server = postgres.database()

    with Driver(server, {"at": kind}) as driver:
        staged, refused = driver.try_stage([(pa.scalar(0, kind),), (pa.scalar(beyond, kind),), (pa.scalar(1, kind),)])
        driver.land(staged)

    written = [offset for (offset,) in ask(server, "SELECT _offset FROM orders")]
    assert {0, 2} <= set(written)
    assert [0, 1, 2] == sorted(written + [index for index, _ in refused])


UNIQUE = f"CREATE TABLE orders (id bigint UNIQUE, note text, {COORDINATES}); INSERT INTO orders VALUES (3, 'there')"
DEFERRED = UNIQUE.replace("UNIQUE", "UNIQUE DEFERRABLE INITIALLY DEFERRED")
FOREIGN = f"""
CREATE TABLE customers (id bigint PRIMARY KEY); INSERT INTO customers SELECT * FROM generate_series(0, 9);
DELETE FROM customers WHERE id = 3;
CREATE TABLE orders (id bigint REFERENCES customers, note text, {COORDINATES})"""
DEFERRED_FOREIGN = FOREIGN.replace("REFERENCES customers", "REFERENCES customers DEFERRABLE INITIALLY DEFERRED")
EXCLUDING = f"""
CREATE TABLE orders (id bigint, note text, {COORDINATES}, EXCLUDE (id WITH =));
INSERT INTO orders VALUES (3, 'there')"""
PARTITIONED = f"""
CREATE TABLE orders (id bigint, note text, {COORDINATES}) PARTITION BY LIST (id);
CREATE TABLE orders_all PARTITION OF orders FOR VALUES IN (0, 1, 2, 4)"""
TRIGGER = f"""
CREATE TABLE orders (id bigint, note text, {COORDINATES});
CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS
$$ BEGIN IF NEW.id = 3 THEN RAISE EXCEPTION 'no threes'; END IF; RETURN NEW; END $$;
CREATE TRIGGER refuse BEFORE INSERT ON orders FOR EACH ROW EXECUTE FUNCTION refuse()"""
RAISE = "RAISE EXCEPTION 'no threes'"
POLICY = f"""
CREATE TABLE orders (id bigint, note text, {COORDINATES});
ALTER TABLE orders ENABLE ROW LEVEL SECURITY;
CREATE POLICY no_threes ON orders USING (true) WITH CHECK (id <> 3)"""


@pytest.mark.parametrize(
    ("table", "error"),
    [
        pytest.param(UNIQUE, "UniqueViolation", id="unique"),
        pytest.param(DEFERRED, "UniqueViolation", id="deferred unique"),
        pytest.param(FOREIGN, "ForeignKeyViolation", id="foreign key"),
        pytest.param(DEFERRED_FOREIGN, "ForeignKeyViolation", id="deferred foreign key"),
        pytest.param(EXCLUDING, "ExclusionViolation", id="exclusion"),
        pytest.param(PARTITIONED, "CheckViolation", id="no partition"),
        pytest.param(TRIGGER, "RaiseException", id="trigger"),
        pytest.param(TRIGGER.replace(RAISE, f"{RAISE} USING ERRCODE = 'U0013'"), "DatabaseError", id="own code"),
        pytest.param(
            TRIGGER.replace(RAISE, f"{RAISE} USING ERRCODE = 'insufficient_privilege'"),
            "InsufficientPrivilege",
            id="trigger with the code of a privilege",
        ),
        pytest.param(TRIGGER.replace(RAISE, "ASSERT false"), "AssertFailure", id="assertion"),
        pytest.param(TRIGGER.replace(RAISE, "PERFORM no_function(NEW.id)"), "UndefinedFunction", id="one path broken"),
    ],
)
def test_a_row_that_the_table_refuses_at_the_merge_is_named_and_nothing_is_written(
    postgres: RunningPostgres, table: str, error: str
) -> None:
    server = postgres.database()
    ask(server, table)
    count = "SELECT count(*) FROM orders WHERE _offset IS NOT NULL"

    with Driver(server) as driver:
        here = driver.stage([(0, "a"), (1, "b")], start=50)
        there = driver.stage([(2, "c"), (3, "d"), (4, "e")], start=70, source_partition=OTHER, offsets=[7, 8, 9])
        refused = driver.prepare(here, there)
        driver.sink.abandon()
        found, written = driver.positions, ask(server, count)
        driver.land(here, driver.stage([(2, "c"), (4, "e")], start=70, source_partition=OTHER))

    assert [(OTHER, 71, "sink", error)] == [
        (each.source_partition, each.offset, each.error["stage"], each.error["error"]) for each in refused
    ]
    assert {} == found
    assert [(0,)] == written
    assert [(4,)] == ask(server, count)


def user_of(server: Server) -> Server:
    """Make a user that may do everything with the table, and is not its owner."""
    user = f"user_of_{server.database}"
    ask(
        server,
        f"CREATE ROLE {user} LOGIN PASSWORD 'made-up'; GRANT ALL ON SCHEMA public TO {user};"
        f"GRANT ALL ON orders TO {user}",
    )
    return server.model_copy(update={"user": user, "password": Secret.of("made-up")})


@pytest.mark.parametrize("rows", [[(2, "a"), (3, "b"), (4, "c")], [(3, "alone")]], ids=["among others", "alone"])
def test_a_row_that_a_policy_forbids_is_refused_alone(postgres: RunningPostgres, rows: list[tuple[int, str]]) -> None:
    server = postgres.database()
    ask(server, POLICY)

    with Driver(user_of(server)) as driver:
        refused = driver.prepare(driver.stage(rows))

    assert [rows.index(next(row for row in rows if row[0] == 3))] == [each.offset for each in refused]
    assert {"InsufficientPrivilege"} == {each.error["error"] for each in refused}


@pytest.mark.parametrize(
    ("table", "change", "expected"),
    [
        pytest.param(POLICY, "REVOKE INSERT ON orders FROM {user}", Refused, id="no right to the table"),
        pytest.param(
            TRIGGER.replace("IF NEW.id = 3", "IF true").replace(RAISE, "INSERT INTO nowhere VALUES (1)"),
            "",
            Conflict,
            id="what a trigger needs is not there",
        ),
        pytest.param(
            TRIGGER.replace("IF NEW.id = 3 THEN", "IF true THEN").replace("FOR EACH ROW", "FOR EACH STATEMENT"),
            "",
            Conflict,
            id="whole statements are refused",
        ),
        pytest.param(
            TRIGGER.replace("IF NEW.id = 3", "IF true").replace(RAISE, f"{RAISE} USING ERRCODE = '53300'"),
            "",
            SinkUnavailable,
            id="an outage",
        ),
    ],
)
def test_what_is_no_rows_fault_makes_no_row_a_dead_letter(
    postgres: RunningPostgres, table: str, change: str, expected: type[Exception]
) -> None:
    server = postgres.database()
    ask(server, table)
    user = user_of(server)

    with Driver(user) as driver:
        staged = driver.stage([(1, "a"), (2, "b")])
        if change:
            ask(server, change.format(user=user.user))
        with pytest.raises(expected) as caught:
            driver.prepare(staged)

    assert expected is caught.type
    assert [] == ask(server, "SELECT * FROM orders")


def test_of_two_rows_that_exclude_each_other_the_later_one_is_refused(postgres: RunningPostgres) -> None:
    server = postgres.database()
    ask(server, f"CREATE TABLE orders (id bigint UNIQUE, note text, {COORDINATES})")

    with Driver(server) as driver:
        refused = driver.prepare(driver.stage([(1, "a"), (2, "b"), (1, "again"), (3, "c")]))

    assert [(TP, 2)] == [(each.source_partition, each.offset) for each in refused]


def test_every_refused_row_among_many_is_found(postgres: RunningPostgres) -> None:
    server = postgres.database()
    ask(server, f"CREATE TABLE orders (id bigint UNIQUE, note text, {COORDINATES})")
    poison_records = [0, 17, 18, 333, 499]
    for number in poison_records:
        ask(server, "INSERT INTO orders (id) VALUES (%s)", number)

    with Driver(server) as driver:
        refused = driver.prepare(driver.stage([(number, "x") for number in range(500)]))

    assert poison_records == sorted(each.offset for each in refused)


def test_a_key_too_long_for_the_index_is_its_rows_fault(postgres: RunningPostgres) -> None:
    server = postgres.database()
    dice = random.Random(4711)
    endless = "".join(dice.choices("abcdefghijklmnopqrstuvwxyz0123456789", k=20_000))

    with Driver(server, {"name": pa.string()}, mode="upsert", key=["name"]) as driver:
        refused = driver.prepare(driver.stage([("short",), (endless,), ("short, too",)]))

    assert [(TP, 1)] == [(each.source_partition, each.offset) for each in refused]
    assert endless not in str(refused)


def test_a_refusal_that_does_not_come_again_is_not_taken_for_a_batch_that_is_prepared(
    postgres: RunningPostgres,
) -> None:
    server = postgres.database()
    ask(
        server,
        f"""
        CREATE SEQUENCE calls;
        CREATE TABLE orders (id bigint, note text, {COORDINATES});
        CREATE FUNCTION refuse_once() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
            IF nextval('calls') = 1 THEN RAISE unique_violation; END IF; RETURN NEW; END $$;
        CREATE TRIGGER refuse_once BEFORE INSERT ON orders FOR EACH ROW EXECUTE FUNCTION refuse_once()""",
    )

    with Driver(server) as driver:
        staged = driver.stage([(1, "a"), (2, "b")])
        with pytest.raises(BatchAborted):
            driver.prepare(staged)
        driver.sink.abandon()
        driver.land(staged)
        found = driver.positions

    assert {TP: 2} == found
    assert [(1,), (2,)] == ask(server, "SELECT id FROM orders ORDER BY id")
