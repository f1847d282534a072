"""Rows and positions in a real PostgreSQL: what is appended and upserted, and who wins when two drivers write."""

import pickle
import threading
from dataclasses import replace

import pyarrow as pa
import pytest

from penstock.errors import PositionsMoved
from penstock.lab.bench.throwaway_postgres import RunningPostgres
from penstock.record.positions import OffsetRange, SourcePartition

from support.postgres_driver import OTHER, TP, Driver, ask, positions_of

STAGES = "SELECT relname FROM pg_class WHERE relname LIKE 'penstock_stage%' AND relkind = 'r'"


def test_appended_rows_are_there_once_each_with_the_coordinates_of_its_record(postgres: RunningPostgres) -> None:
    server = postgres.database()

    with Driver(server) as driver:
        driver.write([(7, "seven"), (8, "eight")], start=40)
        driver.write([(7, "seven again")], start=42)

    assert [
        (7, "seven", TP.topic_id, 0, 40),
        (8, "eight", TP.topic_id, 0, 41),
        (7, "seven again", TP.topic_id, 0, 42),
    ] == ask(server, "SELECT * FROM orders ORDER BY _offset")


def test_the_rows_of_several_partitions_go_in_together_and_move_each_position(postgres: RunningPostgres) -> None:
    server = postgres.database()

    with Driver(server) as driver:
        driver.land(
            driver.stage([(1, "a"), (2, "b")], start=5), driver.stage([(3, "c")], start=100, source_partition=OTHER)
        )
        found = driver.positions

    assert {TP: 7, OTHER: 101} == found
    assert [(1, 0, 5), (2, 0, 6), (3, 1, 100)] == ask(server, "SELECT id, _partition, _offset FROM orders ORDER BY id")


def test_an_offset_range_without_rows_moves_the_position_alone(postgres: RunningPostgres) -> None:
    server = postgres.database()

    with Driver(server) as driver:
        staged = driver.stage([])
        driver.land(replace(staged, offset_range=OffsetRange(TP, 0, 10)))
        found = driver.positions

    assert {TP: 10} == found
    assert [] == ask(server, "SELECT * FROM orders")


def test_many_chunks_of_one_task_go_in_together_in_their_order(postgres: RunningPostgres) -> None:
    server = postgres.database()

    with Driver(server) as driver:
        driver.write([(number, "x" * 500) for number in range(20_000)])

    assert [(20_000, 0)] == ask(server, "SELECT count(*), count(*) FILTER (WHERE id <> _offset) FROM orders")


def test_what_a_lost_attempt_of_a_task_staged_does_not_count(postgres: RunningPostgres) -> None:
    server = postgres.database()

    with Driver(server) as driver:
        driver.stage([(1, "of the attempt that nobody heard of")])
        driver.land(driver.stage([(1, "of the winner")]))

    assert [(1, "of the winner")] == ask(server, "SELECT id, note FROM orders")


def test_nothing_of_a_batch_stays_in_the_staging_table(postgres: RunningPostgres) -> None:
    server = postgres.database()

    with Driver(server) as driver:
        driver.write([(1, "a"), (2, "b")])
        ((stage,),) = ask(server, STAGES)
        left = ask(server, f'SELECT count(*) FROM "{stage}"')  # noqa: S608 - the name is ours

    assert [(0,)] == left


def test_an_upsert_keeps_one_row_per_key_and_the_newest_of_the_batch(postgres: RunningPostgres) -> None:
    server = postgres.database()

    with Driver(server, mode="upsert", key=["id"]) as driver:
        driver.write([(1, "old"), (2, "stays"), (1, "newer"), (3, "old"), (1, "newest")])
        driver.write([(3, "new"), (4, "fresh")], start=5)

    assert [(1, "newest", 4), (2, "stays", 1), (3, "new", 5), (4, "fresh", 6)] == ask(
        server, "SELECT id, note, _offset FROM orders ORDER BY id"
    )


def test_an_upsert_changes_a_value_to_null(postgres: RunningPostgres) -> None:
    server = postgres.database()

    with Driver(server, mode="upsert", key=["id"]) as driver:
        driver.write([(1, "there")])
        driver.write([(1, None)], start=1)

    assert [(1, None)] == ask(server, "SELECT id, note FROM orders")


