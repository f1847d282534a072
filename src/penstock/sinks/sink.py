"""The contract of sinks: a model, a part that runs in Spark's tasks and stages rows, and a part in the driver.

The order of calls, for each batch. In every task: `Stager.write` for each chunk of rows, in order, then `finish`; a
task may run twice, and only what the driver hears of from the winning attempt counts. In the driver: `prepare`, which
may still refuse rows, and once every sink is prepared and the dead letters are safe, `commit`, which moves data and
positions in one step. A crash between any two of these loses and doubles nothing.
"""

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple, Protocol

import pyarrow as pa
from pydantic import BaseModel, Field

from penstock.config.problem import PipelineView, Problem
from penstock.errors import BadInput, Conflict
from penstock.extras import Extra
from penstock.kafka.connection import Connection
from penstock.record.columns import COORDINATES
from penstock.record.decoded import RecordError
from penstock.record.positions import OffsetRange, Positions, SourcePartition
from penstock.record.target import Target
from penstock.sinks.schema_change import SchemaChange

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from penstock.sinks.merging import MergeContext, MergingSink


@dataclass(frozen=True)
class Staged:
    """What one winning task has staged for one sink."""

    offset_range: OffsetRange
    rows: int
    detail: dict[str, Any]


@dataclass(frozen=True)
class Refusal:
    """A row that a sink refuses for its data, found only when the driver prepares the commit."""

    source_partition: SourcePartition
    offset: int
    error: RecordError


class Stager(Protocol):
    """Stages rows, inside a task. Rows carry the user's columns and the coordinates."""

    def write(self, rows: pa.RecordBatch, offsets: pa.Array, /) -> list[tuple[int, RecordError]]:
        """Take rows in order, each with its offset in the offset range; return the refused ones, by index."""

    def finish(self) -> dict[str, Any]:
        """Make the staged rows durable, and return what the driver needs to find them."""


StagerFactory = Callable[[OffsetRange], Stager]
"""Opens a stager for one offset range. It is sent to the tasks: small, picklable, and without a secret."""


Replaced = Mapping[SourcePartition, Sequence[OffsetRange]]
"""For each of a replay's partitions, where the records are that it reads again, in order."""


def overlaps(parts: Iterable[OffsetRange], within: OffsetRange) -> list[OffsetRange]:
    """Return the overlap of the parts with these offsets, in whatever partition."""
    cut = (replace(part, start=max(part.start, within.start), end=min(part.end, within.end)) for part in parts)
    return [part for part in cut if part.start < part.end]


def require_landed(sink: str, replaced: Replaced, found: Positions) -> None:
    """Raise unless the sink has written everything that is to be replaced."""
    for part in (parts[-1] for parts in replaced.values() if parts):
        at = found.get(part.source_partition)
        if at is None or at < part.end:
            stands = "has no position there" if at is None else f"is at offset {at}"
            raise Conflict(
                f"sink '{sink}' {stands}, and {part} would be replaced: the pipeline has yet to write what lies behind,"
                " or has to write it again, and these rows would be doubled",
                safe="Nothing was changed",
                fix="Run the pipeline until it has caught up; then continue with --resume",
            )


_POSITION_NAME = re.compile(r"([^/]+)/([^/]+)/(.+)/([0-9]+)")


class Position(NamedTuple):
    """A position as a target has it on record, of whatever pipeline and sink."""

    pipeline: str
    sink: str
    topic_id: str
    partition: int
    next_offset: int

    @classmethod
    def named(cls, name: str, next_offset: int) -> "Position | None":
        """Take a name apart, `pipeline/sink/topic id/partition`; None if it is another one."""
        match = _POSITION_NAME.fullmatch(name)
        return match and cls(match[1], match[2], match[3], int(match[4]), next_offset)

    @classmethod
    def of_others(cls, named: Mapping[str, int], pipeline: str) -> "list[Position]":
        """Return where other pipelines stand; another sink of the same one is what this one was called before."""
        positions = (cls.named(name, next_offset) for name, next_offset in named.items())
        return [each for each in positions if each is not None and each.pipeline != pipeline]


def require_alone(sink: str, replaced: Replaced, others: Iterable[Position]) -> None:
    """Raise if others have written rows of the records that are to be replaced: these would be taken out, too.

    Coordinates do not say who has written a row. A range that others have replayed to here counts like what they read.
    """
    for part in (part for parts in replaced.values() for part in parts):
        topic_id, partition = part.source_partition.topic_id, part.source_partition.partition
        for each in others:
            is_of_it = each.topic_id == topic_id or each.topic_id.endswith(f"-{topic_id}")
            if is_of_it and each.partition == partition and each.next_offset > part.start:
                raise Conflict(
                    f"sink '{each.sink}' of pipeline '{each.pipeline}' has written rows of {part.source_partition} to"
                    f" where sink '{sink}' writes, too: they would be taken out with the rows that are replaced, and"
                    " nothing would come in their place",
                    safe="Nothing was changed",
                    fix="Send the range to another target with --into",
                )


