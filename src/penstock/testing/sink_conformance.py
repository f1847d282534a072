"""What every sink promises, as checks that the author of one runs with pytest: subclass `SinkConformance`.

    class TestMySink(SinkConformance):
        @pytest.fixture(autouse=True)
        def _target(self, tmp_path: Path) -> None:
            self.folder = tmp_path
            self.model = MySink(path=tmp_path / "target")
            self.read = lambda: read_my_rows(tmp_path / "target")

The checks do what tasks and driver do, in the same order, without Spark and without a broker. A driver that dies is a
process that is killed: between any two calls, and at lines of the sink's own code while it commits. After each kill
another one opens the sink, goes on from its positions, and every row must be there once.
"""

import multiprocessing
import os
import pickle
import signal
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

import pyarrow as pa

from penstock.errors import PositionsMoved
from penstock.kafka.connection import Connection
from penstock.record.columns import RESERVED
from penstock.record.positions import OffsetRange, Positions, SourcePartition
from penstock.sinks.sink import Sink, SinkContext, SinkModel, Staged

FIRST, SECOND = SourcePartition("conformance", "id-1", 0), SourcePartition("conformance", "id-1", 1)
_CHUNK_ROWS = 3
_IMPORTED_LATE = ("deltalake", "psycopg", "pytest")
_NO_TEXT = b"no UTF-8: \xff"


class Landed(NamedTuple):
    """A row that a reader of the target sees."""

    partition: int
    offset: int
    id: int


