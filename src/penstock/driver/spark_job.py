"""From a pipeline's model to one Spark job: read, decode, steps, expectations, conditions of the sinks."""

import itertools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from penstock.decoders.decoder import DecoderModel
from penstock.driver.analysis import Analysis
from penstock.driver.code_archive import ship
from penstock.errors import BadInput
from penstock.pipeline.spec import PipelineSpec
from penstock.record.columns import RESERVED, rule_column, user_columns, where_column
from penstock.record.manifest import MANIFEST, Manifest
from penstock.steps.select import Select
from penstock.steps.step import StepContext, StepTask
from penstock.worker.spill import Aside, RestoreColumns, SpillColumns, unasked_columns
from penstock.worker.tasks import DOT, Chain, ReadTask, Task, event_schema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class SparkJob:
    """Builds the job of one batch. As much as possible runs in one Python worker per task; SQL goes through the JVM.

    Spark is started when it is first needed: for the first batch, or for SQL that it has not seen in this version.
    """

    def __init__(
        self,
        spec: PipelineSpec,
        start_spark: Callable[[], "SparkSession"],
        base: Path,
        scratch: Path,
        analysis: Path | None = None,
    ) -> None:
        if spec.decode is None:
            raise BadInput(f"pipeline '{spec.name}' has no decoder")
        self._spec = spec
        self._start_spark = start_spark
        self._base = base
        self._scratch = scratch
        self._folder: Path | None = base
        self._notes = scratch / "notes"
        self._analysis = Analysis(analysis, spec.spark)
        self._decode: DecoderModel = spec.decode
        self._schemas: list[pa.Schema] = []
        """The columns behind each step."""
        self.schema = self._learn_schema()

    @cached_property
    def spark(self) -> "SparkSession":
        """Spark, started now if it was not needed before, with the user's modules where tasks find them."""
        spark = self._start_spark()
        self._folder = ship(spark, self._spec, self._base, self._scratch)
        return spark

    @property
    def can_filter(self) -> bool:
        """Return whether steps may leave events out, so that fewer arrive than were read."""
        return self._decode.can_drop or any(step.can_filter for step in self._spec.steps)

    @property
    def columns(self) -> list[str]:
        """The user's columns after the last step."""
        return user_columns(self.schema.names)

    def _learn_schema(self) -> pa.Schema:
        """Let Spark work out the columns without running anything; its complaints are the user's."""
        schema = event_schema(self._decode)
        for step in self._spec.steps:
            if (select := step.as_select()) is not None:
                schema = self._analysis.columns(schema, ["select", select.text], partial(self._columns, schema, select))
            else:
                schema = step.open(StepContext(schema, self._folder, self._notes)).schema
            self._schemas.append(schema)
        rules, wheres = self._conditions()
        if rules or wheres:
            self._analysis.columns(schema, ["judge", rules, wheres], partial(self._columns_judged, schema))
        return schema

    def _columns(self, schema: pa.Schema, select: Select) -> pa.Schema:
        return _whole_schema(self._sql(self._empty(schema), select))

    def _columns_judged(self, schema: pa.Schema) -> pa.Schema:
        self._judged(self._empty(schema))
        return schema

    def _empty(self, schema: pa.Schema) -> "DataFrame":
        return self.spark.createDataFrame([], _spark_schema(schema))

    def _sql(self, frame: "DataFrame", query: Select) -> "DataFrame":
        from penstock.driver import safe_sql

        with self._explained():
            return safe_sql.select(self.spark, frame, query)

    @contextmanager
    def _explained(self) -> Iterator[None]:
        from pyspark.errors import AnalysisException, ParseException

        try:
            yield
        except (AnalysisException, ParseException) as error:
            reason = str(error).splitlines()[0]
            raise BadInput(
                f"pipeline '{self._spec.name}': Spark does not understand the SQL: {reason}", safe="Nothing ran"
            ) from None

    def _conditions(self) -> tuple[dict[str, str], dict[str, str]]:
        """Return the columns of the expectations, and those of the sinks that have a condition, with what they ask."""
        rules = {rule_column(number): rule.that for number, rule in enumerate(self._spec.expect)}
        wheres = {where_column(number): sink.where for number, sink in enumerate(self._spec.sinks) if sink.where}
        return rules, wheres

    def _judged(self, frame: "DataFrame") -> "DataFrame":
        """Add a column per expectation, and one per sink that has a condition."""
        from penstock.driver import safe_sql

        rules, wheres = self._conditions()
        strict = [
            rule_column(number)
            for number, rule in enumerate(self._spec.expect)
            if rule.otherwise in {"dead_letter", "drop"}
        ]
        with self._explained():
            frame = safe_sql.judge(self.spark, frame, "expect", rules, only_if=[])
            return safe_sql.judge(self.spark, frame, "where", wheres, only_if=strict)

    def manifests(self, read: ReadTask, write: Task) -> list[Manifest]:
        """Run the job; return what each task reports."""
        count = len(read.offset_ranges)
        way = _Way(self.spark.range(0, count, 1, count), [read], event_schema(self._decode))
        for number, step in enumerate(self._spec.steps):
            if (select := step.as_select()) is not None:
                way.in_spark(self._unasked(way.schema, number))
                way.frame = self._sql(way.frame, select)
                way.schema = self._schemas[number]
            else:
                way.in_python()
                way.add(step.open(StepContext(way.schema, self._folder, self._notes)))
        if self._spec.expect or any(sink.where for sink in self._spec.sinks):
            way.in_spark(self._unasked(way.schema, len(self._spec.steps)))
            way.frame = self._judged(way.frame)
        way.in_python()
        return [Manifest.read(row[0]) for row in _in_python(way.frame, [*way.tasks, write], MANIFEST).collect()]

    def _unasked(self, schema: pa.Schema, first: int) -> tuple[str, ...]:
        """Name the columns that need not pass through the JVM from this step on to the next that is Python."""
        following = (step.as_select() for step in self._spec.steps[first:])
        selects = [each for each in itertools.takewhile(bool, following) if each is not None]
        conditions: list[str] = []
        if first + len(selects) == len(self._spec.steps):
            conditions += [rule.that for rule in self._spec.expect]
            conditions += [sink.where for sink in self._spec.sinks if sink.where]
        return unasked_columns(schema, selects, conditions)

    def read_alone(self, read: ReadTask, drain: Task) -> None:
        """Read and decode without any step, and throw the rows away."""
        count = len(read.offset_ranges)
        _in_python(self.spark.range(0, count, 1, count), [read, drain], MANIFEST).collect()