def test_a_row_gives_way_to_no_older_record_of_its_partition(postgres: RunningPostgres) -> None:
    server = postgres.database()

    with Driver(server, mode="upsert", key=["id"]) as driver:
        driver.write([(1, "newer")], start=10)
        driver.write([(1, "older, replayed"), (2, "replayed, too")], start=11, offsets=[3, 4])

    assert [(1, "newer", 10), (2, "replayed, too", 4)] == ask(
        server, "SELECT id, note, _offset FROM orders ORDER BY id"
    )


@pytest.mark.parametrize(
    "source_partition", [OTHER, SourcePartition("orders", "id-of-orders-recreated", 0)], ids=["partition", "topic"]
)
def test_a_row_gives_way_to_a_record_of_another_partition_whatever_its_offset(
    postgres: RunningPostgres, source_partition: SourcePartition
) -> None:
    server = postgres.database()

    with Driver(server, mode="upsert", key=["id"]) as driver:
        driver.write([(1, "from here")], start=10)
        driver.write([(1, "from there")], start=3, source_partition=source_partition)

    assert [("from there", source_partition.topic_id, source_partition.partition, 3)] == ask(
        server, "SELECT note, _topic_id, _partition, _offset FROM orders"
    )


def test_an_upsert_goes_by_all_columns_of_the_key(postgres: RunningPostgres) -> None:
    server = postgres.database()

    with Driver(server, {"a": pa.int32(), "b": pa.string(), "c": pa.int32()}, mode="upsert", key=["b", "a"]) as driver:
        driver.write([(1, "x", 1), (1, "y", 2), (2, "x", 3), (1, "x", 4)])

    assert [(1, "x", 4), (1, "y", 2), (2, "x", 3)] == ask(server, "SELECT a, b, c FROM orders ORDER BY a, b")


def test_an_upsert_uses_a_unique_index_that_is_there_already(postgres: RunningPostgres) -> None:
    server = postgres.database()
    ask(server, "CREATE TABLE orders (id bigint, note text, _topic_id text, _partition int, _offset bigint)")
    ask(server, "CREATE UNIQUE INDEX ON orders (id)")

    with Driver(server, mode="upsert", key=["id"]) as driver:
        driver.write([(1, "a"), (1, "b")])

    assert [(1, "b")] == ask(server, "SELECT id, note FROM orders")


def test_rows_and_position_are_seen_by_others_together_and_only_after_the_commit(postgres: RunningPostgres) -> None:
    server = postgres.database()
    count = "SELECT (SELECT count(*) FROM orders), (SELECT count(*) FROM penstock_positions)"

    with Driver(server) as driver:
        before = driver.positions
        refused = driver.prepare(driver.stage([(1, "a"), (2, "b")]))
        prepared = ask(server, count)
        driver.sink.commit()
        committed = ask(server, count)
        after = driver.positions

    assert ({}, []) == (before, refused)
    assert [(0, 0)] == prepared
    assert [(2, 1)] == committed
    assert {TP: 2} == after


def test_the_next_batch_is_seen_by_others_only_after_its_commit_too(postgres: RunningPostgres) -> None:
    server = postgres.database()
    seen = "SELECT (SELECT count(*) FROM orders), (SELECT next_offset FROM penstock_positions)"

    with Driver(server, mode="upsert", key=["id"]) as driver:
        driver.write([(1, "a"), (2, "b")])
        driver.prepare(driver.stage([(3, "c")], start=2))
        prepared = ask(server, seen)
        driver.sink.commit()
        committed = ask(server, seen)

    assert [(2, 2)] == prepared
    assert [(3, 3)] == committed


@pytest.mark.parametrize("end", ["abandon", "close"])
def test_a_batch_that_is_not_committed_leaves_nothing(postgres: RunningPostgres, end: str) -> None:
    server = postgres.database()

    with Driver(server) as driver:
        driver.prepare(driver.stage([(1, "a")]))
        getattr(driver.sink, end)()

    assert {} == positions_of(server)
    assert [] == ask(server, "SELECT * FROM orders")


def test_an_abandoned_batch_goes_in_when_it_is_prepared_again(postgres: RunningPostgres) -> None:
    server = postgres.database()

    with Driver(server) as driver:
        staged = driver.stage([(1, "a")])
        driver.prepare(staged)
        driver.sink.abandon()
        driver.land(staged)
        found = driver.positions

    assert {TP: 1} == found
    assert [(1,)] == ask(server, "SELECT id FROM orders")


