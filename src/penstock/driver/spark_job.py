"""From a pipeline's model to one Spark job: read, decode, steps, expectations, conditions of the sinks."""

import itertools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from penstock.decoders.decoder import DecoderModel
from penstock.driver import column_lineage
from penstock.driver.analysis import Analysis
from penstock.driver.code_archive import ship
from penstock.driver.column_lineage import ColumnLineage, MadeColumns
from penstock.driver.failures import complaint_about_sql
from penstock.driver.placement import place
from penstock.errors import BadInput
from penstock.pipeline.spec import PipelineSpec
from penstock.record.columns import RESERVED, rule_column, user_columns, where_column
from penstock.record.manifest import COLUMN, MANIFEST, Manifest
from penstock.steps.select import Select
from penstock.steps.step import ShippedCode, StepContext, StepTask
from penstock.worker.expressions import Expression
from penstock.worker.spill import RestoreColumns, Spill, SpillColumns, spill_of
from penstock.worker.tasks import DOT, Chain, ReadTask, Task, event_schema

if TYPE_CHECKING:
    from pyspark import RDD
    from pyspark.sql import DataFrame, SparkSession


_ARROW_ROWS = 10_000
_ARROW_BYTES = 2**26
_RANGE = "_range"


class SparkJob:
    """Builds the job of one batch. As much as possible runs in one Python worker per task.

    SQL runs there, too, if workers can evaluate all of it with exactly Spark's result; if not, it goes through the JVM.

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
        self._folder: Path | ShippedCode = base
        self._notes = scratch / "notes"
        self._analysis = Analysis(analysis, spec.spark)
        self._decode: DecoderModel = spec.decode
        self._schemas: list[pa.Schema] = []
        """The columns behind each step."""
        self._numbers: dict[int, RDD[int]] = {}
        """One number per task, by how many there are."""
        self.schema = self._learn_schema()
        self.placement = place(spec, [event_schema(self._decode), *self._schemas], self._analysis, self._translated)

    @cached_property
    def spark(self) -> "SparkSession":
        """Spark, started now if it was not needed before, with the user's modules where tasks find them."""
        spark = self._start_spark()
        self._folder = ship(spark, self._spec, self._base, self._scratch)
        return spark

    @property
    def can_filter(self) -> bool:
        """Return whether steps may drop events, so that fewer arrive than were read."""
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
        return _as_frame(self.spark, schema.empty_table())

    def _translated(self, schema: pa.Schema, texts: list[str]) -> list[Expression | str]:
        from penstock.driver import catalyst

        return catalyst.translated(self.spark, _spark_schema(schema), texts)

    def _sql(self, frame: "DataFrame", query: Select) -> "DataFrame":
        from penstock.driver import safe_sql

        with self._explained(frame, query.text):
            return safe_sql.select(self.spark, frame, query)

    @contextmanager
    def _explained(self, frame: "DataFrame", *texts: str) -> Iterator[None]:
        from pyspark.errors import AnalysisException, ParseException

        try:
            yield
        except (AnalysisException, ParseException) as error:
            reason = complaint_about_sql(error, user_columns(frame.columns))
            which = " or ".join(f"'{text}'" for text in texts)
            raise BadInput(
                f"pipeline '{self._spec.name}': Spark does not understand the SQL {which}: {reason}", safe="Nothing ran"
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
        strict = [rule_column(number) for number, rule in enumerate(self._spec.expect) if rule.is_strict]
        with self._explained(frame, *rules.values(), *wheres.values()):
            frame = safe_sql.judge(self.spark, frame, "expect", rules, only_if=[])
            return safe_sql.judge(self.spark, frame, "where", wheres, only_if=strict)

    def made_columns(self) -> MadeColumns:
        """Return the columns and what they were made of; nothing is claimed of those behind a step in Python."""
        schema = event_schema(self._decode)
        lineage = column_lineage.passed_on(user_columns(schema.names))
        for step, after in zip(self._spec.steps, self._schemas, strict=True):
            if step.as_select() is None:
                lineage = ColumnLineage({name: {} for name in user_columns(after.names)}, lineage.indirect)
            else:
                made = column_lineage.read(step.on_table(self._empty(schema), self._base))
                lineage = made.after(lineage)
            schema = after
        types = {field.name: field.dataType.simpleString() for field in _spark_schema(schema)}
        return MadeColumns({name: types[name] for name in self.columns}, lineage)

    def manifests(self, read: ReadTask, write: Task) -> list[Manifest]:
        """Run the job; return what each task reports."""
        way = _Way(partial(self._ranges, len(read.offset_ranges)), [read], event_schema(self._decode))
        for number, step in enumerate(self._spec.steps):
            if number in self.placement.selects:
                way.add(self.placement.selects[number])
            elif (select := step.as_select()) is not None:
                way.frame = self._sql(way.in_spark(self._spill_at(way.schema, number)), select)
                way.schema = self._schemas[number]
            else:
                way.in_python()
                way.add(step.open(StepContext(way.schema, self._folder, self._notes)))
        if self.placement.judge is not None:
            way.add(self.placement.judge)
        elif any(self._conditions()):
            way.frame = self._judged(way.in_spark(self._spill_at(way.schema, len(self._spec.steps))))
        way.in_python()
        if way.frame is None:
            return [Manifest.read(each) for each in self._run(read, [*way.tasks, write])]
        return [Manifest.read(row[0]) for row in _in_python(way.frame, [*way.tasks, write], MANIFEST).collect()]

    def _ranges(self, count: int) -> "DataFrame":
        return self.spark.range(0, count, 1, count)

    def _run(self, read: ReadTask, tasks: list[Task]) -> list[str]:
        """Run tasks that need no SQL of Spark's, past its planner: of a small batch, that would take the most time."""
        count = len(read.offset_ranges)
        if count not in self._numbers:
            self._numbers[count] = self.spark.sparkContext.parallelize(range(count), count)
        return self._numbers[count].mapPartitions(Chain(tasks).manifests).collect()

    def manifests_in_process(self, read: ReadTask, write: Task) -> list[Manifest]:
        """As `manifests`, with what is Python in this process: a few records would wait longer for workers to start."""
        schema, frame = event_schema(self._decode), None
        ranges = [pa.Table.from_batches(read(iter(()), index), schema) for index in range(len(read.offset_ranges))]
        for number, step in enumerate(self._spec.steps):
            select = step.as_select()
            if select is not None and number not in self.placement.selects:
                frame = self._sql(self._in_jvm(ranges) if frame is None else frame, select)
            else:
                ranges, frame = ranges if frame is None else _ranges_of(frame, len(ranges), schema), None
                task = self.placement.selects.get(number) or step.open(StepContext(schema, self._folder, self._notes))
                ranges = _all_through(task, ranges)
            schema = self._schemas[number]
        if self.placement.judge is not None:
            ranges = _all_through(self.placement.judge, ranges)
        elif any(self._conditions()):
            frame = self._judged(self._in_jvm(ranges) if frame is None else frame)
        ranges = ranges if frame is None else _ranges_of(frame, len(ranges), schema)
        reports = [batch for index, rows in enumerate(ranges) for batch in write(iter(rows.to_batches()), index)]
        return [Manifest.read(each.column(COLUMN)[0].as_py()) for each in reports]

    def _in_jvm(self, ranges: list[pa.Table]) -> "DataFrame":
        """Hand the rows of all offset ranges to the JVM at once; each knows the number of its own."""
        marked = [
            rows.append_column(_RANGE, pa.array([index] * rows.num_rows, pa.int32()))
            for index, rows in enumerate(ranges)
        ]
        return _as_frame(self.spark, pa.concat_tables(marked))

    def _spill_at(self, schema: pa.Schema, first: int) -> Spill:
        """Say which columns need not pass through the JVM from this step on to the next that is Python."""
        following = (step.as_select() for step in self._spec.steps[first:])
        selects = [each for each in itertools.takewhile(bool, following) if each is not None]
        conditions: list[str] = []
        if first + len(selects) == len(self._spec.steps):
            conditions += [rule.that for rule in self._spec.expect]
            conditions += [sink.where for sink in self._spec.sinks if sink.where]
        return spill_of(schema, selects, conditions)

    def read_alone(self, read: ReadTask, drain: Task) -> None:
        """Read and decode without any step, and throw the rows away."""
        self._run(read, [read, drain])


class _Way:
    """The way of a batch's rows: through Python tasks, and through the JVM where there is SQL."""

    def __init__(self, ranges: Callable[[], "DataFrame"], tasks: list[Task], schema: pa.Schema) -> None:
        self.frame: DataFrame | None = None
        """The rows in the JVM, if they have been there."""
        self._ranges = ranges
        self.tasks = tasks
        self.schema = schema
        self._spill: Spill | None = None

    def add(self, task: StepTask) -> None:
        """Run one more task in the Python worker at hand."""
        self.tasks, self.schema = [*self.tasks, task], task.schema

    def in_spark(self, spill: Spill) -> "DataFrame":
        """Hand the rows to the JVM, unless they are there, without what SQL does not ask for."""
        frame = self._ranges() if self.frame is None else self.frame
        if self._spill is None:
            self._spill = spill
            slim = SpillColumns(self._spill, self.schema)
            frame = _in_python(frame, [*self.tasks, slim], _spark_schema(slim.schema))
            self.tasks = []
        return frame

    def in_python(self) -> None:
        """Take the rows back, without copies of what stayed behind."""
        if self._spill is not None and self.frame is not None:
            self.frame = self.frame.drop(*self._spill.read_by_sql)
            self.tasks = [RestoreColumns(self._spill, self.schema)]
            self._spill = None


def _all_through(task: StepTask, ranges: list[pa.Table]) -> list[pa.Table]:
    """Run a task in this process, on each offset range."""
    return [
        pa.Table.from_batches(task(iter(rows.to_batches()), index), task.schema) for index, rows in enumerate(ranges)
    ]


def _ranges_of(frame: "DataFrame", count: int, schema: pa.Schema) -> list[pa.Table]:
    """Take the rows back from the JVM, those of each offset range apart and in order."""
    found = collected(frame)
    judged = [name for name in found.schema.names if name not in {*schema.names, _RANGE}]
    names = [*user_columns(schema.names), *judged, *RESERVED.names]
    # Spark and Arrow name the parts of lists and maps differently.
    wanted = pa.schema([schema.field(name) if name in schema.names else found.schema.field(name) for name in names])
    return [
        found.filter(pc.equal(found.column(_RANGE), index)).select(names).cast(wanted).combine_chunks()
        for index in range(count)
    ]


def collected(frame: "DataFrame") -> pa.Table:
    """Take all rows back; of rows that came from this process, without a job and without most of Spark's optimizer.

    The first time that a JVM does either takes a second, and it pays for more rows than a preview has. What is left is
    how Spark itself evaluates a projection of local rows. An expression that only the optimizer makes evaluable, such
    as the current time, is left to it.
    """
    from pyspark.sql.pandas.types import to_arrow_schema

    jvm: Any = frame.sparkSession._jvm  # noqa: SLF001 - nothing public leads there
    catalyst = jvm.org.apache.spark.sql.catalyst
    plan = frame._jdf.queryExecution().analyzed()  # noqa: SLF001
    plan = _only(catalyst.analysis, "EliminateSubqueryAliases").apply(plan)
    plan = _only(catalyst.optimizer, "ReplaceExpressions").apply(plan)
    evaluate, is_new = _only(catalyst.optimizer, "ConvertToLocalRelation"), True
    while is_new:  # each time it takes the innermost projection or filter away
        before, plan = plan, evaluate.apply(plan)
        is_new = not plan.fastEquals(before)
    if plan.getClass().getSimpleName() != "LocalRelation":
        return frame.toArrow()
    batches = _only(jvm.org.apache.spark.sql.execution.arrow, "ArrowConverters").toBatchWithSchemaIterator(
        *(plan.data().iterator(), plan.schema(), _ARROW_ROWS, _ARROW_BYTES, "UTC", True, False)
    )
    tables = []
    while batches.hasNext():
        tables.append(pa.ipc.open_stream(batches.next()).read_all())
    schema = to_arrow_schema(frame.schema, timezone="UTC")
    return pa.concat_tables([each.cast(schema) for each in tables]) if tables else schema.empty_table()


def _only(package: Any, name: str) -> Any:
    """Return the one instance of an object of Scala's."""
    return getattr(getattr(package, f"{name}$"), "MODULE$")


def _as_frame(spark: "SparkSession", rows: pa.Table) -> "DataFrame":
    """Hand rows to the JVM, past the session's own method: that imports pandas first, which takes most of a second."""
    from pyspark.sql.pandas.conversion import SparkConversionMixin

    return SparkConversionMixin.createDataFrame(spark, rows, _spark_schema(rows.schema))


def _spark_schema(schema: pa.Schema) -> Any:
    from pyspark.sql.pandas.types import from_arrow_schema

    return from_arrow_schema(schema)


def _whole_schema(frame: "DataFrame") -> pa.Schema:
    """Return a frame's columns as every row has them: the user's, then Penstock's."""
    from pyspark.sql.pandas.types import to_arrow_schema

    made = to_arrow_schema(frame.schema, timezone="UTC")
    return pa.schema([*(made.field(name) for name in user_columns(made.names)), *RESERVED])


def _in_python(frame: "DataFrame", tasks: list[Task], schema: Any) -> "DataFrame":
    if any("." in name for name in frame.columns):
        frame = frame.toDF(*(name.replace(".", DOT) for name in frame.columns))
    return frame.mapInArrow(Chain(tasks), schema)
