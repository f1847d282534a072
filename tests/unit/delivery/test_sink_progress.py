import random
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from penstock.delivery import sink_progress
from penstock.delivery.checkpoint import Checkpoint, Committed
from penstock.delivery.sink_progress import SinkProgress
from penstock.errors import CheckpointLost, Discontinuity, LogTruncated, PositionLost, RetentionPassed, TopicRecreated
from penstock.record.available_range import AvailableRange
from penstock.record.positions import OffsetRange, Positions, SourcePartition

A, B, C = (SourcePartition("orders", "id-1", number) for number in range(3))
RECREATED = SourcePartition("orders", "id-2", 0)


@dataclass
class Kept:
    """A sink that keeps positions in memory."""

    kept: Positions = field(default_factory=dict)
    positions_expire: bool = False

    def hold(self, positions: Positions) -> None:
        """Forget nothing anyway."""

    def refresh(self) -> None:
        """Forget nothing anyway."""

    def beyond(self, _positions: Positions) -> Positions:
        return {}

    def positions(self, source_partitions: Iterable[SourcePartition]) -> Positions | None:
        return {
            source_partition: self.kept[source_partition]
            for source_partition in source_partitions
            if source_partition in self.kept
        }


class Forgetful:
    """A sink that keeps no positions."""

    positions_expire = False

    def hold(self, positions: Positions) -> None:
        """Have nothing to hold."""

    def refresh(self) -> None:
        """Have nothing to write."""

    def beyond(self, _positions: Positions) -> Positions:
        return {}

    def positions(self, _source_partitions: Iterable[SourcePartition]) -> Positions | None:
        return None


@pytest.fixture
def checkpoint(tmp_path: Path) -> Checkpoint:
    return Checkpoint(tmp_path / "checkpoint", "combat")


def at(**positions: int) -> SinkProgress:
    """Make a standing of one sink."""
    known = {"a": A, "b": B, "c": C}
    source_partitions = {known[name]: offset for name, offset in positions.items()}
    return SinkProgress({"sink": dict(source_partitions)}, {"sink": source_partitions})


def test_a_pipeline_that_has_never_run_gets_a_checkpoint(checkpoint: Checkpoint) -> None:
    actual = sink_progress.begin(
        checkpoint, {"one": Kept(), "two": Forgetful()}, [AvailableRange(A, 3, 9)], Committed(0, {A: 3}), {}
    )

    assert Committed(0, {A: 3}) == actual == checkpoint.load()


def test_where_it_began_is_fixed_even_if_nothing_was_read_yet(checkpoint: Checkpoint) -> None:
    sink_progress.begin(checkpoint, {}, [AvailableRange(A, 3, 9)], Committed(0, {A: 9}), {})

    assert {A: 9} == sink_progress.begin(checkpoint, {}, [AvailableRange(A, 5, 20)], Committed(0, {A: 20}), {}).starts


def test_a_checkpoint_that_is_there_is_used_whatever_the_sinks_say(checkpoint: Checkpoint) -> None:
    checkpoint.create(Committed(7, {A: 0}, {"one": {A: 5}}))

    assert (
        7
        == sink_progress.begin(
            checkpoint, {"one": Kept({A: 6})}, [AvailableRange(A, 0, 9)], Committed(0, {A: 0}), {A: 5}
        ).batch
    )


def test_a_sink_that_has_positions_shows_that_a_checkpoint_was_lost(checkpoint: Checkpoint) -> None:
    with pytest.raises(CheckpointLost, match="sink 'one' has positions"):
        sink_progress.begin(
            checkpoint, {"zero": Kept(), "one": Kept({A: 0})}, [AvailableRange(A, 0, 9)], Committed(0, {A: 0}), {}
        )

    assert not checkpoint.exists


def test_a_reported_lag_shows_that_a_checkpoint_was_lost(checkpoint: Checkpoint) -> None:
    with pytest.raises(CheckpointLost, match="its lag has been reported before"):
        sink_progress.begin(checkpoint, {"one": Forgetful()}, [AvailableRange(A, 0, 9)], Committed(0, {A: 0}), {A: 5})

    assert not checkpoint.exists


def test_a_damaged_checkpoint_is_not_begun_again(checkpoint: Checkpoint) -> None:
    checkpoint.create(Committed(0, {A: 0}))
    (checkpoint.folder / "committed.json").write_bytes(b"")

    with pytest.raises(CheckpointLost):
        sink_progress.begin(checkpoint, {}, [AvailableRange(A, 0, 9)], Committed(0, {A: 0}), {})


