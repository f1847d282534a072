"""Stateful pipelines: aggregates, windows and per-key state over a landed table, by Spark's streaming query.

Spark's checkpoint holds the state and the place in the table; each sink keeps, beside its rows, the number of the next
batch and a digest of the source offsets of the last one. So a checkpoint that did not lead the sinks to where they
stand (an old copy, one with parts missing) is refused. Losing it loses the state, so it is never recreated in silence:
`penstock pipeline rebuild` computes everything again from the landed table, merged over the old results.
"""

import shutil
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, Any, Self

import msgspec

from penstock.delivery.checkpoint import lost
from penstock.delivery.crash_points import crash_point
from penstock.delivery.durable import read_versioned, write_versioned
from penstock.driver import column_lineage
from penstock.driver.batch import BatchReport, SinkCount
from penstock.driver.column_lineage import MadeColumns
from penstock.driver.computation import Computation
from penstock.driver.failures import complaint_about_sql
from penstock.driver.paths import PipelinePaths, Progress
from penstock.driver.session import guard_callbacks
from penstock.driver.spark_checkpoint import SparkCheckpoint, batch_of
from penstock.driver.stateful_failures import explained
from penstock.errors import BadInput, CheckpointLost, PenstockError, PositionLost, StateOutdated
from penstock.pipeline.spec import PipelineSpec
from penstock.record.formats import CHECKPOINT
from penstock.sinks.merging import MergeContext, MergingSink
from penstock.sinks.schema_change import SchemaChange
from penstock.worker.result_files import collect_as_files

if TYPE_CHECKING:
    from pyarrow.dataset import Dataset
    from pyspark.sql import DataFrame, SparkSession

_LOOK_EVERY_S = 0.1
_NO_DATA = "Waiting for data to arrive"
_ROCKS_DB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"


class _Metadata(msgspec.Struct, frozen=True):
    """What `metadata.json` says: what a checkpoint of Spark's has to fit to."""

    pipeline: str
    positions: dict[str, int | None] = {}
    """Where each sink stood when the computation began."""
    query: str | None = None
    """The id of Spark's query; none as long as it has had no batch."""
    computation: Computation | None = None
    """What the state is computed with."""


