"""A stateful Python step: what SQL cannot express on a stream, such as ranking.

Guarantee: the state is Spark's, kept in its checkpoint together with the place in the source.
"""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field, field_validator

from penstock.config.problem import PipelineView, Problem
from penstock.record.schema import parse
from penstock.steps.step import StepModel
from penstock.steps.user_code import CodeName, load_function
from penstock.steps.user_modules import first_in, own_modules

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class Stateful(StepModel, frozen=True):
    """A `StatefulProcessor` of PySpark, run by its transformWithState."""

    keyword = "stateful"
    is_row_local = False
    takes_tables = True

    stateful: CodeName = Field(description="The class, as `module:Class`.")
    key: list[str] = Field(min_length=1, description="Columns whose values share one state.")
    returns: str = Field(description="Columns that come out, as in `decode.schema`.")
    timers: Literal["none", "event_time", "processing_time"] = Field(
        "none", description="What the processor's timers follow, if it has any: the watermark, or the clock."
    )

    @field_validator("returns")
    @classmethod
    def _returns_is_understood(cls, value: str) -> str:
        parse(value)
        return value

    @property
    def user_code(self) -> str:
        """The class."""
        return self.stateful

    def problems(self, pipeline: PipelineView, names: list[str] | None) -> Iterator[Problem]:  # noqa: ARG002
        """Find timers that would never end."""
        if pipeline.is_stateful and self.timers == "processing_time" and pipeline.speed == "scheduled":
            yield Problem.error("timers that follow the clock never come to an end: use `speed: stream`", "timers")

    def on_table(self, frame: "DataFrame", folder: Path) -> "DataFrame":
        """Return what the processor makes of the rows of each key."""
        from pyspark import cloudpickle
        from pyspark.sql.pandas.types import from_arrow_schema

        with first_in(folder):
            processor: Any = load_function(self.stateful, folder)
            for module in [sys.modules[processor.__module__], *own_modules()]:
                # By value: the process in which Spark asks for the state has neither our path nor added files.
                cloudpickle.register_pickle_by_value(module)  # type: ignore[no-untyped-call]
            return frame.groupBy(*self.key).transformWithState(
                statefulProcessor=processor(),
                outputStructType=from_arrow_schema(parse(self.returns)),
                outputMode="Update",
                timeMode={"none": "None", "event_time": "EventTime", "processing_time": "ProcessingTime"}[self.timers],
            )
