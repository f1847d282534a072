"""Tables of PostgreSQL that do not fit the pipeline: a conflict that says what to do, and nothing is written."""

from decimal import Decimal

import pyarrow as pa
import pytest

from penstock.errors import BadInput, Conflict, NotFound, Refused
from penstock.lab.bench.throwaway_postgres import RunningPostgres
from penstock.secret import Secret

from support.postgres_driver import Driver, ask, positions_of
from support.postgres_tables import COORDINATES

# ruff: noqa: S608 - the statements are made of constants


def test_a_column_that_the_table_lacks_is_a_conflict_whose_advice_can_be_pasted(postgres: RunningPostgres) -> None:
    server = postgres.database()
    columns = {"id": pa.int64(), 'a "strange" name': pa.decimal128(10, 2)}
    ask(server, f'CREATE TABLE "Orders" (id bigint, {COORDINATES})')

    refusing = Driver(server, columns, table="Orders", new_columns="refuse")
    with pytest.raises(Conflict, match="Orders has no column") as caught, refusing:
        pass
    before = ask(server, "SELECT tablename FROM pg_tables WHERE schemaname = 'public'")
    ask(server, str(caught.value).partition("Add it: ")[2])
    with Driver(server, columns, table="Orders") as driver:
        driver.write([(1, Decimal("2.50"))])

    assert [("Orders",)] == before
    assert [(1, Decimal("2.50"))] == ask(server, 'SELECT id, "a ""strange"" name" FROM "Orders"')


@pytest.mark.parametrize(
    ("column", "kind"),
    [
        pytest.param("numeric(10, 2)", pa.decimal128(10, 6), id="rounded"),
        pytest.param("real", pa.float64(), id="cut"),
        pytest.param("timestamptz", pa.timestamp("us"), id="moved by the zone"),
        pytest.param("timestamp(0)", pa.timestamp("us"), id="without microseconds"),
        pytest.param("price", pa.decimal128(10, 6), id="rounded by a domain"),
        pytest.param("date", pa.string(), id="a time cut off"),
    ],
)
def test_a_column_that_would_change_values_is_a_conflict_and_nothing_is_written(
    postgres: RunningPostgres, column: str, kind: pa.DataType
) -> None:
    server = postgres.database()
    ask(server, f"CREATE DOMAIN price AS numeric(10, 2); CREATE TABLE orders (value {column}, {COORDINATES})")

    with (
        pytest.raises(Conflict, match=r"'value' of the table orders is .*: values could be changed") as caught,
        Driver(server, {"value": kind}),
    ):
        pass

    assert "Cast it in a step" in caught.value.fix


def test_a_column_of_a_type_of_ones_own_takes_text(postgres: RunningPostgres) -> None:
    server = postgres.database()
    ask(server, f"CREATE TYPE mood AS ENUM ('fine'); CREATE TABLE orders (value mood, {COORDINATES})")

    with Driver(server, {"value": pa.string()}) as driver:
        staged, refused = driver.try_stage([("fine",), ("unheard of",)])
        driver.land(staged)

    assert [1] == [index for index, _ in refused]
    assert [("fine",)] == ask(server, "SELECT value FROM orders")


def test_a_column_that_the_table_insists_on_and_the_pipeline_does_not_make_is_a_conflict(
    postgres: RunningPostgres,
) -> None:
    server = postgres.database()
    ask(server, f"CREATE TABLE orders (id bigint, note text, customer text NOT NULL, {COORDINATES})")

    with pytest.raises(Conflict, match="insists on 'customer'") as caught, Driver(server):
        pass

    assert "default" in caught.value.fix


def test_a_key_that_the_pipeline_does_not_make_is_a_conflict(postgres: RunningPostgres) -> None:
    with (
        pytest.raises(Conflict, match="key column 'customer'"),
        Driver(postgres.database(), mode="upsert", key=["customer"]),
    ):
        pass


@pytest.mark.parametrize(
    "index",
    [
        pytest.param("", id="none"),
        pytest.param("CREATE INDEX ON orders (id)", id="not unique"),
        pytest.param("CREATE UNIQUE INDEX ON orders (id, note)", id="of more columns"),
        pytest.param("CREATE UNIQUE INDEX ON orders (id) WHERE note = 'a'", id="of some rows"),
        pytest.param("ALTER TABLE orders ADD UNIQUE (id) DEFERRABLE", id="deferrable"),
    ],
)
def test_an_upsert_without_a_unique_index_on_the_key_is_a_conflict_and_nothing_is_written(
    postgres: RunningPostgres, index: str
) -> None:
    server = postgres.database()
    ask(server, f"CREATE TABLE orders (id bigint, note text, {COORDINATES}); {index}")

    with (
        pytest.raises(Conflict, match=r"no unique index on \(id\)") as caught,
        Driver(server, mode="upsert", key=["id"]) as driver,
    ):
        driver.prepare(driver.stage([(1, "a")]))

    assert caught.value.fix
    assert [] == ask(server, "SELECT * FROM orders")
    assert {} == positions_of(server)


def test_a_schema_that_is_not_there_is_reported(postgres: RunningPostgres) -> None:
    with (
        pytest.raises((Conflict, NotFound, BadInput), match="nowhere"),
        Driver(postgres.database(), table="nowhere.orders"),
    ):
        pass


def test_a_name_that_is_a_view_is_reported_at_the_start(postgres: RunningPostgres) -> None:
    server = postgres.database()
    ask(server, f"CREATE TABLE base (id bigint, note text, {COORDINATES}); CREATE VIEW orders AS SELECT * FROM base")

    with pytest.raises(Conflict, match="orders is not a table, but a view"), Driver(server):
        pass


def test_a_user_without_rights_is_refused(postgres: RunningPostgres) -> None:
    server = postgres.database()
    ask(server, f"CREATE ROLE guest_of_{server.database} LOGIN PASSWORD 'made-up'")
    guest = server.model_copy(update={"user": f"guest_of_{server.database}", "password": Secret.of("made-up")})

    with pytest.raises(Refused, match=f"user 'guest_of_{server.database}' may not use orders"), Driver(guest):
        pass


@pytest.mark.parametrize(
    "change",
    [
        pytest.param("ALTER TABLE orders DROP COLUMN note", id="column dropped"),
        pytest.param("ALTER TABLE orders ALTER COLUMN note TYPE bigint USING 1", id="type changed"),
    ],
)
def test_a_table_that_changes_while_the_pipeline_runs_is_reported_and_nothing_is_written(
    postgres: RunningPostgres, change: str
) -> None:
    server = postgres.database()

    with Driver(server) as driver:
        driver.write([(1, "a")])
        staged = driver.stage([(2, "b")], start=1)
        ask(server, change)
        for _ in range(2):
            with pytest.raises(Conflict):
                driver.prepare(staged)
            driver.sink.abandon()

    assert [(1,)] == ask(server, "SELECT next_offset FROM penstock_positions")