def test_positions_belong_to_one_sink_of_one_pipeline(postgres: RunningPostgres) -> None:
    server = postgres.database()

    with (
        Driver(server) as first,
        Driver(server, name="other-sink") as second,
        Driver(server, pipeline="other-pipeline") as third,
    ):
        first.write([(1, "a")])
        second.write([(2, "b"), (3, "c")])
        found = [each.positions for each in (first, second, third)]

    assert [{TP: 1}, {TP: 2}, {}] == found


def test_positions_can_be_read_before_anything_was_made(postgres: RunningPostgres) -> None:
    found = positions_of(postgres.database())

    assert {} == found


@pytest.mark.parametrize("stale", [{TP: None}, {TP: 0}, {TP: 5}], ids=["new", "behind", "ahead"])
def test_a_driver_that_expects_another_position_is_refused_and_writes_nothing(
    postgres: RunningPostgres, stale: dict[SourcePartition, int | None]
) -> None:
    server = postgres.database()
    with Driver(server) as first:
        first.write([(1, "of the first"), (2, "of the first")])

    with Driver(server) as second:
        staged = second.stage([(1, "of the second")])
        with pytest.raises(PositionsMoved, match="another driver has written to sink 'postgres': orders/0"):
            second.prepare(staged, expected=stale)
        second.sink.abandon()
        found = second.positions

    assert {TP: 2} == found
    assert [(1, "of the first"), (2, "of the first")] == ask(server, "SELECT id, note FROM orders ORDER BY id")


def test_a_driver_that_expects_a_position_where_none_is_is_refused(postgres: RunningPostgres) -> None:
    server = postgres.database()

    with Driver(server) as driver:
        with pytest.raises(PositionsMoved):
            driver.prepare(driver.stage([(1, "a")]), expected={TP: 0})
        driver.sink.abandon()
        found = driver.positions

    assert {} == found
    assert [] == ask(server, "SELECT * FROM orders")


def test_one_stale_partition_keeps_the_whole_batch_out(postgres: RunningPostgres) -> None:
    server = postgres.database()

    with Driver(server) as driver:
        driver.write([(1, "there")], source_partition=OTHER)
        staged = [driver.stage([(2, "a")]), driver.stage([(3, "b")], start=1, source_partition=OTHER)]
        with pytest.raises(PositionsMoved, match="orders/1"):
            driver.prepare(*staged, expected={TP: None, OTHER: 0})
        driver.sink.abandon()
        found = driver.positions

    assert {OTHER: 1} == found
    assert [(1,)] == ask(server, "SELECT id FROM orders")


@pytest.mark.parametrize("known", [False, True], ids=["new place", "known place"])
def test_of_two_drivers_at_once_one_wins_and_the_other_is_told(postgres: RunningPostgres, known: bool) -> None:  # noqa: FBT001
    server = postgres.database()
    outcomes: list[str] = []

    with Driver(server) as first, Driver(server) as second:
        if known:
            second.write([(0, "before")])
        start = int(known)
        expected = {TP: 1 if known else None}
        staged = {each: each.stage([(1, "a"), (2, "b")], start=start) for each in (first, second)}
        together = threading.Barrier(2)

        def race(driver: Driver) -> None:
            together.wait(120)
            try:
                driver.prepare(staged[driver], expected=expected)
                driver.sink.commit()
                outcomes.append("written")
            except PositionsMoved:
                outcomes.append("moved")

        threads = [threading.Thread(target=race, args=[each]) for each in (first, second)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(240)
        first.sink.abandon()
        found = first.positions

    assert ["moved", "written"] == sorted(outcomes)
    assert {TP: start + 2} == found
    assert [(1,), (2,)] == ask(server, "SELECT id FROM orders WHERE id > 0 ORDER BY id")


def test_what_travels_to_the_tasks_holds_no_password_and_works_there(postgres: RunningPostgres) -> None:
    server = postgres.database()

    with Driver(server) as driver:
        luggage = pickle.dumps(driver.sink.stager())
        staged = driver.stage([(1, "a")])
        stager = pickle.loads(luggage)(staged.offset_range)  # noqa: S301 - packed two lines above
        rows = pa.RecordBatch.from_pylist(
            [{"id": 1, "note": "unpacked", "_topic_id": TP.topic_id, "_partition": 0, "_offset": 0}],
            driver.schema,
        )
        refused = stager.write(rows, pa.array([0]))
        driver.land(replace(staged, detail=stager.finish()))

    assert postgres.password.encode() not in luggage
    assert [] == refused
    assert [("unpacked",)] == ask(server, "SELECT note FROM orders")
