"""The contract of sources: a model in a pipeline file, the driver's view of it, and a reader that is sent to the tasks.

A source has partitions, and each partition has offsets that only grow, from 0 on; an offset names the same record
forever. The driver asks what there is to read (`available`), plans an offset range for each partition, and a task reads
one. Whatever is read again after a crash is the same, so a record reaches each sink once.
"""

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

import pyarrow as pa
from pydantic import BaseModel, Field

from penstock.config.problem import PipelineView, Problem
from penstock.errors import BadInput
from penstock.kafka.connection import Connection
from penstock.record.available_range import AvailableRange
from penstock.record.positions import OffsetRange, Positions, SourcePartition
from penstock.record.target import Target

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Skipped = dict[tuple[str, int], list[tuple[int, int]]]
"""By topic id and partition, the first offset that is skipped and the one after the last."""


@dataclass(frozen=True)
class SourceContext:
    """What a source may need to open."""

    connection: Connection
    """The project's Kafka."""
    skipped: Skipped = field(default_factory=dict)
    """Offsets that were given up by `pipeline skip`."""


class PartitionReader(Protocol):
    """Reads offset ranges inside a task. It is sent there: small, picklable, and without a secret."""

    def chunks(
        self, offset_range: OffsetRange, max_bytes: int | None = None, rejected: Collection[int] = (), /
    ) -> Iterator[tuple[pa.RecordBatch, int]]:
        """Yield the reserved columns of each chunk, `_error` only if a record was not readable, and how far it reaches.

        Records at rejected offsets come as bare rows: their contents are not read. It ends at the end of the offset
        range, or earlier once `max_bytes` are read.
        """


class Source(ABC):
    """The driver's view of a source."""

    @property
    def drops_deleted_topics(self) -> bool:
        """Whether a deleted topic is dropped, with a recorded gap; otherwise it stops the pipeline."""
        return False

    @abstractmethod
    def available(self) -> list[AvailableRange]:
        """Look up what the source holds now.

        Names that are not of Kafka's topics contain a slash: no group can keep a position in them.
        """

    @abstractmethod
    def topic_ids(self) -> dict[str, str]:
        """Look up only the topics' ids; another id of the same name stops the pipeline."""

    @abstractmethod
    def starts(self, available: list[AvailableRange]) -> Positions:
        """Return where a new pipeline begins."""

    def start_moves_on(self) -> bool:
        """Return whether `starts` returns something else now than when the pipeline began."""
        return False

    @abstractmethod
    def reader(self) -> PartitionReader:
        """Return the reader, which is sent to tasks."""

    def has(self, topic: str) -> bool:
        """Return whether there is a topic of this name, even if the source does not read it."""
        return topic in self.topic_ids()

    def log_end(self, source_partition: SourcePartition) -> int:  # noqa: ARG002 - most sources have no transactions
        """Return where a partition ends, with records of open transactions; 0 if there can be none behind its end."""
        return 0

    def replaced(self, read: Mapping[SourcePartition, tuple[int, int]]) -> list[OffsetRange]:  # noqa: ARG002 - most sources have no leaders
        """Return what was read and has been replaced by other records, given offsets and leader epochs."""
        return []


class SourceModel(BaseModel, frozen=True, extra="forbid"):
    """A source as it is written in a pipeline file. Base class of every source's model, also in other packages."""

    type: str = Field(
        description="What kind of source it is; each model has a literal of its own, which is the default."
    )

    @property
    def in_kafka(self) -> bool:
        """Whether its partitions are Kafka's: then a range can be replayed, and a record be skipped."""
        return False

    @property
    def is_table(self) -> bool:
        """Whether it is a table, which Spark's own query reads: the pipeline is a stateful one."""
        return False

    @property
    def named_topics(self) -> list[str]:
        """Kafka topics that it names one by one, which Spark's own connector needs."""
        return []

    @property
    def watermark_column(self) -> str | None:
        """Column by which windows close."""
        return None

    def targets(self) -> list[Target]:
        """Return what it reads, as far as the file names it."""
        return []

    def reads(self, target: Target) -> bool:
        """Return whether it reads what a sink writes to: the pipeline would feed itself forever."""
        return target in self.targets()

    def problems(self, pipeline: PipelineView) -> Iterable[Problem]:  # noqa: ARG002 - most have none
        """Return what is wrong with it in this pipeline, with keys inside the source. Nothing is looked up."""
        return ()

    def open(self, context: SourceContext) -> Source:  # noqa: ARG002
        """Return the driver's view, by which batches are read."""
        raise BadInput(f"a `{self.type}` source belongs to a stateful pipeline")

    def stream(self, spark: "SparkSession") -> "DataFrame":  # noqa: ARG002
        """Return a table as Spark streams it, for a stateful pipeline."""
        raise BadInput("a stateful pipeline reads a `delta` source")