def test_a_crash_while_the_first_checkpoint_was_made_is_no_loss(checkpoint: Checkpoint) -> None:
    checkpoint.create(Committed(0, {A: 0}))
    (checkpoint.folder / "metadata.json").unlink()

    assert Committed(0, {A: 0}) == sink_progress.begin(
        checkpoint, {"one": Kept()}, [AvailableRange(A, 0, 9)], Committed(0, {A: 0}), {}
    )


def test_a_sink_that_has_never_written_begins_where_the_pipeline_does() -> None:
    actual = sink_progress.read("p", {"one": Kept(), "two": Forgetful()}, Committed(0, {A: 3, B: 4}), [A, B])

    assert {"one": {A: None, B: None}, "two": {A: None, B: None}} == actual.expected
    assert {"one": {A: 3, B: 4}, "two": {A: 3, B: 4}} == actual.resume_offsets


def test_a_sink_that_is_ahead_of_the_checkpoint_is_believed() -> None:
    actual = sink_progress.read("p", {"one": Kept({A: 9})}, Committed(1, {A: 0}, {"one": {A: 5}}), [A])

    assert ({"one": {A: 9}}, {"one": {A: 9}}) == (actual.expected, actual.resume_offsets)


def test_a_sink_that_was_set_back_is_believed_too_and_filled_from_there() -> None:
    actual = sink_progress.read("p", {"one": Kept({A: 2})}, Committed(1, {A: 0}, {"one": {A: 5}}), [A])

    assert 2 == actual.start(A)


def test_a_sink_that_keeps_nothing_stands_where_the_checkpoint_says() -> None:
    actual = sink_progress.read("p", {"one": Forgetful()}, Committed(1, {A: 0, B: 0}, {"one": {A: 5}}), [A, B])

    assert {"one": {A: 5, B: None}} == actual.expected
    assert {"one": {A: 5, B: 0}} == actual.resume_offsets


def test_a_sink_that_lost_its_position_stops_the_pipeline() -> None:
    with pytest.raises(PositionLost) as caught:
        sink_progress.read("combat", {"one": Kept({B: 7})}, Committed(1, {A: 0, B: 0}, {"one": {A: 5, B: 7}}), [A, B])

    assert "sink 'one' had everything of orders/0 before offset 5" in caught.value.what
    assert "penstock pipeline rebuild combat" in caught.value.fix


def test_a_sink_that_writes_elsewhere_now_as_after_a_move_of_its_file_is_answered_with_both_places() -> None:
    committed = Committed(1, {A: 0}, {"one": {A: 5}}, targets={"one": "folder /shop/tables/orders"})
    now = {"one": "folder /shop/moved/tables/orders"}

    with pytest.raises(PositionLost) as caught:
        sink_progress.read("combat", {"one": Kept()}, committed, [A], targets=now)

    assert (
        "sink 'one' has written to folder /shop/tables/orders until now, and is to write to folder"
        " /shop/moved/tables/orders, which has none of it"
    ) == caught.value.what
    assert caught.value.fix.startswith("Name the former one again: a relative path counts from the folder of the")
    assert "penstock pipeline rebuild combat" in caught.value.fix


def test_a_partition_that_is_no_longer_read_is_not_missed() -> None:
    actual = sink_progress.read("p", {"one": Kept({B: 7})}, Committed(1, {A: 0, B: 0}, {"one": {A: 5, B: 7}}), [B])

    assert {"one": {B: 7}} == actual.resume_offsets


def test_a_sink_that_came_later_begins_where_the_slowest_of_the_others_stands() -> None:
    committed = Committed(3, {A: 0}, {"one": {A: 5}, "two": {A: 4}})

    actual = sink_progress.read("p", {"one": Kept({A: 5}), "two": Kept({A: 4}), "new": Kept()}, committed, [A])

    assert {A: None} == actual.expected["new"]
    assert {A: 4} == actual.resume_offsets["new"]


def test_a_sink_that_came_later_does_not_begin_where_one_stands_that_was_taken_out_before() -> None:
    positions = {"gone": {A: 5}, "one": {A: 40}, "two": {A: 42}}
    committed = Committed(3, {A: 0}, positions, begins={"idle": {A: 39}}, ran=("one", "two"))

    assert [40, 5] == [committed.reached("three", A), committed.reached("gone", A)]
    assert 39 == replace(committed, ran=("one", "two", "idle")).reached("three", A)


def test_a_sink_that_did_not_get_to_commit_in_the_first_batch_still_begins_at_the_start() -> None:
    actual = sink_progress.read("p", {"one": Kept({A: 5}), "two": Kept()}, Committed(0, {A: 0}), [A])

    assert ({A: 5}, {A: 0}) == (actual.resume_offsets["one"], actual.resume_offsets["two"])


