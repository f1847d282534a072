import pytest

from penstock.delivery.ledger import Entries, Replay
from penstock.errors import NotFound


def of(pipeline: str, *offset_ranges: tuple[str, str, int, int, int]) -> Replay:
    return Replay(id="0123abcd", pipeline=pipeline, what="range", offset_ranges=list(offset_ranges))


@pytest.mark.parametrize(
    ("other", "expected"),
    [
        (of("p", ("topic", "id", 0, 5, 9)), True),
        (of("p", ("topic", "id", 0, 8, 20)), True),
        (of("p", ("topic", "id", 0, 0, 30)), True),
        (of("p", ("topic", "else", 0, 5, 9), ("topic", "id", 0, 7, 8)), True),
        (of("p", ("topic", "id", 0, 9, 12)), False),
        (of("p", ("topic", "id", 0, 0, 5)), False),
        (of("p", ("topic", "id", 1, 5, 9)), False),
        (of("p", ("topic", "else", 0, 5, 9)), False),
        (of("q", ("topic", "id", 0, 5, 9)), False),
        (Replay(id="0123abcd", pipeline="p"), False),
    ],
)
def test_ranges_overlap_if_they_share_a_record_of_one_pipeline(other: Replay, *, expected: bool) -> None:
    this = of("p", ("topic", "id", 0, 5, 9), ("topic", "third", 2, 0, 1))

    assert (expected, expected) == (this.overlaps(other), other.overlaps(this))


def test_a_replay_that_is_not_there_is_answered_with_those_that_can_be_resumed() -> None:
    waiting = of("orders").model_copy(update={"id": "orders-0a1b2c3d", "what": "letters", "state": "started"})
    with pytest.raises(NotFound, match=r"no replay of dead letters 'nope'.*Unfinished: orders-0a1b2c3d"):
        Entries(settled={}, replays={waiting.id: waiting}).replay_of_letters("nope")