@dataclass(frozen=True)
class SinkContext:
    """What a sink is opened with."""

    name: str
    """The sink's name, which its positions carry."""
    pipeline: str
    connection: Connection
    """The project's Kafka."""
    scratch: Path
    """A folder that all tasks share; it is emptied when a driver starts."""
    spark: Callable[[], "SparkSession"]
    """Starts Spark when it is first called; not before `commit`."""
    replay_suffix: str = ""
    """Distinguishes what a replay creates, such as its staging, from the live driver's."""


@dataclass(frozen=True)
class RecordLayout:
    """How rows become records of a topic, in Spark's own Kafka sink."""

    topic: str
    key: str | None
    value: str | None
    headers: bool


class SinkModel(BaseModel, frozen=True, extra="forbid"):
    """A sink as it is written in a pipeline file. Base class of every sink's model, also in other packages."""

    guarantee: ClassVar[Literal["exactly once", "at least once"]] = "exactly once"
    """`exactly once` if positions are kept with the data and move with them in one step."""
    can_replace: ClassVar[bool] = False
    """Whether rows can replace those that the same records produced before (`Sink.replace`)."""
    can_merge: ClassVar[bool] = False
    """Whether it accepts the results of a stateful pipeline (`open_merge`)."""
    target_key: ClassVar[str | None] = None
    """The key that says what it writes to, and that a replay may change; None if there is none."""
    needs_extra: ClassVar[Extra | None] = None
    """The extra that has to be installed; `pipeline check` looks for it."""

    type: str = Field(description="What kind of sink it is; each model has a literal of its own, which is the default.")
    name: str | None = Field(None, description="Name of the sink in reports and positions; its type if left out.")
    where: str | None = Field(None, description="SQL condition: only rows that meet it go to this sink.")

    @property
    def reserved_columns(self) -> tuple[str, ...]:
        """The columns of Penstock that the sink gets behind the user's."""
        return COORDINATES

    @property
    def takes_changes(self) -> bool:
        """Whether it has one row per key, which a change inserts, replaces or deletes."""
        return False

    @property
    def named_columns(self) -> dict[str, list[str]]:
        """The columns of the pipeline that it needs, by the key of the file that names them."""
        return {}

    @property
    def compared_columns(self) -> tuple[str, ...]:
        """The columns by which it tells rows apart itself, so that they cannot be lists, maps or structs."""
        return ()

    def target(self) -> Target | None:
        """Return what it writes to; None if no other sink or source can name the same."""
        return None

    def target_there(self) -> Target | None:
        """Return the same as the server knows it, which is asked: two names of one target are then equal."""
        return self.target()

    def problems(self, pipeline: PipelineView) -> Iterable[Problem]:  # noqa: ARG002 - most have none
        """Return what is wrong with it in this pipeline, with keys inside the sink. Nothing is started."""
        return ()

    @abstractmethod
    def open(self, context: SinkContext) -> "Sink":
        """Make the driver's part; it connects to nothing yet."""

    def open_here(self, name: str, pipeline: str) -> "Sink | None":  # noqa: ARG002 - most ask a server
        """Make the driver's part to compare columns, if the target is there and no server is needed for that."""
        return None

    def open_merge(self, context: "MergeContext") -> "MergingSink":
        """Make the driver's part for a stateful pipeline, if it `can_merge`."""
        raise BadInput(
            f"a sink of type '{self.type}' cannot take the results of a stateful pipeline as '{context.name}'"
        )

    def realtime(self) -> RecordLayout | None:
        """Return how Spark itself writes rows to it, record by record; None if it cannot be written to in real time."""
        return None


OnRead = Callable[[str, int, int], None]
"""Called with the progress of reading a target for its positions: its name, how much so far, and of about how much."""


def ignore_progress(_what: str, _done: int, _total: int) -> None:
    """Do nothing: nobody shows the progress."""


@dataclass(frozen=True)
class Recovery:
    """What is known when a checkpoint is rebuilt, for a sink that has lost its positions."""

    committed: Positions = field(default_factory=dict)
    """The former checkpoint's positions of the sink: it has got at least as far."""
    settled: frozenset[SourcePartition] = frozenset()
    """Where it has not gone further than that."""
    reported: Positions = field(default_factory=dict)
    """The lag that was reported last: the sink has got as far if it was one of the pipeline's then."""
    may_repeat: bool = False
    """Whether rows may be written twice where it is not known how far the sink got."""
    on_read: OnRead = ignore_progress


