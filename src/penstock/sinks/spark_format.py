"""Any format that Spark can write: Parquet, ORC, CSV, or that of a connector on the class path.

Guarantee: at least once. Spark's writers keep no position beside the data, so a crash between the write and the
checkpoint writes the batch again. Use delta, json, postgres or kafka where that matters.
"""

from collections.abc import Iterable
from pathlib import Path
from typing import Literal

import pyarrow as pa
from pydantic import Field, field_validator

from penstock.record.columns import COORDINATES
from penstock.record.positions import OffsetRange, SourcePartition
from penstock.record.target import Target
from penstock.secret import PathFromFile, holds_secret, is_url_with_login
from penstock.sinks.delta_stager import DeltaStager
from penstock.sinks.sink import Sink, SinkContext, SinkModel


class SparkFormat(SinkModel, frozen=True):
    """Files in a format that Spark writes. At least once."""

    guarantee = "at least once"
    target_key = "path"

    type: Literal["spark"] = Field("spark", description="A format of Spark.")
    format: str = Field(pattern=r"^[A-Za-z][\w.]*$", description="Spark's name of the format, such as `parquet`.")
    path: PathFromFile = Field(description="Folder to append to.")
    options: dict[str, str] = Field(default_factory=dict, description="Options of the format; no secrets.")
    coordinates: bool = Field(
        default=True, description="Also write _topic_id, _partition and _offset, which name the record of each row."
    )

    @field_validator("options")
    @classmethod
    def _options_hold_no_secret(cls, value: dict[str, str]) -> dict[str, str]:
        for name, given in value.items():
            if holds_secret(name) or is_url_with_login(given):
                raise ValueError(
                    f"the option '{name}' holds a secret, which Spark may show: give it as a setting under `spark`,"
                    " named as env:NAME or file:PATH"
                )
        return value

    @property
    def reserved_columns(self) -> tuple[str, ...]:
        """The columns of Penstock that go into the files."""
        return COORDINATES if self.coordinates else ()

    def target(self) -> Target:
        """Return its folder."""
        return Target("folder", str(self.path.resolve()), is_shared=False)

    def open(self, context: SinkContext) -> "SparkFormatSink":
        """Make the driver's part."""
        return SparkFormatSink(self, context)


class SparkFormatSink(Sink):
    """Lets Spark copy what the tasks staged."""

    def __init__(self, spec: SparkFormat, context: SinkContext) -> None:
        super().__init__(context.name)
        self._spec = spec
        self._spark = context.spark
        self._scratch = context.scratch / context.name
        self._schema: pa.Schema = None

    def open(self, schema: pa.Schema) -> None:
        """Make the folder that tasks stage in."""
        self._schema = schema
        self._scratch.mkdir(parents=True, exist_ok=True)

    def positions(self, _source_partitions: Iterable[SourcePartition]) -> None:
        """Return none: it keeps no positions."""

    def stager(self) -> "ParquetStagerFactory":
        """Return the stager of Parquet files, which is sent to tasks."""
        return ParquetStagerFactory(self._scratch, self._schema)

    def commit(self) -> None:
        """Append the staged rows."""
        staged = [file for each in self._staged if each.rows for file in each.detail["files"]]
        files = [str(self._scratch / file["file"]) for file in staged]
        if files:
            frame = self._spark().read.parquet(*files)
            frame.write.format(self._spec.format).options(**self._spec.options).mode("append").save(
                str(self._spec.path)
            )
        for path in files:
            Path(path).unlink()


class ParquetStagerFactory:
    """Opens a staged Parquet file for each offset range."""

    def __init__(self, folder: Path, schema: pa.Schema) -> None:
        self._folder = folder
        self._schema = schema

    def __call__(self, _offset_range: OffsetRange) -> DeltaStager:
        """Open the file at the first row."""
        return DeltaStager(self._folder, "part", self._schema)
