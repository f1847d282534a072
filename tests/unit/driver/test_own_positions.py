"""A driver tells its own moves of a sink from those of another driver."""

import pytest

from penstock.delivery.sink_progress import SinkProgress
from penstock.driver.own_positions import OwnPositions
from penstock.errors import PositionsMoved
from penstock.record.positions import OffsetRange, SourcePartition
from penstock.sinks.console import Console, ConsoleSink
from penstock.sinks.sink import Sink

PARTITION = SourcePartition("orders", "id", 0)


def store(*, expires: bool = False) -> Sink:
    sink = ConsoleSink(Console(), "table")
    sink.positions_expire = expires
    return sink


def progress(at: int | None) -> SinkProgress:
    return SinkProgress({"table": {PARTITION: at}}, {"table": {PARTITION: at or 0}})


@pytest.fixture
def own() -> OwnPositions:
    """Return what a driver knows that has left its sink at offset 10."""
    known = OwnPositions()
    known.left_at({"table": {PARTITION: 10}})
    return known


def test_a_sink_where_it_was_left_is_nobody_elses(own: OwnPositions) -> None:
    own.require_alone(progress(10), {"table": store()})


@pytest.mark.parametrize("found", [9, 11, None])
def test_a_sink_that_has_moved_was_moved_by_another_driver(own: OwnPositions, found: int | None) -> None:
    with pytest.raises(PositionsMoved, match="this driver expected 10"):
        own.require_alone(progress(found), {"table": store()})


@pytest.mark.parametrize("found", [15, 20])
def test_a_batch_that_failed_may_have_moved_it_up_to_its_own_end(own: OwnPositions, found: int) -> None:
    own.trying([OffsetRange(PARTITION, 10, 20)])

    own.require_alone(progress(found), {"table": store()})


@pytest.mark.parametrize("found", [9, 21])
def test_a_batch_that_failed_moves_it_neither_back_nor_beyond_its_end(own: OwnPositions, found: int) -> None:
    own.trying([OffsetRange(PARTITION, 10, 20)])

    with pytest.raises(PositionsMoved):
        own.require_alone(progress(found), {"table": store()})


def test_a_position_that_kafka_may_forget_and_that_is_gone_was_not_moved(own: OwnPositions) -> None:
    own.require_alone(progress(None), {"table": store(expires=True)})


def test_a_driver_that_has_looked_again_takes_what_it_finds(own: OwnPositions) -> None:
    own.forget()

    own.require_alone(progress(99), {"table": store()})
