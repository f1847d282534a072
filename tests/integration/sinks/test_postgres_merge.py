"""Results of stateful pipelines in a real PostgreSQL: rows and position move together, or not at all."""

from collections.abc import Iterator

import pyarrow as pa
import pyarrow.dataset as ds
import pytest

from penstock.errors import Conflict, PipelineHalted, PositionsMoved
from penstock.lab.bench import batching
from penstock.lab.bench.throwaway_postgres import RunningPostgres
from penstock.sinks.merging import MergeContext, MergingSink
from penstock.sinks.postgres import Postgres
from penstock.sinks.postgres_server import Server

from support.postgres_driver import Row, ask

ALL = "SELECT id, total FROM totals ORDER BY id"


@pytest.fixture
def server(postgres: RunningPostgres) -> Server:
    return postgres.database()


@pytest.fixture
def sink(server: Server) -> Iterator[MergingSink]:
    model = Postgres(server=server, table="totals", mode="upsert", key=["id"])
    made = model.open_merge(MergeContext("postgres", "totals"))
    yield made
    made.close()


def results(*rows: Row) -> ds.Dataset:
    columns = zip(*rows, strict=True) if rows else ((), ())
    return ds.dataset(pa.table([pa.array(each, pa.int64()) for each in columns], ["id", "total"]))


def test_results_are_merged_by_key_and_the_position_moves_along(server: Server, sink: MergingSink) -> None:
    before = sink.position()
    sink.merge(results((1, 10), (2, 20)), None, 1)
    sink.merge(results((2, 21), (3, 30), (2, 22)), 1, 2)

    assert (None, 2) == (before, sink.position())
    assert [(1, 10), (2, 22), (3, 30)] == ask(server, ALL)


def test_a_batch_without_changes_moves_the_position_alone(server: Server, sink: MergingSink) -> None:
    sink.merge(results(), None, 1)

    assert (1, []) == (sink.position(), ask(server, ALL))


@pytest.mark.parametrize("expected", [None, 0, 2])
def test_a_position_that_is_not_the_expected_one_is_not_written_past(
    server: Server, sink: MergingSink, expected: int | None
) -> None:
    sink.merge(results((1, 10)), None, 1)

    with pytest.raises(PositionsMoved):
        sink.merge(results((1, 99)), expected, 3)

    assert (1, [(1, 10)]) == (sink.position(), ask(server, ALL))


@pytest.mark.parametrize(
    ("rule", "error"),
    [
        ("ALTER TABLE totals ADD CONSTRAINT small CHECK (total < 100)", "violates check constraint"),
        ("ALTER TABLE totals ALTER COLUMN total TYPE smallint", "smallint out of range"),
        (
            "ALTER TABLE totals ADD CONSTRAINT alone UNIQUE (total) DEFERRABLE INITIALLY DEFERRED",
            "duplicate key value violates unique constraint",
        ),
    ],
)
def test_a_row_that_the_table_refuses_stops_the_pipeline_with_a_line_and_moves_nothing(
    server: Server, sink: MergingSink, rule: str, error: str
) -> None:
    ask(server, f"CREATE TABLE totals (id bigint PRIMARY KEY, total bigint); {rule}")
    sink.merge(results((1, 10)), None, 1)

    with pytest.raises(PipelineHalted, match=f"^the table totals refuses a row of the results: .*{error}"):
        sink.merge(results((2, 50_000), (3, 50_000)), 1, 2)

    assert (1, [(1, 10)]) == (sink.position(), ask(server, ALL))


def test_a_result_that_would_lose_blanks_stops_the_pipeline(server: Server, sink: MergingSink) -> None:
    ask(server, "CREATE TABLE totals (id bigint PRIMARY KEY, note varchar(3))")
    rows = [ds.dataset(pa.table({"id": [1], "note": [note]})) for note in ("ab ", "ab  ")]
    sink.merge(rows[0], None, 1)

    with pytest.raises(
        PipelineHalted, match="note: the column takes 3 characters, and would lose the blanks at the end"
    ):
        sink.merge(rows[1], 1, 2)

    assert (1, [(1, "ab ")]) == (sink.position(), ask(server, "SELECT id, note FROM totals"))


@pytest.mark.parametrize(
    ("change", "position"),
    [
        ("DROP TABLE totals", None),
        ("TRUNCATE totals", None),
        ("CREATE TABLE copy AS SELECT * FROM totals; TRUNCATE totals; INSERT INTO totals SELECT * FROM copy", None),
        ("ALTER TABLE totals ALTER COLUMN total TYPE numeric", None),
        ("VACUUM FULL totals", 1),
        ("DELETE FROM totals", 1),
    ],
)
def test_a_position_is_true_of_the_table_that_holds_the_results(
    postgres: RunningPostgres, server: Server, sink: MergingSink, change: str, position: int | None
) -> None:
    sink.merge(results((1, 10)), None, 1)
    with postgres.connect(server.database) as connection:
        connection.autocommit = True
        connection.execute(change)

    assert position == sink.position()
    sink.merge(results((1, 11)), position, 2)
    assert (2, [(1, 11)]) == (sink.position(), ask(server, ALL))


@pytest.mark.parametrize("key", ["", ", UNIQUE (id) DEFERRABLE"])
def test_a_table_without_the_key_is_named_and_nothing_moves(server: Server, sink: MergingSink, key: str) -> None:
    ask(server, f"CREATE TABLE totals (id bigint, total bigint{key})")

    with pytest.raises(Conflict, match=r"the table totals has no unique index on \(id\)"):
        sink.merge(results((1, 10)), None, 1)

    assert (None, []) == (sink.position(), ask(server, ALL))


def test_the_bench_of_batching_counts_every_event_of_every_contender() -> None:
    lines = batching.run(events=100, rounds=1, step=lambda _what, _done, _all: None)

    assert 3 == len(lines)
    assert 1.0 == lines[0].ratio