def test_reading_begins_where_the_slowest_sink_stands() -> None:
    actual = sink_progress.read("p", {"one": Kept({A: 9}), "two": Kept({A: 4})}, Committed(0, {A: 0}), [A])

    assert 4 == actual.start(A)


def test_a_partition_that_appeared_is_read_from_offset_0_so_that_what_retention_took_of_it_is_a_gap() -> None:
    actual = sink_progress.with_new_partitions(
        Committed(3, {A: 7}, {"one": {A: 9}}), [AvailableRange(A, 0, 20), AvailableRange(B, 2, 5)]
    )

    assert Committed(3, {A: 7, B: 0}, {"one": {A: 9}}) == actual


def test_a_topic_that_appeared_is_read_from_what_it_holds() -> None:
    other = SourcePartition("others", "id-9", 0)

    actual = sink_progress.with_new_partitions(
        Committed(3, {A: 7}), [AvailableRange(A, 0, 20), AvailableRange(other, 2, 5)]
    )

    assert {A: 7, other: 2} == actual.starts


def test_the_same_topics_are_fine_and_so_are_new_and_missing_ones() -> None:
    sink_progress.require_same_topics("p", Committed(0, {A: 0}), {"orders": "id-1", "other": "id-9"})
    sink_progress.require_same_topics("p", Committed(0, {A: 0}), {})


def test_a_topic_that_was_made_again_stops_the_pipeline() -> None:
    with pytest.raises(TopicRecreated) as caught:
        sink_progress.require_same_topics("combat", Committed(0, {A: 0}), {"orders": "id-2"})

    expected = "topic 'orders' was deleted and recreated (its id was id-1, and is id-2)"
    assert expected == caught.value.what
    assert "penstock pipeline skip-gap combat" in caught.value.fix


@pytest.mark.parametrize("first", [0, 4, 5])
def test_what_is_still_there_is_readable(first: int) -> None:
    sink_progress.require_readable("p", at(a=5), [AvailableRange(A, first, 9)])


def test_records_that_were_deleted_before_they_were_read_stop_the_pipeline() -> None:
    with pytest.raises(RetentionPassed) as caught:
        sink_progress.require_readable(
            "combat", at(a=5, b=0, c=3), [AvailableRange(A, 8, 9), AvailableRange(B, 0, 9), AvailableRange(C, 4, 4)]
        )

    expected = "records were deleted before pipeline 'combat' read them: orders/0 offsets 5 to 7, orders/2 offset 3"
    assert expected == caught.value.what


def test_what_the_slowest_sink_misses_is_missing() -> None:
    progress = SinkProgress({}, {"one": {A: 9}, "two": {A: 4}})

    assert [OffsetRange(A, 4, 6)] == sink_progress.missing(progress, [AvailableRange(A, 6, 9)])


def test_a_position_past_the_end_of_the_source_stops_the_pipeline_for_new_records_would_be_skipped() -> None:
    with pytest.raises(Discontinuity):
        sink_progress.require_readable("combat", at(a=50), [AvailableRange(A, 0, 20)])


def test_a_position_among_records_of_an_open_transaction_is_not_past_the_end() -> None:
    sink_progress.require_readable("combat", at(a=50), [AvailableRange(A, 0, 20)], lambda _: 50)
    with pytest.raises(Discontinuity):
        sink_progress.require_readable("combat", at(a=50), [AvailableRange(A, 0, 20)], lambda _: 49)


def test_a_batch_that_holds_everything_takes_everything() -> None:
    actual = sink_progress.plan(at(a=5, b=0), [AvailableRange(A, 0, 9), AvailableRange(B, 0, 3)], 100)

    assert [OffsetRange(A, 5, 9), OffsetRange(B, 0, 3)] == actual


def test_nothing_to_read_is_no_batch() -> None:
    assert [] == sink_progress.plan(at(a=9, b=3), [AvailableRange(A, 0, 9), AvailableRange(B, 3, 3)], 100)


def test_a_partition_with_little_gives_its_share_to_the_others() -> None:
    available = [AvailableRange(A, 0, 1000), AvailableRange(B, 0, 10), AvailableRange(C, 0, 1000)]

    actual = sink_progress.plan(at(a=0, b=0, c=0), available, 100)

    assert [45, 10, 45] == [each.end - each.start for each in actual]


def test_fewer_events_than_partitions_still_make_a_batch() -> None:
    actual = sink_progress.plan(at(a=0, b=0, c=0), [AvailableRange(each, 0, 9) for each in (A, B, C)], 2)

    assert 2 == sum(each.end - each.start for each in actual)


