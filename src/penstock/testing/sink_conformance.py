"""The contract of sinks as checks for pytest: subclass `SinkConformance` to test a sink.

    class TestMySink(SinkConformance):
        @pytest.fixture(autouse=True)
        def _target(self, tmp_path: Path) -> None:
            self.folder = tmp_path
            self.model = MySink(path=tmp_path / "target")
            self.read = lambda: read_my_rows(tmp_path / "target")

The checks do what tasks and driver do, in the same order, without Spark and without a broker. A driver that dies is a
process that is killed: between any two calls, and at lines of the sink's own code while it commits. After each kill
another driver opens the sink and continues from its positions; every row must be there once.
"""

from contextlib import closing
from dataclasses import replace

from penstock.delivery.ledger import range_source_id
from penstock.errors import PositionsMoved, Transient
from penstock.record.positions import OffsetRange, SourcePartition
from penstock.sinks.sink import Staged
from penstock.testing.sink_driving import Landed, SinkDriving, require, row, shown
from penstock.testing.sink_processes import killed_driver, staged_elsewhere

__all__ = ["Landed", "SinkConformance"]


class SinkConformance(SinkDriving):
    """The checks."""

    def test_a_sink_that_was_never_written_to_has_no_position_and_no_rows(self) -> None:
        """Open: the target is created, and empty."""
        self.require_positions(0, 0)
        self.require_landed(0, 0)

    def test_every_row_of_a_batch_is_there_once_and_the_positions_are_behind_it(self) -> None:
        """Stage and commit: several partitions, several chunks, batch after batch, driver after driver."""
        with self.driver() as sink:
            for ends in [(10, 4), (11, 4), (20, 20)]:
                self.commit(sink, self.prepare(sink, *ends))
        self.require_landed(20, 20)
        self.require_positions(20, 20)
        self.land(25, 31)
        self.require_landed(25, 31)
        self.require_positions(25, 31)

    def test_nothing_is_to_be_seen_before_the_commit(self) -> None:
        """Staged and prepared rows are invisible; an abandoned batch leaves nothing, and runs again."""
        with self.driver() as sink:
            self.prepare(sink, 10, 4)
            self.require_landed(0, 0)
            sink.abandon()
            self.require_landed(0, 0)
            self.commit(sink, self.prepare(sink, 10, 4))
        self.require_landed(10, 4)

    def test_what_a_lost_attempt_of_a_task_has_staged_does_not_count(self) -> None:
        """A task may run twice; the driver hears of one attempt."""
        offset_range = OffsetRange(self.source_partitions[0], 0, 10)
        with self.driver() as sink:
            sink.positions(self.source_partitions)
            self.stage(sink, offset_range)
            sink.prepare([self.stage(sink, offset_range)], {offset_range.source_partition: None})
            self.commit(sink, {offset_range.source_partition: 10})
        self.require_landed(10)
        self.land(15)
        self.require_landed(15)

    def test_offsets_without_rows_move_the_position_alone(self) -> None:
        """All records of a range may be dead letters, or left out."""
        source_partition = self.source_partitions[0]
        with self.driver() as sink:
            sink.positions(self.source_partitions)
            sink.prepare([Staged(OffsetRange(source_partition, 0, 10), 0, {})], {source_partition: None})
            sink.commit()
        self.require_landed(0)
        self.require_positions(10)

    def test_a_second_driver_keeps_the_first_from_writing_what_is_there(self) -> None:
        """Two drivers of a pipeline have read the same positions: once the newer one commits, the older one must not.

        The older one may have prepared its batch before.
        """
        if not self.is_exactly_once:
            return
        for number, is_prepared in enumerate((False, True)):
            before, ends = (10 * number, 4 * number), (10 * number + 10, 4 * number + 4)
            expected = {each: start or None for each, start in zip(self.source_partitions, before, strict=True)}
            with self.driver() as older:
                older.hold(older.positions(self.source_partitions) or {})
                staged = [
                    self.stage(older, OffsetRange(each, start, end))
                    for each, start, end in zip(self.source_partitions, before, ends, strict=True)
                ]
                try:
                    if is_prepared:
                        older.prepare(staged, expected)
                    is_kept_out = self._is_kept_out(is_prepared, *ends)
                    if not is_prepared:
                        older.prepare(staged, expected)
                    older.commit()
                except PositionsMoved:
                    pass
                else:
                    require(is_kept_out, "a driver has committed a batch that another one had committed before")
            self.require_landed(*ends)
            self.require_positions(*ends)

    def _is_kept_out(self, is_prepared: bool, *ends: int) -> bool:  # noqa: FBT001 - our own
        """Let a newer driver land, unless the target is held for the batch that an older one has prepared."""
        try:
            self.land(*ends)
        except Transient:
            if not is_prepared:
                raise
            return True
        return False

    def test_positions_are_those_of_one_topic_one_pipeline_and_one_sink(self) -> None:
        """A topic that was recreated starts over, and so do other pipelines and sinks at the same target."""
        if not self.is_exactly_once:
            return
        self.land(10, 4)
        newer = [SourcePartition(each.topic, f"{each.topic_id}-2", each.partition) for each in self.source_partitions]
        with self.driver() as sink:
            found = sink.positions(newer)
            require(not found, f"a topic with another id is at {shown(found)}")
        target = self.model.target()
        if target is not None and not target.is_shared:
            return
        others = {
            "pipeline": replace(self.context, pipeline=f"{self.pipeline}-2"),
            "sink": replace(self.context, name="conformance-2"),
        }
        for what, context in others.items():
            with closing(self.model.open(context)) as sink:
                sink.reach()
                sink.open(self.schema)
                found = sink.positions(self.source_partitions)
                require(not found, f"another {what} is at {shown(found)}")

    def test_rows_are_there_although_the_process_that_staged_them_is_gone(self) -> None:
        """Tasks run in other processes than the driver."""
        partition = self.source_partitions[0]
        with self.driver() as sink:
            sink.positions(self.source_partitions)
            sink.prepare([staged_elsewhere(self, sink, OffsetRange(partition, 0, 10))], {partition: None})
            self.commit(sink, {partition: 10})
        self.require_landed(10)

    def test_rows_of_a_range_take_the_place_of_those_that_its_records_gave_before(self) -> None:
        """Replace: other rows stay, also those of records around the range."""
        if not (self.model.can_replace and self.model.reserved_columns):
            return
        self.land(10, 4)
        live, other = self.source_partitions
        own = SourcePartition(live.topic, range_source_id("0000cafe", live.topic_id), live.partition)
        with closing(self.model.open(replace(self.context, replay_suffix=".replay-0000cafe"))) as sink:
            sink.reach()
            sink.replace({own: [OffsetRange(live, 2, 7)]})
            sink.open(self.schema)
            sink.take_over()
            sink.positions([own])
            sink.prepare([self.stage(sink, OffsetRange(own, 2, 7), of=live, mark=" again", without=4)], {own: None})
            sink.commit()
        kept = {*(row(live, offset) for offset in (0, 1, 7, 8, 9)), *(row(other, offset) for offset in range(4))}
        self.require_rows(kept | {row(live, offset, " again") for offset in (2, 3, 5, 6)})
        self.require_positions(10, 4)

    def test_a_dropped_target_is_filled_again(self) -> None:
        """Positions vanish together with their rows."""
        if self.drop is None or not self.is_exactly_once:
            return
        self.land(10, 4)
        self.drop()
        self.require_positions(0, 0)
        self.land(12, 5)
        self.require_landed(12, 5)
        self.require_positions(12, 5)

    def test_a_row_that_it_cannot_hold_is_refused_alone(self) -> None:
        """Refusal: by its index in the chunk while it is staged, or by its offset in `prepare`; or it takes the row."""
        source_partition, broken = self.source_partitions[0], 2
        offset_range = OffsetRange(source_partition, 0, 5)
        with self.driver() as sink:
            sink.positions(self.source_partitions)
            refused = sink.prepare([self.stage(sink, offset_range, broken=broken)], {source_partition: None})
            at_fault = {(each.source_partition, each.offset) for each in refused}
            require(
                at_fault <= {(source_partition, broken)},
                f"other rows were refused than the one that is at fault: {refused}",
            )
            if refused:
                sink.abandon()
                sink.positions(self.source_partitions)
                staged = self.stage(sink, offset_range, without=broken)
                require(not sink.prepare([staged], {source_partition: None}), "a row was refused that was none before")
            sink.commit()
        found = {row.offset for row in self.read()}
        require(found | {broken} == {0, 1, 2, 3, 4}, f"of five rows, one of them refused, these are there: {found}")
        self.require_positions(5)

    def test_a_driver_that_is_killed_at_any_point_loses_and_doubles_nothing(self) -> None:
        """Killed between any two calls, and at lines of the commit: the next driver goes on from the positions.

        At every line if `kills_in_commit` allows, otherwise at some from the first to the last.
        """
        if not self.kills_in_commit:
            return
        end = 2
        lines = killed_driver(self, "never", end)
        self.checkpoint.update(dict.fromkeys(self.source_partitions, end))
        self._require_recovered(end)
        kills = min(lines, self.kills_in_commit)
        wanted = {1 + (lines - 1) * number // max(kills - 1, 1) for number in range(kills)}
        points: list[str | int] = ["opened", "staged", "prepared", *sorted(wanted), "committed"]
        for point in points:
            killed_driver(self, point, end := end + 2)
            self._require_recovered(end)

    def _require_recovered(self, end: int) -> None:
        with self.driver() as sink:
            self.commit(sink, self.prepare(sink, end, end))
            self.require_standing(sink, end, end)
        self.require_landed(end, end, at_least=not self.is_exactly_once)
