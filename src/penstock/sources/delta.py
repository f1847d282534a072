"""A landed Delta table, as the source of a stateful pipeline.

Guarantee: each row of the table once, in the order of its commits, kept by Spark's own checkpoint.
"""

from typing import TYPE_CHECKING, Literal

from pydantic import BaseModel, Field

from penstock.errors import NotFound
from penstock.quantities import DurationMs
from penstock.record.target import Target
from penstock.secret import PathFromFile
from penstock.sources.source import SourceModel

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class Watermark(BaseModel, frozen=True, extra="forbid"):
    """How late an event may be before a window closes without it."""

    column: str = Field(description="Column with the time of the event.")
    delay: DurationMs = Field(ge=0, description="How late is still in time.")


class DeltaTable(SourceModel, frozen=True):
    """A table that another pipeline landed; Spark keeps the state and the place in it."""

    type: Literal["delta"] = Field("delta", description="A landed Delta table.")
    path: PathFromFile = Field(description="Folder of the table.")
    watermark: Watermark | None = Field(None, description="When windows close; without it, state is kept for ever.")
    max_files: int = Field(1000, ge=1, description="Files of the table a batch.")

    @property
    def is_table(self) -> bool:
        """It is a table."""
        return True

    @property
    def watermark_column(self) -> str | None:
        """Column by which windows close."""
        return self.watermark.column if self.watermark else None

    def targets(self) -> list[Target]:
        """Return the table's folder."""
        return [Target("folder", str(self.path.resolve()))]

    def stream(self, spark: "SparkSession") -> "DataFrame":
        """Return the table as Spark streams it, in the order of its commits."""
        if not (self.path / "_delta_log").is_dir():
            raise NotFound(f"there is no Delta table at {self.path}", fix="Run the pipeline that lands it first")
        frame = spark.readStream.format("delta").option("maxFilesPerTrigger", self.max_files).load(str(self.path))
        if self.watermark is None:
            return frame
        return frame.withWatermark(self.watermark.column, f"{self.watermark.delay} milliseconds")