def test_a_partition_is_not_starved_by_those_before_it() -> None:
    progress, got = at(a=0, b=0, c=0), set()
    for _ in range(3):
        offset_ranges = sink_progress.plan(progress, [AvailableRange(each, 0, 10**6) for each in (A, B, C)], 1)
        got |= {each.source_partition for each in offset_ranges}
        moved = {each.source_partition: each.end for each in offset_ranges}
        progress = SinkProgress({}, {"sink": {**progress.resume_offsets["sink"], **moved}})

    assert {A, B, C} == got


@pytest.mark.parametrize("seed", range(50))
def test_shares_are_fair_and_never_exceed_the_batch(seed: int) -> None:
    dice = random.Random(seed)
    source_partitions = [SourcePartition("t", "id", number) for number in range(dice.randrange(1, 20))]
    starts = {source_partition: dice.randrange(1000) for source_partition in source_partitions}
    available = [
        AvailableRange(source_partition, 0, starts[source_partition] + dice.choice([-5, 0, 1, dice.randrange(10_000)]))
        for source_partition in source_partitions
    ]
    most = dice.choice([1, 2, 7, 1000, 10**7])

    actual = sink_progress.plan(SinkProgress({}, {"sink": starts}), available, most)

    waiting = {each.source_partition: max(0, each.end - starts[each.source_partition]) for each in available}
    shares = {each.source_partition: each.end - each.start for each in actual}
    assert min(most, sum(waiting.values())) == sum(shares.values())
    assert {each.source_partition: starts[each.source_partition] for each in actual} == {
        each.source_partition: each.start for each in actual
    }
    assert [] == [
        source_partition for source_partition, share in shares.items() if not 0 < share <= waiting[source_partition]
    ]
    left_hungry = [
        shares.get(source_partition, 0)
        for source_partition in source_partitions
        if shares.get(source_partition, 0) < waiting[source_partition]
    ]
    assert max(shares.values(), default=0) <= min(left_hungry, default=10**9) + 1


def test_a_position_that_kafka_forgot_is_taken_from_the_checkpoint_where_no_batch_was_left_unfinished() -> None:
    committed = Committed(3, {A: 0, B: 0}, {"kafka": {A: 70, B: 7}})
    stores = {"kafka": Kept({B: 8}, positions_expire=True)}

    progress = sink_progress.read("p", stores, committed, [A, B], settled={A})

    assert {"kafka": {A: None, B: 8}} == progress.expected
    assert {"kafka": {A: 70, B: 8}} == progress.resume_offsets == progress.held
    assert ["kafka"] == progress.forgotten()
    with pytest.raises(PositionLost):
        sink_progress.read("p", stores, committed, [A, B], settled={B})


def test_a_sink_that_has_never_written_somewhere_has_nothing_to_hold_there() -> None:
    progress = sink_progress.read(
        "p", {"kafka": Kept({B: 8}, positions_expire=True)}, Committed(0, {A: 0, B: 0}), [A, B]
    )

    assert {"kafka": {B: 8}} == progress.held
    assert [] == progress.forgotten()


@pytest.mark.parametrize(
    ("known", "now", "changed"),
    [
        pytest.param({A: 3}, 3, {}, id="the same leader"),
        pytest.param({A: 3}, 5, {A: (9, 3)}, id="another leader"),
        pytest.param({A: 3}, 2, {A: (9, 3)}, id="an older count of leaders"),
        pytest.param({}, 5, {}, id="the first look"),
        pytest.param({A: 3}, None, {}, id="a broker that knows no epochs"),
    ],
)
def test_where_the_leader_has_changed_what_was_read_is_to_be_compared(
    known: dict[SourcePartition, int], now: int | None, changed: dict[SourcePartition, tuple[int, int]]
) -> None:
    committed = Committed(3, {A: 0, B: 0}, {"one": {A: 5}, "two": {A: 9}}, known)

    after, found = sink_progress.with_new_leaders(
        committed, [AvailableRange(A, 0, 20, now), AvailableRange(B, 0, 4, 8)]
    )

    assert changed == found
    assert Committed(3, committed.starts, committed.sinks, {**known, **({A: now} if now else {}), B: 8}) == after


def test_a_log_with_other_records_before_the_position_stops_the_pipeline_and_names_the_way_on() -> None:
    with pytest.raises(LogTruncated, match=r"from offset 4 on, orders/0 .*up to 9.*skip-gap combat"):
        sink_progress.require_not_replaced("combat", [OffsetRange(A, 4, 9)])
    sink_progress.require_not_replaced("combat", [])
