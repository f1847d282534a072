"""What tasks and drivers do with a sink, in the same order, without Spark and without a broker."""

import pickle
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa

from penstock.kafka.connection import Connection
from penstock.record.columns import RESERVED
from penstock.record.manifest import COLUMN, Manifest, SinkPart, TaskSummary
from penstock.record.positions import OffsetRange, Positions, SourcePartition
from penstock.sinks.sink import Sink, SinkContext, SinkModel, Staged, StagerFactory

FIRST, SECOND = SourcePartition("conformance", "id-1", 0), SourcePartition("conformance", "id-1", 1)
_CHUNK_ROWS = 3
_NO_TEXT = b"no UTF-8: \xff"


class Landed(NamedTuple):
    """A row that a reader of the target sees."""

    partition: int
    offset: int
    id: int
    text: str | None


class SinkDriving:
    """A sink under test. Set these attributes before each check, with an empty target."""

    model: SinkModel
    """The sink as it is written in a pipeline file. It goes to other processes, too, so it can be pickled."""
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
    kills_in_commit: int = 60
    """At how many lines of its commit a driver is killed at most; 0 if no other process can open the sink."""

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

    def rows(
        self, source_partition: SourcePartition, offsets: Iterable[int], broken: int | None = None, mark: str = ""
    ) -> pa.RecordBatch:
        """Return a row for each of these offsets; one may have text that no text can be."""
        records = [
            {
                "id": offset * 10 + source_partition.partition,
                "text": _NO_TEXT if offset == broken else f"{'x' * (offset % 7)}{mark}".encode(),
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

    def stage(self, sink: Sink, offset_range: OffsetRange, **rows: Any) -> Staged:
        """Do what a task does, with a stager that came from elsewhere."""
        return self.stage_with(pickle.loads(pickle.dumps(sink.stager())), offset_range, **rows)  # noqa: S301 - our own

    def stage_with(
        self,
        factory: StagerFactory,
        offset_range: OffsetRange,
        *,
        without: int | None = None,
        broken: int | None = None,
        of: SourcePartition | None = None,
        mark: str = "",
    ) -> Staged:
        """Stage rows in chunks, in order; those of a replay are `of` another partition. Give what the driver hears."""
        stager = factory(offset_range)
        offsets = [each for each in range(offset_range.start, offset_range.end) if each != without]
        refused = 0
        for start in range(0, len(offsets), _CHUNK_ROWS):
            chunk = offsets[start : start + _CHUNK_ROWS]
            rows = self.rows(of or offset_range.source_partition, chunk, broken, mark)
            found = stager.write(rows, pa.array(chunk, pa.int64()))
            require(
                all(chunk[index] == broken for index, _ in found),
                f"other rows were refused than the one that is at fault: {found}",
            )
            refused += len(found)
        count = len(offsets) - refused
        return Staged(offset_range, count, _reported(count, stager.finish()))

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
        partitions = zip(self.source_partitions, ends, strict=False)
        self.require_rows({row(each, offset) for each, end in partitions for offset in range(end)}, at_least=at_least)

    def require_rows(self, wanted: set[Landed], *, at_least: bool = False) -> None:
        """Raise unless these rows are there, once, and no other."""
        found = Counter(self.read())
        by_offset = {each[:2]: each for each in wanted}
        changed = sorted(each for each in found.keys() - wanted if each[:2] in by_offset)
        lost, invented = sorted(wanted - found.keys()), sorted(found.keys() - wanted)
        doubled = sorted(each for each, times in found.items() if times > 1)
        require(
            not changed,
            f"{len(changed)} rows have other values, such as {changed[:3]} instead of"
            f" {[by_offset[each[:2]] for each in changed[:3]]}",
        )
        require(not lost, f"{len(lost)} of {len(wanted)} rows are lost, such as {lost[:3]}")
        require(not invented, f"{len(invented)} rows are there that nobody wrote, such as {invented[:3]}")
        require(at_least or not doubled, f"{len(doubled)} rows are there more than once, such as {doubled[:3]}")

    def require_positions(self, *ends: int) -> None:
        """Raise unless the sink says that it stands there; one that keeps no positions is at least once."""
        with self.driver() as sink:
            self.require_standing(sink, *ends)

    def require_standing(self, sink: Sink, *ends: int) -> None:
        """Raise unless an open sink says that it stands there."""
        found = sink.positions(self.source_partitions)
        wanted = {each: end for each, end in zip(self.source_partitions, ends, strict=False) if end}
        require(
            (found is not None) == self.is_exactly_once, "positions are kept where, and only where, it is exactly once"
        )
        require(found in (None, wanted), f"the sink is at {shown(found)}, and it was left at {shown(wanted)}")

    @property
    def is_exactly_once(self) -> bool:
        """Return what the model promises."""
        return self.model.guarantee == "exactly once"


def row(source_partition: SourcePartition, offset: int, mark: str = "") -> Landed:
    """Return what a reader should see of a record."""
    partition = source_partition.partition
    return Landed(partition, offset, offset * 10 + partition, "x" * (offset % 7) + mark)


def _reported(rows: int, detail: dict[str, Any]) -> dict[str, Any]:
    """Send what a stager says to the driver, as tasks do: as JSON."""
    part = SinkPart(rows, 0, 0, detail)
    try:
        report = Manifest(0, TaskSummary(), {"conformance": part}, {}, {}, None).row()
    except TypeError as error:
        raise AssertionError(f"what `finish` gives is not JSON: {error}") from None
    heard = Manifest.read(report.column(COLUMN)[0].as_py()).sinks["conformance"].detail
    require(
        heard == _listed(detail),
        f"what `finish` gives is changed by JSON: the driver hears {heard} instead of {detail}",
    )
    return heard


def _listed(value: Any) -> Any:
    """Return the same with lists for tuples, which hold the same items."""
    if isinstance(value, dict):
        return {key: _listed(each) for key, each in value.items()}
    return [_listed(each) for each in value] if isinstance(value, list | tuple) else value


def require(holds: bool, otherwise: str) -> None:  # noqa: FBT001 - it reads as a sentence
    """Raise `AssertionError`, which says what is wrong with the sink, unless this holds."""
    if not holds:
        raise AssertionError(otherwise)


def shown(positions: Mapping[SourcePartition, int] | None) -> str:
    """Return positions as a reader may see them."""
    return ", ".join(f"{each} {at}" for each, at in sorted((positions or {}).items())) or "no position"