NOTHING_KNOWN = Recovery()


class Sink(ABC):
    """The driver's part of a sink."""

    positions_expire = False
    known_target_id = ""
    """What `target_id` was when the checkpoint was written; empty if that was not recorded."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._staged: list[Staged] = []
        self._expected: dict[SourcePartition, int | None] = {}

    def reach(self) -> None:  # noqa: B027 - most sinks are files
        """Connect to what the sink needs; called first, so that a mistake there shows before Spark starts."""

    def caution(self) -> str | None:
        """Return a warning about rows that the target would not keep; None if it keeps them all."""
        return None

    def require_fitting(self, _schema: Callable[[], pa.Schema]) -> SchemaChange | None:
        """Raise what `open` would raise if the table is there and cannot take this schema; nothing is made.

        Return what the first rows will change in its columns; None if it is not there. The schema is asked for only if
        the table is there, because working it out may take a while.
        """
        return None

    @abstractmethod
    def open(self, schema: pa.Schema) -> None:
        """Make the table if it is not there; raise if it cannot take this schema."""

    def target_id(self) -> str:
        """Return an id that no other target of this name has, if positions could be forgotten; otherwise empty."""
        return ""

    @abstractmethod
    def positions(self, source_partitions: Iterable[SourcePartition]) -> Positions | None:
        """Read the positions that the sink keeps; None if it keeps none, and is therefore at least once."""

    def recover(self, source_partitions: Iterable[SourcePartition], recovery: Recovery = NOTHING_KNOWN) -> bool:  # noqa: ARG002 - most sinks keep positions inside their data
        """Before a checkpoint is rebuilt: drop positions that do not fit what the sink holds now, and find others.

        Return whether anything was changed; positions that Kafka forgot are put back by `refresh`, once every sink has
        agreed. Raise, and change nothing, if the positions cannot be determined for certain from what the sink holds.
        """
        return False

    def take_over(self) -> None:  # noqa: B027 - most sinks compare positions, which is enough
        """Keep an older driver from writing; called once it is certain that this one may run."""

    def hold(self, positions: Positions) -> None:  # noqa: B027 - most sinks keep their positions for good
        """Remember all positions of the sink, if they could be forgotten."""

    def refresh(self) -> None:  # noqa: B027
        """Write positions that could be forgotten again, unchanged; called now and then while no events come."""

    def beyond(self, positions: Positions) -> Positions:  # noqa: ARG002 - most sinks keep their positions for good
        """Return positions of what the sink holds from behind these, which were forgotten and may be an old copy's."""
        return {}

    def replace(self, replaced: Replaced) -> None:
        """From now on, let the rows of each offset range replace those that its records produced before.

        Rows of other records stay. `positions` then raises unless the live pipeline has written all of these: otherwise
        it would write them again, beside the new ones.
        """
        where = ", ".join(str(part) for parts in replaced.values() for part in parts)
        raise BadInput(f"sink '{self.name}' cannot replace the rows that it has of {where}")

    @abstractmethod
    def stager(self) -> StagerFactory:
        """Return the stager, which is sent to tasks."""

    def prepare(self, staged: list[Staged], expected: Mapping[SourcePartition, int | None]) -> list[Refusal]:
        """Do everything that rows could make fail; return the refused rows.

        An offset range without rows, and so without details, only moves the position. It may end far beyond every
        record, at up to 2^63: that is how a replay is ended.
        """
        self._staged, self._expected = staged, dict(expected)
        return []

    def go_on(self, formers: Sequence[str], positions: Positions) -> None:  # noqa: ARG002 - most sinks need only these
        """Continue from these positions: under its `formers` names the sink has written up to there."""
        found = self.positions(positions) or {}
        # One that is further is not set back: an old copy of the checkpoint may say where it stood once.
        moved = {each: at for each, at in positions.items() if found.get(each, -1) < at}
        if moved:
            staged = [Staged(OffsetRange(each, at, at), 0, {}) for each, at in moved.items()]
            self.prepare(staged, {each: found.get(each) for each in moved})
            self.commit()

    @abstractmethod
    def commit(self) -> None:
        """Commit data and positions in one step, if the positions are still as expected."""

    def maintain(self) -> None:  # noqa: B027 - most sinks keep nothing that has to be looked after
        """Maintain what the sink holds, if it is due; called between two batches, and also when there was none."""

    def abandon(self) -> None:  # noqa: B027 - most sinks hold nothing
        """Roll back what was prepared: the batch will run again."""

    def close(self) -> None:  # noqa: B027
        """Close connections; called once, also after a failure."""