class _Way:
    """The way of a batch's rows: through Python tasks, and through the JVM where there is SQL."""

    def __init__(self, frame: "DataFrame", tasks: list[Task], schema: pa.Schema) -> None:
        self.frame = frame
        self.tasks = tasks
        self.schema = schema
        self._aside: Aside | None = None

    def add(self, task: StepTask) -> None:
        """Run one more task in the Python worker at hand."""
        self.tasks, self.schema = [*self.tasks, task], task.schema

    def in_spark(self, unasked: tuple[str, ...]) -> None:
        """Hand the rows to the JVM, unless they are there, without what SQL does not ask for."""
        if self._aside is None:
            self._aside = Aside(unasked)
            slim = SpillColumns(self._aside, self.schema)
            self.frame = _in_python(self.frame, [*self.tasks, slim], _spark_schema(slim.schema))
            self.tasks = []

    def in_python(self) -> None:
        """Take the rows back."""
        if self._aside is not None:
            self.tasks = [RestoreColumns(self._aside, self.schema)]
            self._aside = None


def _spark_schema(schema: pa.Schema) -> Any:
    from pyspark.sql.pandas.types import from_arrow_schema

    return from_arrow_schema(schema)


def _whole_schema(frame: "DataFrame") -> pa.Schema:
    """Return a frame's columns as every row has them: the user's, then Penstock's."""
    from pyspark.sql.pandas.types import to_arrow_schema

    made = to_arrow_schema(frame.schema, timezone="UTC")
    return pa.schema([*(made.field(name) for name in user_columns(made.names)), *RESERVED])


def _in_python(frame: "DataFrame", tasks: list[Task], schema: Any) -> "DataFrame":
    return frame.toDF(*(name.replace(".", DOT) for name in frame.columns)).mapInArrow(Chain(tasks), schema)