class SinkConformance:
    """The checks. Before each of them say what is tried; what is written to must be empty then."""

    model: SinkModel
    """The sink as it stands in a pipeline file. It goes to other processes, too, so it can be pickled."""
    folder: Path
    """An empty folder: what tasks stage goes there, unless the sink has a place of its own."""
    read: Callable[[], Iterable[Landed]]
    """Reads all rows that a reader of the target sees now; a reader that knows nothing of positions."""
    pipeline: str = "conformance"
    """The pipeline's name, which positions carry: another one for each check, where they outlive the target."""
    connection: Connection = Connection(bootstrap_servers="127.0.0.1:1")
    """The Kafka that the sink may use."""
    source_partitions: tuple[SourcePartition, SourcePartition] = (FIRST, SECOND)
    """Where the rows come from; partitions of a topic that there is, if the sink's positions are in Kafka."""
    kills_in_commit: int = 4
    """At how many lines of its commit a driver is killed; 0 if no other process can open the sink."""

    drop: Callable[[], object] | None = None
    """Drops the target as a user would, who knows nothing of positions; None if that cannot be done."""

    # What tasks and driver do.

    @property
    def schema(self) -> pa.Schema:
        """The columns that the sink gets: two of the user's, then those that it asks for."""
        reserved = (RESERVED.field(name) for name in self.model.reserved_columns)
        return pa.schema([("id", pa.int64()), ("text", pa.string()), *reserved])

    @property
    def context(self) -> SinkContext:
        """What the sink is opened with."""
        return SinkContext("conformance", self.pipeline, self.connection, self.folder, self.spark)

    def spark(self) -> Any:
        """Start Spark; none of the checks does by itself."""
        raise NotImplementedError("this sink needs Spark: override `spark`")

    def opened(self) -> Sink:
        """Do what a driver does at its start."""
        sink = self.model.open(self.context)
        sink.reach()
        sink.open(self.schema)
        sink.take_over()
        return sink

    @contextmanager
    def driver(self) -> Iterator[Sink]:
        """Be a driver from its start to its end."""
        sink = self.opened()
        try:
            yield sink
        finally:
            sink.close()

    def rows(self, offset_range: OffsetRange, offsets: Iterable[int], broken: int | None = None) -> pa.RecordBatch:
        """Return a row for each of these offsets; one may have text that no text can be."""
        source_partition = offset_range.source_partition
        records = [
            {
                "id": offset * 10 + source_partition.partition,
                "text": _NO_TEXT if offset == broken else b"x" * (offset % 7),
                "_topic": source_partition.topic,
                "_topic_id": source_partition.topic_id,
                "_partition": source_partition.partition,
                "_offset": offset,
                "_timestamp_ms": 1_700_000_000_000 + offset,
                "_key": b"%d" % offset,
                "_value": b"%d" % offset,
            }
            for offset in offsets
        ]
        schema = self.schema
        in_bytes = schema.set(schema.get_field_index("text"), pa.field("text", pa.binary()))
        made = pa.RecordBatch.from_pylist(records, in_bytes)
        columns = [
            each.view(pa.string()) if name == "text" else each for name, each in zip(schema.names, made, strict=True)
        ]
        return pa.RecordBatch.from_arrays(columns, schema=schema)

    def stage(
        self, sink: Sink, offset_range: OffsetRange, *, without: int | None = None, broken: int | None = None
    ) -> Staged:
        """Do what a task does: rows in chunks, in order, into a stager that came from elsewhere."""
        stager = pickle.loads(pickle.dumps(sink.stager()))(offset_range)  # noqa: S301 - our own
        offsets = [each for each in range(offset_range.start, offset_range.end) if each != without]
        refused = 0
        for start in range(0, len(offsets), _CHUNK_ROWS):
            chunk = offsets[start : start + _CHUNK_ROWS]
            rows = self.rows(offset_range, chunk, broken)
            found = stager.write(rows, pa.array(chunk, pa.int64()))
            require(
                all(chunk[index] == broken for index, _ in found),
                f"other rows were refused than the one that is at fault: {found}",
            )
            refused += len(found)
        return Staged(offset_range, len(offsets) - refused, stager.finish())

    @property
    def checkpoint(self) -> Positions:
        """Where the last commit ended: all that there is, where the sink keeps no positions."""
        known: Positions = self.__dict__.setdefault("_checkpoint", {})
        return known

    def prepare(self, sink: Sink, *ends: int) -> Positions:
        """Stage everything from where the sink stands up to these offsets, and prepare it.

        Give the offsets; none if there was nothing to stage.
        """
        until = dict(zip(self.source_partitions, ends, strict=False))
        found = sink.positions(self.source_partitions)
        at = {each: (self.checkpoint if found is None else found).get(each) for each in until}
        sink.hold(found or {})
        ranges = [OffsetRange(each, at[each] or 0, end) for each, end in until.items() if (at[each] or 0) < end]
        staged = [self.stage(sink, each) for each in ranges]
        refused = sink.prepare(staged, {each.source_partition: at[each.source_partition] for each in ranges})
        require(not refused, f"rows were refused that any sink can take: {refused}")
        return until if ranges else {}

    def commit(self, sink: Sink, ends: Positions) -> None:
        """Commit what was prepared up to these offsets; a driver without a batch for a sink does not."""
        if ends:
            sink.commit()
            self.checkpoint.update(ends)

    def land(self, *ends: int) -> None:
        """Let a driver write the records before these offsets, partition by partition."""
        with self.driver() as sink:
            self.commit(sink, self.prepare(sink, *ends))

    def require_landed(self, *ends: int, at_least: bool = False) -> None:
        """Raise unless every row before these offsets is there, once, and no other."""
        found = Counter(self.read())
        wanted = {
            Landed(each.partition, offset, offset * 10 + each.partition)
            for each, end in zip(self.source_partitions, ends, strict=False)
            for offset in range(end)
        }
        lost, invented = sorted(wanted - found.keys()), sorted(found.keys() - wanted)
        doubled = sorted(row for row, times in found.items() if times > 1)
        require(not lost, f"{len(lost)} of {len(wanted)} rows are lost, such as {lost[:3]}")
        require(not invented, f"{len(invented)} rows are there that nobody wrote, such as {invented[:3]}")
        require(at_least or not doubled, f"{len(doubled)} rows are there more than once, such as {doubled[:3]}")

    def require_positions(self, *ends: int) -> None:
        """Raise unless the sink says that it stands there; one that keeps no positions is at least once."""
        with self.driver() as sink:
            found = sink.positions(self.source_partitions)
        wanted = {each: end for each, end in zip(self.source_partitions, ends, strict=False) if end}
        require(
            (found is not None) == self.is_exactly_once, "positions are kept where, and only where, it is exactly once"
        )
        require(found in (None, wanted), f"the sink stands at {_shown(found)}, and it was left at {_shown(wanted)}")

    @property
    def is_exactly_once(self) -> bool:
        """Return what the model promises."""
        return self.model.guarantee == "exactly once"

    # The checks.

    def test_a_sink_that_was_never_written_to_has_no_position_and_no_rows(self) -> None:
        """Open: the target is made, and empty."""
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
        """Staged and prepared rows are nobody's; a batch that is abandoned leaves nothing, and runs again."""
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
        """Two drivers of a pipeline have read the same positions; the newer one commits, and the older one must not."""
        if not self.is_exactly_once:
            return
        ends = dict(zip(self.source_partitions, (10, 4), strict=True))
        with self.driver() as older:
            older.positions(self.source_partitions)
            staged = [self.stage(older, OffsetRange(each, 0, end)) for each, end in ends.items()]
            self.land(10, 4)
            try:
                older.prepare(staged, dict.fromkeys(ends))
                older.commit()
            except PositionsMoved:
                pass
            else:
                raise AssertionError("a driver has committed a batch that another one had committed before")
        self.require_landed(10, 4)
        self.require_positions(10, 4)

    def test_a_target_that_was_dropped_is_filled_anew(self) -> None:
        """Positions go with the rows that they speak of."""
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
        """Killed between any two calls, and at lines of the commit: the next driver goes on from the positions."""
        if not self.kills_in_commit:
            return
        end = 5
        lines = self._killed("never", end)
        self.checkpoint.update(dict.fromkeys(self.source_partitions, end))
        self._require_recovered(end)
        last = self.kills_in_commit - 1
        wanted = {1 + (lines - 1) * number // max(last, 1) for number in range(self.kills_in_commit)}
        points: list[str | int] = ["opened", "staged", "prepared", *sorted(wanted), "committed"]
        for point in points:
            self._killed(point, end := end + 5)
            self._require_recovered(end)

    def _killed(self, point: str | int, end: int) -> int:
        """Let a process write up to an offset and die at a point, or at a line of its commit; give how many it has."""
        # Each is forked from one that has no threads and knows all modules: starting Python anew takes far longer.
        context = multiprocessing.get_context("forkserver")
        known = [name for name in _IMPORTED_LATE if name in sys.modules]
        context.set_forkserver_preload([__name__, type(self.model).__module__, *known])
        receiver, sender = context.Pipe(duplex=False)
        process = context.Process(target=_drive, args=(self._known(), point, end, sender))
        process.start()
        sender.close()
        try:
            lines = int(receiver.recv())
        except EOFError:
            lines = 0
        process.join()
        expected = 0 if point == "never" else -signal.SIGKILL
        require(process.exitcode == expected, f"the driver at '{point}' ended with {process.exitcode}: see its output")
        return lines

    def _known(self) -> dict[str, Any]:
        """Return what another process needs to know."""
        names = ("model", "folder", "pipeline", "connection", "source_partitions")
        return {**{name: getattr(self, name) for name in names}, "_checkpoint": self.checkpoint}

    def _require_recovered(self, end: int) -> None:
        self.land(end, end)
        self.require_landed(end, end, at_least=not self.is_exactly_once)
        self.require_positions(end, end)


def _drive(known: Mapping[str, Any], point: str | int, end: int, sender: Any) -> None:
    """Be a driver that dies at a point."""
    checks = SinkConformance()
    for name, value in known.items():
        setattr(checks, name, value)
    sink = checks.opened()
    _die_if(point == "opened")
    if point == "staged":
        found = sink.positions(checks.source_partitions) or checks.checkpoint
        for each in checks.source_partitions:
            checks.stage(sink, OffsetRange(each, found.get(each, 0), end))
        _die_if(point == "staged")
    checks.prepare(sink, end, end)
    _die_if(point == "prepared")
    lines = _Lines(type(sink), point if isinstance(point, int) else None)
    sys.settrace(lines.trace)
    sink.commit()
    sys.settrace(None)
    _die_if(point == "committed")
    sender.send(lines.passed)
    sink.close()


class _Lines:
    """Counts the lines that run in the files of the sink's class and its bases, and dies at one of them."""

    def __init__(self, kind: type[Sink], dies_at: int | None) -> None:
        files = [getattr(sys.modules[each.__module__], "__file__", None) for each in kind.__mro__[:-1]]
        self._folders = {str(Path(each).parent) for each in files if each}
        self._dies_at = dies_at
        self.passed = 0

    def trace(self, frame: FrameType, event: str, _argument: object) -> Any:
        if str(Path(frame.f_code.co_filename).parent) not in self._folders:
            return None
        if event == "line":
            self.passed += 1
            _die_if(self.passed == self._dies_at)
        return self.trace


def _die_if(it_is_time: bool) -> None:  # noqa: FBT001 - it reads as a sentence
    if it_is_time:
        os.kill(os.getpid(), signal.SIGKILL)


def require(holds: bool, otherwise: str) -> None:  # noqa: FBT001 - it reads as a sentence
    """Raise `AssertionError`, which says what is wrong with the sink, unless this holds."""
    if not holds:
        raise AssertionError(otherwise)


def _shown(positions: Mapping[SourcePartition, int] | None) -> str:
    return ", ".join(f"{each} {at}" for each, at in sorted((positions or {}).items())) or "no position"
