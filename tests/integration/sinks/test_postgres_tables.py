"""Tables in a real PostgreSQL: how they are made and named, what their columns hold, and values of their own."""

import datetime
import threading
from decimal import Decimal

import pyarrow as pa
import pytest

from penstock.errors import Conflict
from penstock.lab.bench.throwaway_postgres import RunningPostgres
from penstock.record.target import Target
from penstock.secret import Secret
from penstock.sinks.postgres import Postgres
from penstock.sinks.postgres_server import Server

from support.postgres_driver import OTHER, TP, Driver, ask, positions_of
from support.waiting import until

TYPES = """
SELECT attname, format_type(atttypid, atttypmod) FROM pg_attribute
WHERE attrelid = to_regclass(%s) AND attnum > 0 ORDER BY attnum"""
POSITIONS = """
TABLE penstock_positions (
    pipeline text, sink text, topic_id text, partition integer, topic text NOT NULL, next_offset bigint NOT NULL,
    table_oid oid NOT NULL, table_files text NOT NULL, row_topic_id text, row_partition integer, row_offset bigint,
    row_batch bigint, format integer NOT NULL DEFAULT 1,
    PRIMARY KEY (pipeline, sink, topic_id, partition)
)"""
INSTANT = datetime.datetime(2026, 2, 28, 23, 59, 59, 999_999, datetime.UTC)


def test_a_missing_table_is_made_with_a_type_for_every_column(postgres: RunningPostgres) -> None:
    server = postgres.database()
    columns = {
        "a_string": pa.string(),
        "a_bool": pa.bool_(),
        "an_int8": pa.int8(),
        "an_int16": pa.int16(),
        "an_int32": pa.int32(),
        "an_int64": pa.int64(),
        "a_float32": pa.float32(),
        "a_float64": pa.float64(),
        "a_binary": pa.binary(),
        "a_date": pa.date32(),
        "an_instant": pa.timestamp("us", tz="UTC"),
        "a_wall_clock": pa.timestamp("us"),
        "a_decimal": pa.decimal128(38, 10),
        "a_list": pa.list_(pa.int32()),
        "a_struct": pa.struct([("x", pa.int32())]),
        "a_map": pa.map_(pa.string(), pa.int32()),
        "nothing": pa.null(),
    }

    with Driver(server, columns):
        made = ask(server, TYPES, "orders")

    assert {
        "a_string": "text",
        "a_bool": "boolean",
        "an_int8": "smallint",
        "an_int16": "smallint",
        "an_int32": "integer",
        "an_int64": "bigint",
        "a_float32": "real",
        "a_float64": "double precision",
        "a_binary": "bytea",
        "a_date": "date",
        "an_instant": "timestamp with time zone",
        "a_wall_clock": "timestamp without time zone",
        "a_decimal": "numeric(38,10)",
        "a_list": "jsonb",
        "a_struct": "jsonb",
        "a_map": "jsonb",
        "nothing": "jsonb",
        "_topic_id": "text",
        "_partition": "integer",
        "_offset": "bigint",
    } == dict(made)


@pytest.mark.parametrize(
    ("kind", "value", "expected"),
    [
        (pa.string(), "tab\t, newline\n, \\N, \\., 'quotes', %s, 漢字, 🚰", None),
        (pa.string(), "", None),
        (pa.bool_(), False, None),
        (pa.int8(), -(2**7), None),
        (pa.int16(), -(2**15), None),
        (pa.int32(), 2**31 - 1, None),
        (pa.int64(), -(2**63), None),
        (pa.float32(), 0.5, None),
        (pa.float64(), 1.7976931348623157e308, None),
        (pa.float64(), float("-inf"), None),
        (pa.binary(), bytes(range(256)), None),
        (pa.date32(), datetime.date(9999, 12, 31), None),
        (pa.date32(), datetime.date(1, 1, 1), None),
        (pa.timestamp("us", tz="UTC"), INSTANT, None),
        (pa.timestamp("us", tz="Europe/Berlin"), INSTANT, None),
        (pa.timestamp("us"), INSTANT.replace(tzinfo=None), None),
        (pa.decimal128(38, 10), Decimal("-1234567890123456789012345678.0123456789"), None),
        (pa.duration("us"), datetime.timedelta(days=-3, microseconds=1), None),
        (pa.time64("ns"), datetime.time(23, 59, 59, 999_999), None),
        (pa.list_(pa.string()), ["a", None, "\\"], None),
        (pa.list_(pa.decimal128(10, 2)), [Decimal("1.50")], ["1.50"]),
        (
            pa.struct([("at", pa.timestamp("us", tz="UTC"))]),
            {"at": INSTANT},
            {"at": "2026-02-28T23:59:59.999999+00:00"},
        ),
        (pa.struct([("raw", pa.binary())]), {"raw": b"\x00\xff"}, {"raw": "AP8="}),
        (pa.map_(pa.string(), pa.int64()), [("a", 1), ("b", None)], {"a": 1, "b": None}),
        (
            pa.list_(pa.struct([("deep", pa.map_(pa.string(), pa.bool_()))])),
            [{"deep": [("x", True)]}],
            [{"deep": {"x": True}}],
        ),
    ],
    ids=lambda each: str(each) if isinstance(each, pa.DataType) else "",
)
def test_a_value_arrives_as_it_is_and_a_null_as_a_null(
    postgres: RunningPostgres, kind: pa.DataType, value: object, expected: object
) -> None:
    server = postgres.database()

    with Driver(server, {"value": kind}) as driver:
        driver.write([(value,), (None,)])

    assert [(value if expected is None else expected,), (None,)] == ask(
        server, "SELECT value FROM orders ORDER BY _offset"
    )


