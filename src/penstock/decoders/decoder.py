"""The contract of decoders: a model in a pipeline file, and what it opens inside each task.

A decoder looks at one value at a time and remembers nothing between two: a task may run twice, and records that fail
are decoded again, alone. A value that it cannot decode fails by itself.
"""

from abc import abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol, Self

import pyarrow as pa
from pydantic import BaseModel, Field

from penstock.config.problem import PipelineView, Problem
from penstock.record.decoded import Decoded
from penstock.record.positions import SourcePartition


@dataclass(frozen=True)
class DecoderContext:
    """What a decoder may need to open."""

    source_partition: SourcePartition
    """Where the values come from."""


class Decoder(Protocol):
    """Decodes many values at once."""

    def decode(self, values: Sequence[bytes | None], /) -> Decoded:
        """Return the columns, an error for each failed value, and which values to drop."""


@dataclass(frozen=True)
class SparkDecoding:
    """How Spark's own expressions decode the same values, for `speed: realtime`."""

    tombstones: str
    """What happens to a value that is null: dead_letter, drop or keep."""
    json_schema: str | None = None
    """Columns that `from_json` reads; if there are none, the value becomes one column."""
    cast: str = "binary"
    """The type of that column."""


class DecoderModel(BaseModel, frozen=True, extra="forbid"):
    """A decoder as it is written in a pipeline file. Base class of every decoder's model, also in other packages.

    It is sent to the tasks, and holds no secret.
    """

    type: str = Field(
        description="What kind of decoder it is; each model has a literal of its own, which is the default."
    )

    @property
    @abstractmethod
    def arrow_schema(self) -> pa.Schema | None:
        """The columns that decoding gives; None if they are not known before it is `resolved`."""

    def resolved(self, topics: Sequence[str]) -> Self:  # noqa: ARG002 - most know all
        """Return the decoder with its columns, from a registry if necessary; called once each time a driver opens.

        If a task finds that the answer has changed, it raises `SchemaChanged`, and the driver opens again.
        """
        return self

    @property
    def can_drop(self) -> bool:
        """Whether it may drop values, so that fewer events arrive than were read."""
        return True

    @property
    def in_spark(self) -> SparkDecoding | None:
        """How Spark's own expressions do the same; None if they cannot, and there is no `speed: realtime`."""
        return None

    def problems(self, pipeline: PipelineView) -> Iterable[Problem]:  # noqa: ARG002 - most have none
        """Return what is wrong with it in this pipeline, with keys inside the decoder."""
        return ()

    @abstractmethod
    def open(self, context: DecoderContext) -> Decoder:
        """Return the decoder; one per task."""
