"""Several writers of one Delta table: positions decide who gets through."""

from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake

from penstock.errors import PositionsMoved, SinkUnavailable
from penstock.record.positions import OffsetRange, Positions, SourcePartition
from penstock.sinks.delta import Delta, DeltaSink

from support.delta_driver import SCHEMA, A, B, commit, ids, opened, staged, version


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "tables" / "orders"


def test_of_two_drivers_that_race_the_second_is_refused_and_writes_nothing(path: Path) -> None:
    one, other = opened(path), opened(path)
    one.prepare([staged(one, OffsetRange(A, 0, 3), 1, 2)], {A: None})
    other.prepare(
        [staged(other, OffsetRange(A, 0, 5), 1, 2, 4), staged(other, OffsetRange(B, 0, 2), 1)], {A: None, B: None}
    )

    one.commit()
    with pytest.raises(PositionsMoved, match="orders/0 is at 3, and this driver expected None"):
        other.commit()

    assert ([1, 2], {A: 3}, 1) == (ids(path), other.positions([A, B]), version(path))


def test_a_commit_that_is_repeated_is_refused(path: Path) -> None:
    sink = opened(path)
    commit(sink, {A: None}, staged(sink, OffsetRange(A, 0, 3), 1))

    with pytest.raises(PositionsMoved):
        sink.commit()

    assert [1] == ids(path)


def test_of_many_drivers_at_once_one_gets_through(path: Path) -> None:
    sinks = [opened(path) for _ in range(6)]
    for number, sink in enumerate(sinks):
        sink.prepare([staged(sink, OffsetRange(A, 0, 3 + number), number)], {A: None})

    def attempt(sink: DeltaSink) -> bool:
        try:
            sink.commit()
        except PositionsMoved:
            return False
        return True

    with ThreadPoolExecutor(6) as threads:
        through = list(threads.map(attempt, sinks))

    assert 1 == through.count(True)
    assert [through.index(True)] == ids(path)


class Interrupted(DeltaSink):
    """A sink to whose table somebody without the lock writes right after the positions were compared."""

    times = 0
    rival: int | None = None

    def positions(self, source_partitions: Iterable[SourcePartition]) -> Positions | None:
        found = super().positions(source_partitions)
        if self.times:
            self.times -= 1
            write_deltalake(str(self.path), pa.table({"id": [-1], "text": ["other"]}, SCHEMA), mode="append")
        if self.rival is not None:
            moves = [Transaction(self._app(A), self.rival, 0)]
            self.rival = None
            table = DeltaTable(str(self.path))
            table.create_write_transaction(
                [], "append", table.schema(), commit_properties=CommitProperties(app_transactions=moves)
            )
        return found


def interrupted(path: Path) -> Interrupted:
    sink = Interrupted(Delta(path=path), "delta", "combat")
    sink.open(SCHEMA)
    sink.prepare([staged(sink, OffsetRange(A, 0, 3), 1, 2)], {A: None})
    return sink


@pytest.mark.parametrize("times", [1, 3])
def test_a_writer_that_was_faster_is_waited_for_and_positions_are_compared_again(path: Path, times: int) -> None:
    sink = interrupted(path)
    sink.times = times

    sink.commit()

    assert ([-1] * times + [1, 2], {A: 3}) == (ids(path), sink.positions([A]))


def test_a_driver_that_was_faster_without_the_lock_is_noticed_too(path: Path) -> None:
    sink = interrupted(path)
    sink.rival = 3

    with pytest.raises(PositionsMoved):
        sink.commit()

    assert [] == ids(path)


def test_a_table_that_never_stands_still_is_an_outage_and_no_row_is_doubled(path: Path) -> None:
    sink = interrupted(path)
    sink.times = 1000

    with pytest.raises(SinkUnavailable):
        sink.commit()

    assert {-1} == set(ids(path))


def test_pipelines_and_sinks_that_share_a_table_keep_positions_of_their_own(path: Path) -> None:
    one, two, three = opened(path), opened(path, name="again"), opened(path, pipeline="other")

    commit(one, {A: None}, staged(one, OffsetRange(A, 0, 3), 1))
    commit(two, {A: None}, staged(two, OffsetRange(A, 0, 5), 2))

    assert [{A: 3}, {A: 5}, {}] == [each.positions([A]) for each in (one, two, three)]