def test_sessions_run_in_utc_whatever_the_server_says(postgres: RunningPostgres) -> None:
    server = postgres.database()
    ask(server, f"ALTER DATABASE {server.database} SET timezone TO 'Pacific/Auckland'")

    zone = ask(server, "SHOW timezone")

    assert [("UTC",)] == zone


def test_a_table_in_a_schema_of_its_own_has_everything_there(postgres: RunningPostgres) -> None:
    server = postgres.database()
    ask(server, "CREATE SCHEMA sales")
    ask(server, "CREATE TABLE orders (unlike text)")

    with Driver(server, table="sales.orders", mode="upsert", key=["id"]) as driver:
        driver.write([(1, "a"), (1, "b")])
        found = driver.positions
        made = ask(server, "SELECT count(*) FROM pg_tables WHERE schemaname = 'sales'")

    assert {TP: 2} == found
    assert [(1, "b")] == ask(server, "SELECT id, note FROM sales.orders")
    assert [(3,)] == made
    assert [("orders",)] == ask(server, "SELECT tablename FROM pg_tables WHERE schemaname = 'public'")


def test_a_table_that_the_search_path_leads_to_has_its_positions_beside_it(postgres: RunningPostgres) -> None:
    server = postgres.database()
    ask(server, "CREATE SCHEMA first; CREATE SCHEMA second")
    ask(server, f"ALTER DATABASE {server.database} SET search_path = first, second, public")
    with Driver(server, table="second.orders") as driver:
        driver.write([(1, "a")])

    with Driver(server) as driver:
        found = driver.positions
        driver.write([(2, "b")], start=1)
    ask(server, f"ALTER DATABASE {server.database} SET search_path = second")

    assert ({TP: 1}, {TP: 2}) == (found, positions_of(server))
    assert [(1, "a"), (2, "b")] == ask(server, "SELECT id, note FROM second.orders ORDER BY id")
    assert [] == ask(server, "SELECT tablename FROM pg_tables WHERE schemaname IN ('first', 'public')")


def test_one_table_is_known_under_all_its_names(postgres: RunningPostgres) -> None:
    server = postgres.database()
    ask(server, "CREATE SCHEMA sales")
    ask(server, "CREATE TABLE sales.orders (id int) PARTITION BY RANGE (id); CREATE TABLE orders (id int)")
    ask(server, "CREATE TABLE sales.old PARTITION OF sales.orders FOR VALUES FROM (0) TO (9)")
    ask(server, f"ALTER DATABASE {server.database} SET search_path = sales, public")
    renamed = server.model_copy(update={"host": "localhost"})

    def named(table: str, where: Server = server) -> Target:
        return Postgres(server=where, table=table).target_there()

    assert 1 == len({named("orders"), named("sales.orders"), named("old"), named("sales.orders", renamed)})
    assert 1 == len({named("later"), named("sales.later"), named("later", renamed)})
    assert 4 == len({named("orders"), named("public.orders"), named("later"), named("public.later")})


@pytest.mark.parametrize("table", ["Orders", "order", "_o$1", "Sales.User"])
def test_a_table_is_named_exactly_as_written(postgres: RunningPostgres, table: str) -> None:
    server = postgres.database()
    ask(server, 'CREATE SCHEMA "Sales"')

    with Driver(server, table=table) as driver:
        driver.write([(1, "a")])

    quoted = ".".join(f'"{part}"' for part in table.split("."))
    assert [(1,)] == ask(server, f"SELECT id FROM {quoted}")  # noqa: S608 - the name is ours