class StatefulRunner:
    """Runs one stateful pipeline. Entering takes the lock and checks that it is safe to go on."""

    def __init__(
        self, spec: PipelineSpec, paths: PipelinePaths, start_spark: Callable[[], "SparkSession"], base: Path
    ) -> None:
        self.spec = spec
        self.paths = paths
        self.stopping = Event()
        self._start_spark = start_spark
        self._base = base
        self._stack = ExitStack()
        self._failure: Exception | None = None
        self._batches = 0
        self._query: Any = None
        self._spark = SparkCheckpoint(paths.checkpoint / "spark")
        self._begun = _Metadata(spec.name)
        self.sinks: list[MergingSink] = []

    @property
    def _metadata(self) -> Path:
        return self.paths.checkpoint / "metadata.json"

    def __enter__(self) -> Self:
        self._stack.enter_context(self.paths.locked(self.spec.name))
        shutil.rmtree(self.paths.scratch, ignore_errors=True)
        self._open_sinks()
        return self

    def _open_sinks(self) -> None:
        names = zip(self.spec.sinks, self.spec.sink_names, strict=True)
        self.sinks = [model.open_merge(MergeContext(name, self.spec.name)) for model, name in names]
        for sink in self.sinks:
            self._stack.callback(sink.close)

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def begin(self) -> None:
        """Compare Spark's checkpoint with the sinks; make a pipeline's own part of it if it never ran."""
        agreed = self._agreed()
        if agreed != self._begun or not self._metadata.exists():
            self._remember(agreed)

    def _agreed(self) -> "_Metadata":
        """Return what `metadata.json` has to say, if Spark's checkpoint and the sinks agree; nothing is changed."""
        if not self._metadata.exists():
            positions = {sink.name: sink.position() for sink in self.sinks if sink.keeps_position}
            started = [name for name, position in positions.items() if position is not None]
            if started or self._spark.exists:
                reason = f"sink '{started[0]}' has a position" if started else "Spark has one of this pipeline"
                raise lost(self.spec.name, f"there is none in {self.paths.checkpoint}, and {reason}")
            return _Metadata(self.spec.name, positions, computation=Computation.of(self.spec))
        self._begun = self._load()
        if self._begun.query is not None and self._spark.query_id() != self._begun.query:
            raise lost(self.spec.name, f"Spark's part, which holds the state, is not in {self._spark.folder}")
        self._require_same_computation()
        following = self._spark.next()
        for sink in self.sinks:
            self._lacks(sink, following)
        return msgspec.structs.replace(self._begun, computation=Computation.of(self.spec))

    def look(self, *, compare_state: bool) -> "tuple[int | None, list[SchemaChange | None]]":
        """Raise what a run would raise; return the batches that the state is of, and what changes in the sinks' tables.

        None instead of a number says that there is no state yet. The lock is not taken and nothing is changed, so the
        state is compared only if no driver is about to change it.
        """
        with self._stack:
            self._open_sinks()
            has_state = compare_state and self._agreed().query is not None
            changes = self._required_changes(self._through_steps(self._start_spark()))
        return self._spark.next() if has_state else None, changes

    def _required_changes(self, frame: "DataFrame") -> "list[SchemaChange | None]":
        """Return what results will change in the columns of each sink's table; raise if one cannot take them."""
        from pyspark.sql.pandas.types import to_arrow_schema

        schema = to_arrow_schema(frame.schema, timezone="UTC")
        return [sink.require_fitting(schema) for sink in self.sinks]

    def _load(self) -> "_Metadata":
        try:
            return msgspec.convert(read_versioned(self._metadata, CHECKPOINT), _Metadata)
        except (msgspec.MsgspecError, ValueError) as error:
            raise lost(self.spec.name, f"{self._metadata} makes no sense: {error}") from None

    def _require_same_computation(self) -> None:
        before, now = self._begun.computation, Computation.of(self.spec)
        if before != now and self._begun.query is not None and (before is None or not now.has_state_of(before)):
            raise StateOutdated(
                f"the steps of pipeline '{self.spec.name}' are not those that its state was computed with",
                safe="Nothing was written, and the results are intact",
                fix="Change them back, or, to compute everything again, run:"
                f" penstock pipeline rebuild {self.spec.name}",
            )

    def _remember(self, metadata: "_Metadata") -> None:
        write_versioned(self._metadata, CHECKPOINT, msgspec.to_builtins(metadata))
        self._begun = metadata

    def rebuild(self) -> None:
        """Forget Spark's state; the next run computes all of it again from the table.

        The state goes in one step, and only then the sinks' positions are taken for a beginning: a rebuild that dies in
        between leaves a checkpoint without its state, which no run accepts.
        """
        with suppress(CheckpointLost, FileNotFoundError):
            self._load()  # one that is lost is recreated; one of another version of Penstock is not ours to replace
        self._spark.retire()
        crash_point("checkpoint_cleared")
        positions = {sink.name: sink.position() for sink in self.sinks if sink.keeps_position}
        self._remember(_Metadata(self.spec.name, positions, computation=Computation.of(self.spec)))
        crash_point("checkpoint_begun")
        self._spark.remove_old()

    def run(self, on_progress: Callable[[Progress], None]) -> None:
        """Run until caught up (`speed: scheduled`) or stopped."""
        self.begin()
        spark = self._start_spark()
        guard_callbacks(spark)
        spark.conf.set("spark.sql.streaming.stateStore.providerClass", _ROCKS_DB)
        self._frame = frame = self._through_steps(spark)
        self._required_changes(frame)
        writer = (
            frame.writeStream.outputMode("update")
            .option("checkpointLocation", str(self._spark.folder))
            .foreachBatch(lambda rows, number: self._batch(rows, number, on_progress))
        )
        if self.spec.speed == "scheduled":
            writer = writer.trigger(availableNow=True)
        else:
            writer = writer.trigger(processingTime=f"{self.spec.batch.max_wait} milliseconds")
        self._query = query = writer.start()
        done, is_idle = None, False
        while query.isActive:
            if not is_idle and not self._batches and query.status["message"] == _NO_DATA:
                is_idle = True
                on_progress(Progress(None, 0, is_idle=True))
            if self.stopping.is_set():
                # A query with timers never rests; after the current batch is as good a moment as any.
                done = self._batches if done is None else done
                if not query.status["isTriggerActive"] or self._batches > done:
                    query.stop()
            time.sleep(_LOOK_EVERY_S)
        failure = self._failure or query.exception()
        if isinstance(failure, PenstockError | OSError):
            raise failure
        if failure is not None and not self.stopping.is_set():
            raise explained(failure, self.spec.name, self._spark.folder)

    def _batch(self, rows: "DataFrame", number: int, on_progress: Callable[[Progress], None]) -> None:
        began = time.monotonic()
        crash_point("planned")
        try:
            if self._begun.query is None:
                # From now on results may be in sinks: this state, and no other, explains them.
                self._remember(msgspec.structs.replace(self._begun, query=self._spark.query_id()))
            lacking = [sink for sink in self.sinks if self._lacks(sink, number)]
            results = collect_as_files(rows, self.paths.scratch)
            count = results.count_rows()
            for sink in lacking:
                self._merge(sink, results, number)
                crash_point("sink_committed", sink.name)
        except Exception as error:
            # Kept as it is: what Spark makes of it on its way through the JVM is a traceback of tracebacks.
            self._failure = error
            raise
        finally:
            shutil.rmtree(self.paths.scratch, ignore_errors=True)
        merged, nothing = SinkCount(count, count, 0, 0), SinkCount(0, 0, 0, 0)
        report = BatchReport(
            batch=number,
            read=count if lacking else 0,
            dead=0,
            sinks={sink.name: merged if sink in lacking else nothing for sink in self.sinks},
            rules={},
            ends={},
            seconds=time.monotonic() - began,
            state_rows=self._state_rows(),
        )
        self._batches += 1
        on_progress(Progress(report, 0))

    def made_columns(self) -> MadeColumns:
        """Return the columns of the results, and what they were made of; for when it runs."""
        types = {field.name: field.dataType.simpleString() for field in self._frame.schema}
        return MadeColumns(types, column_lineage.read(self._frame))

    def _state_rows(self) -> int | None:
        """Count the rows of the state, as Spark reported of its last batch; none before there was one."""
        last = self._query.lastProgress if self._query is not None else None
        return sum(each["numRowsTotal"] for each in last["stateOperators"]) if last else None

    def _lacks(self, sink: MergingSink, batch: int) -> bool:
        """Return whether a sink lacks a batch; raise if it stands where this checkpoint cannot have led it."""
        if not sink.keeps_position:
            return True
        position, before = sink.position(), self._position_before(sink, batch)
        if batch and before is None:
            raise lost(self.spec.name, f"what was planned for batch {batch - 1} is missing in {self._spark.folder}")
        if position == before:
            return True
        if position is None:
            raise PositionLost(
                f"sink '{sink.name}' has no position, and batch {batch} would leave a gap:"
                " its table was dropped or replaced",
                safe="Nothing was written",
                fix=f"To compute everything again, run: penstock pipeline rebuild {self.spec.name}",
            )
        if position == self._spark.position_after(batch):
            return False
        raise lost(
            self.spec.name,
            f"sink '{sink.name}' holds {batch_of(position)} batches that are not those in {self._spark.folder},"
            " which is an old copy or another one",
        )

    def _position_before(self, sink: MergingSink, batch: int) -> int | None:
        return self._spark.position_after(batch - 1) if batch else self._begun.positions.get(sink.name)

    def _merge(self, sink: MergingSink, results: "Dataset", batch: int) -> None:
        following = self._spark.position_after(batch)
        if following is None:
            raise lost(self.spec.name, f"what was planned for batch {batch} is missing in {self._spark.folder}")
        crash_point("in_commit", sink.name)
        sink.merge(results, self._position_before(sink, batch), following)

    def _through_steps(self, spark: "SparkSession") -> "DataFrame":
        from pyspark.errors import AnalysisException

        frame: DataFrame | None = None
        try:
            frame = self.spec.source.stream(spark)
            for step in self.spec.steps:
                frame = step.on_table(frame, self._base)
        except AnalysisException as error:
            reason = complaint_about_sql(error, frame.columns if frame is not None else [])
            raise BadInput(f"pipeline '{self.spec.name}': Spark does not understand the SQL: {reason}") from None
        return frame
