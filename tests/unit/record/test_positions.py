import random

import pytest

from penstock.errors import PositionsMoved
from penstock.record.positions import OffsetRange, Positions, SourcePartition, from_json, require_unmoved, to_json

ORDERS = SourcePartition("orders", "id-1", 0)
OTHERS = SourcePartition("orders", "id-1", 1)
RECREATED = SourcePartition("orders", "id-2", 0)


def test_a_source_partition_and_an_offset_range_are_shown_as_people_read_them() -> None:
    assert "orders/0" == str(ORDERS)
    assert "orders/0 offsets 5 to 8" == str(OffsetRange(ORDERS, 5, 9))


def test_a_topic_that_was_recreated_is_another_source_partition() -> None:
    assert ORDERS != RECREATED
    assert 2 == len({ORDERS: 1, RECREATED: 2})


@pytest.mark.parametrize(
    "expected",
    [
        {},
        {ORDERS: 5},
        {ORDERS: 5, OTHERS: None},
        {RECREATED: None},
    ],
)
def test_a_sink_that_stands_where_it_was_left_is_written_to(expected: dict[SourcePartition, int | None]) -> None:
    require_unmoved("table", expected, {ORDERS: 5})


@pytest.mark.parametrize(
    ("expected", "found", "shown"),
    [
        pytest.param(5, 6, "is at 6, and this driver expected 5", id="further"),
        pytest.param(5, 4, "is at 4, and this driver expected 5", id="back"),
        pytest.param(None, 0, "is at 0, and this driver expected None", id="there though none was"),
        pytest.param(0, None, "is at None, and this driver expected 0", id="gone"),
    ],
)
def test_a_sink_that_moved_is_not_written_to(expected: int | None, found: int | None, shown: str) -> None:
    with pytest.raises(PositionsMoved) as caught:
        require_unmoved("table", {OTHERS: None, ORDERS: expected}, {} if found is None else {ORDERS: found})

    assert f"another driver has written to sink 'table': orders/0 {shown}" == caught.value.what
    assert "Nothing of this batch was written to it" == caught.value.safe


def test_positions_are_read_back_as_they_were_written() -> None:
    dice = random.Random(7)
    positions: Positions = {
        SourcePartition(f"topic {dice.choice('äb.')}", f"id-{dice.randrange(3)}", dice.randrange(99)): dice.randrange(
            2**62
        )
        for _ in range(100)
    }

    assert positions == from_json(to_json(positions))


def test_positions_are_written_in_one_order_whatever_order_they_came_in() -> None:
    assert to_json({RECREATED: 1, OTHERS: 2, ORDERS: 3}) == to_json({ORDERS: 3, OTHERS: 2, RECREATED: 1})