@pytest.mark.parametrize("mode", ["append", "upsert"])
def test_columns_may_have_any_name(postgres: RunningPostgres, mode: str) -> None:
    server = postgres.database()
    names = ["select", "two words", 'a "quoted" one', "it's", "100%", "%s", "{}", "{table}", "Größe", "old", "excluded"]
    key = names if mode == "upsert" else []

    with Driver(server, dict.fromkeys(names, pa.int32()), mode=mode, key=key) as driver:
        driver.write([tuple(range(len(names))), tuple(range(len(names)))])
        driver.write([tuple(range(1, len(names) + 1))], start=2)
        made = ask(server, TYPES, "orders")

    expected = [tuple(range(len(names)))] * (2 if mode == "append" else 1) + [tuple(range(1, len(names) + 1))]
    assert names == [name for name, _ in made][: len(names)]
    assert expected == [row[: len(names)] for row in ask(server, "SELECT * FROM orders ORDER BY _offset")]


def test_a_table_that_makes_values_of_its_own_keeps_doing_so(postgres: RunningPostgres) -> None:
    server = postgres.database()
    ask(
        server,
        """
        CREATE TABLE orders (
            number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, serial bigserial, id bigint, note text,
            doubled bigint NOT NULL GENERATED ALWAYS AS (id * 2) STORED, state text NOT NULL DEFAULT 'new',
            _topic_id text, _partition int, _offset bigint
        )""",
    )

    with Driver(server) as driver:
        driver.write([(5, "a"), (6, "b")])

    assert [(1, 5, 10, "new"), (2, 6, 12, "new")] == ask(
        server, "SELECT number, id, doubled, state FROM orders ORDER BY _offset"
    )


def test_pipelines_that_start_at_the_same_moment_in_a_new_database_all_get_open(postgres: RunningPostgres) -> None:
    server = postgres.database()
    drivers = [Driver(server, pipeline=f"pipeline-{number}") for number in range(6)]
    together = threading.Barrier(len(drivers))
    errors: list[BaseException] = []

    def race(driver: Driver) -> None:
        together.wait(120)
        try:
            driver.sink.open(driver.schema)
        except BaseException as error:  # noqa: BLE001 - shown by the assertion
            errors.append(error)
        finally:
            driver.sink.close()

    threads = [threading.Thread(target=race, args=[each]) for each in drivers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(240)

    assert [] == errors


def test_rows_are_found_by_their_coordinates_without_a_look_at_all_of_them(postgres: RunningPostgres) -> None:
    server = postgres.database()
    scanned = "SELECT seq_scan FROM pg_stat_user_tables WHERE relname = 'orders'"
    others = "SELECT count(*) = 0 FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
    with Driver(server) as driver:
        driver.write([(1, "a")])
        driver.write([(1, "of a quiet partition")], source_partition=OTHER)
    ask(
        server,
        "INSERT INTO orders SELECT n, repeat('x', 100), 'id-of-orders', 0, n FROM generate_series(1, 100000) n;"
        "UPDATE penstock_positions SET next_offset = 100001, row_offset = 100000 WHERE partition = 0",
    )
    with postgres.connect(server.database) as connection:
        connection.autocommit = True
        connection.execute("VACUUM FULL orders")
        connection.execute("ANALYZE orders")
    # A session tells what it has done when it ends.
    until(lambda: ask(server, others) == [(True,)])
    before = ask(server, scanned)

    with Driver(server) as driver:
        found = driver.positions
    until(lambda: ask(server, others) == [(True,)])

    assert {TP: 100_001, OTHER: 1} == found
    assert before == ask(server, scanned)


@pytest.mark.parametrize(
    ("made_by", "made", "is_refused"),
    [
        pytest.param("stranger", "TABLE penstock_positions (pipeline text)", True, id="a stranger's table"),
        pytest.param("stranger", "VIEW penstock_positions AS SELECT 1", True, id="a stranger's view"),
        pytest.param("", "VIEW penstock_positions AS SELECT 1", True, id="no table"),
        pytest.param("", POSITIONS, False, id="an administrator's table"),
    ],
)
def test_positions_are_kept_in_no_table_that_a_stranger_has_made(
    postgres: RunningPostgres, made_by: str, made: str, *, is_refused: bool
) -> None:
    server = postgres.database()
    user, stranger = f"user_of_{server.database}", f"stranger_of_{server.database}"
    for role in (user, stranger):
        ask(server, f"CREATE ROLE {role} LOGIN PASSWORD 'made-up'; GRANT ALL ON SCHEMA public TO {role}")
    ask(
        server, f"{f'SET ROLE {stranger};' if made_by else ''} CREATE {made}; GRANT ALL ON penstock_positions TO {user}"
    )
    driver = Driver(server.model_copy(update={"user": user, "password": Secret.of("made-up")}))

    if is_refused:
        with pytest.raises(Conflict, match="is not a table to keep positions in: user"), driver:
            pass
    else:
        with driver:
            driver.write([(1, "a")])

    assert [] == ask(server, "SELECT tablename FROM pg_tables WHERE tablename ~ '^orders' AND %s", is_refused)
