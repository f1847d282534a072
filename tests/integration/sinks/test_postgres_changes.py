from collections.abc import Iterator

import pytest

from penstock.errors import PipelineHalted
from penstock.lab.bench.throwaway_postgres import RunningPostgres
from penstock.record.positions import SourcePartition
from penstock.sinks.postgres import Postgres, PostgresSink
from penstock.sinks.postgres_server import Server
from penstock.sinks.sink import Refusal

from support.changes import (
    PARTITION,
    SCHEMA,
    TRUNCATE,
    WITH_ANOTHER_KEY,
    WITH_UNKNOWN,
    Row,
    Table,
    delete,
    put,
    random_changes,
    write_changes,
)
from support.postgres_driver import ask

OTHER = SourcePartition("orders", PARTITION.topic_id, 1)


class Mirror:
    """A PostgreSQL table that batches of changes are written to, as a driver does it."""

    def __init__(self, server: Server) -> None:
        self.server = server
        spec = Postgres(server=server, table="orders", mode="upsert", key=["id", "part"])
        self.sink = PostgresSink(spec, "postgres", "orders")

    def write(self, rows: list[Row], start: int, source_partition: SourcePartition = PARTITION) -> list[Refusal]:
        return write_changes(self.sink, rows, start, source_partition)

    @property
    def table(self) -> Table:
        return {(row[0], row[1]): (row[2], row[3]) for row in ask(self.server, "SELECT id, part, doc, n FROM orders")}


@pytest.fixture
def mirror(postgres: RunningPostgres) -> Iterator[Mirror]:
    made = Mirror(postgres.database("changes"))
    yield made
    made.sink.close()


@pytest.mark.parametrize("seed", range(3))
def test_after_each_batch_of_random_changes_the_table_is_the_sources(mirror: Mirror, seed: int) -> None:
    mirror.sink.open(SCHEMA)
    start = 0
    for rows, expected in random_changes(seed):
        assert [] == mirror.write(rows, start)
        start += len(rows)

        assert (expected, start) == (mirror.table, (mirror.sink.positions([PARTITION]) or {})[PARTITION])


def test_a_table_of_the_users_own_that_insists_on_values_takes_changes_that_leave_them_out(mirror: Mirror) -> None:
    ask(
        mirror.server,
        "CREATE TABLE orders (id bigint, part text, doc text NOT NULL, n integer NOT NULL CHECK (n < 100),"
        " _topic_id text, _partition integer, _offset bigint, PRIMARY KEY (id, part))",
    )
    mirror.sink.open(SCHEMA)
    mirror.write([put(1, "a", 1), put(2, "b", 1)], 0)
    mirror.write([put(1, None, 2, "doc"), delete(2)], 2)

    assert {(1, "x"): ("a", 2)} == mirror.table


def test_a_value_that_nobody_knows_is_refused_for_every_change_that_lacks_it(mirror: Mirror) -> None:
    mirror.sink.open(SCHEMA)
    mirror.write([put(1, "a", 1)], 0)

    refusals = mirror.write([put(1, None, 2, "doc"), put(2, None, 1, "doc"), put(2, None, 2, "doc")], 1)

    assert [2, 3] == sorted(each.offset for each in refusals)
    assert "doc: the change leaves the value out" in refusals[0].error["message"]


@pytest.mark.parametrize("case", WITH_UNKNOWN)
def test_a_change_is_refused_if_what_it_leaves_out_is_neither_in_the_batch_nor_in_the_table(
    mirror: Mirror, case: str
) -> None:
    there, rows, expected = WITH_UNKNOWN[case]
    mirror.sink.open(SCHEMA)
    if there:
        mirror.write(there, 0)

    refusals = mirror.write(rows, len(there))

    assert expected == sorted(each.offset for each in refusals)
    assert all("REPLICA IDENTITY FULL" in each.error["message"] for each in refusals)


@pytest.mark.parametrize("case", WITH_ANOTHER_KEY)
def test_a_row_that_gets_another_key_keeps_the_large_values_that_the_change_leaves_out(
    mirror: Mirror, case: str
) -> None:
    there, rows, expected = WITH_ANOTHER_KEY[case]
    mirror.sink.open(SCHEMA)
    if there:
        mirror.write(there, 0)

    refusals = mirror.write(rows, len(there))

    assert expected == (sorted(each.offset for each in refusals) if refusals else mirror.table)


def test_a_truncate_in_a_topic_of_several_partitions_stops_the_pipeline(mirror: Mirror) -> None:
    mirror.sink.open(SCHEMA)
    mirror.write([put(1, "a", 1)], 0)
    mirror.write([put(2, "b", 1)], 0, OTHER)

    with pytest.raises(PipelineHalted, match="its topic has several partitions"):
        mirror.write([TRUNCATE], 1)

    mirror.sink.abandon()
    assert {(1, "x"), (2, "x")} == mirror.table.keys()
