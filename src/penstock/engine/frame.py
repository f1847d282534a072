"""From a pipeline's model to one Spark job: read, decode, steps, expectations, conditions of the sinks."""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.errors import AnalysisException, ParseException
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema

from penstock.engine import attempt
from penstock.engine.tasks import DOT, MANIFEST, Chain, Decode, ReadTask, Task, event_schema
from penstock.errors import BadInput
from penstock.pipeline.columns import rule_column, user_columns, where_column
from penstock.pipeline.spec import PipelineSpec
from penstock.steps.callbacks import Callbacks
from penstock.steps.python import Python
from penstock.steps.sql import Select, Sql

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class Frame:
    """Builds the job of one batch. As much as possible runs in one Python worker per task; SQL goes through the JVM."""

    def __init__(self, spec: PipelineSpec, spark: "SparkSession", folder: Path, notes: Path) -> None:
        if spec.decode is None:
            raise BadInput(f"pipeline '{spec.name}' has no decoder")
        self._spec = spec
        self._spark = spark
        self._folder = folder
        self._notes = notes
        self._decode: Decode = spec.decode
        self.schema = self._learn_schema()

    @property
    def can_filter(self) -> bool:
        """Tell whether steps may leave events out, so that fewer arrive than were read."""
        for step in self._spec.steps:
            if isinstance(step, Python | Callbacks) or (isinstance(step, Sql) and Select(step.sql).where):
                return True
        return getattr(self._decode, "tombstones", "") == "drop"

    @property
    def columns(self) -> list[str]:
        """The user's columns after the last step."""
        return user_columns(self.schema.names)

    def _learn_schema(self) -> pa.Schema:
        """Let Spark work out the columns without running anything; its complaints are the user's."""
        schema = event_schema(self._decode)
        tasks, frame = self._through_steps([], self._empty(schema), schema)
        schema = tasks[-1].schema if tasks else to_arrow_schema(frame.schema, timezone="UTC")  # type: ignore[attr-defined]
        tested = self._spark.createDataFrame([], from_arrow_schema(schema))
        self._judged(tested)
        return schema

    def _empty(self, schema: pa.Schema) -> "DataFrame":
        return self._spark.createDataFrame([], from_arrow_schema(schema))

    def _through_steps(
        self, tasks: list[Task], frame: "DataFrame", schema: pa.Schema
    ) -> tuple[list[Task], "DataFrame"]:
        """Collect Python tasks; at each SQL step run those collected so far, then the SQL."""
        for step in self._spec.steps:
            if isinstance(step, Sql):
                if tasks:
                    frame = _in_python(frame, tasks, from_arrow_schema(schema))
                    tasks = []
                frame = self._sql(frame, Select(step.sql))
                schema = to_arrow_schema(frame.schema, timezone="UTC")
            elif isinstance(step, Python | Callbacks):
                task = step.task(schema, self._folder, self._notes)
                tasks, schema = [*tasks, task], task.schema
        return tasks, frame

    def _sql(self, frame: "DataFrame", query: Select) -> "DataFrame":
        try:
            return attempt.select(self._spark, frame, query)
        except (AnalysisException, ParseException) as error:
            raise self._explained(error) from None

    def _explained(self, error: Any) -> BadInput:
        reason = str(error).splitlines()[0]
        return BadInput(
            f"pipeline '{self._spec.name}': Spark does not understand the SQL: {reason}", safe="Nothing ran"
        )

    def _judged(self, frame: "DataFrame") -> "DataFrame":
        """Add a column per expectation, and one per sink that has a condition."""
        rules = {rule_column(number): rule.that for number, rule in enumerate(self._spec.expect)}
        strict = [
            rule_column(number)
            for number, rule in enumerate(self._spec.expect)
            if rule.otherwise in {"dead_letter", "drop"}
        ]
        wheres = {where_column(number): sink.where for number, sink in enumerate(self._spec.sinks) if sink.where}
        try:
            frame = attempt.judge(self._spark, frame, "expect", rules, only_if=[])
            return attempt.judge(self._spark, frame, "where", wheres, only_if=strict)
        except (AnalysisException, ParseException) as error:
            raise self._explained(error) from None

    def manifests(self, read: ReadTask, write: Task) -> list[str]:
        """Run the job; give what each task has to tell."""
        count = len(read.stretches)
        begin = self._spark.range(0, count, 1, count)
        schema = event_schema(self._decode)
        tasks, frame = self._through_steps([read], begin, schema)
        if self._spec.expect or any(sink.where for sink in self._spec.sinks):
            if tasks:
                frame = _in_python(frame, tasks, from_arrow_schema(self.schema))
                tasks = []
            frame = self._judged(frame)
        return [row[0] for row in _in_python(frame, [*tasks, write], MANIFEST).collect()]

    def probe(self, read: ReadTask, index: int, start: int, end: int, drain: Task) -> None:
        """Run the steps over a part of one stretch, and throw the rows away."""
        part = replace(read.stretches[index], start=start, end=end)
        self.manifests(
            replace(read, stretches=[part], condemned=[read.condemned[index]], counted_from=[[]], max_bytes=None), drain
        )


def _in_python(frame: "DataFrame", tasks: list[Task], schema: Any) -> "DataFrame":
    return frame.toDF(*(name.replace(".", DOT) for name in frame.columns)).mapInArrow(Chain(tasks), schema)
