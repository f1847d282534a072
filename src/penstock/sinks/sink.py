"""What every sink is: its model, a part that runs in Spark's tasks and stages rows, and one in the driver.

The order of calls, for each batch. In every task: `Stager.write` for each chunk of rows, in order, then `finish`; a
task may run twice, and only what the driver hears of from the winning attempt counts. In the driver: `prepare`, which
may still refuse rows, and once every sink is prepared and the dead letters are safe, `commit`, which moves data and
positions in one step. A crash between any two of these loses and doubles nothing.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Protocol

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
    """A row that a sink refuses for its data, found only when the driver prepared the commit."""

    source_partition: SourcePartition
    offset: int
    error: RecordError


class Stager(Protocol):
    """Stages rows, inside a task. Rows carry the user's columns and the coordinates."""

    def write(self, rows: pa.RecordBatch, offsets: pa.Array, /) -> list[tuple[int, RecordError]]:
        """Take rows in order, each with its offset in the offset range; return those refused, by index."""

    def finish(self) -> dict[str, Any]:
        """Make the staged rows durable, and return what the driver needs to find them."""


StagerFactory = Callable[[OffsetRange], Stager]
"""Opens a stager for one offset range. Travels to the tasks: small, picklable, and without a secret."""


Replaced = Mapping[SourcePartition, Sequence[OffsetRange]]
"""For each partition of a replay's own, where the records lie that it reads again, in order."""


def overlaps(parts: Iterable[OffsetRange], within: OffsetRange) -> list[OffsetRange]:
    """Return what of the parts lies between the same offsets, at whatever partition those are."""
    cut = (replace(part, start=max(part.start, within.start), end=min(part.end, within.end)) for part in parts)
    return [part for part in cut if part.start < part.end]


def require_landed(sink: str, replaced: Replaced, found: Positions) -> None:
    """Raise if the sink does not stand behind all that is to be replaced, or not any more."""
    for part in (parts[-1] for parts in replaced.values() if parts):
        at = found.get(part.source_partition)
        if at is None or at < part.end:
            stands = "has no position there" if at is None else f"stands at offset {at}"
            raise Conflict(
                f"sink '{sink}' {stands}, and {part} would be replaced: the pipeline has yet to write what lies behind,"
                " or has to write it again, and these rows would be there twice",
                safe="Nothing was changed",
                fix="Run the pipeline until it has caught up; then continue with --resume",
            )


@dataclass(frozen=True)
class SinkContext:
    """What a sink is opened with."""

    name: str
    """The sink's own name, which positions carry."""
    pipeline: str
    connection: Connection
    """The project's Kafka."""
    scratch: Path
    """A folder that tasks share, and that is emptied when a driver starts."""
    spark: Callable[[], "SparkSession"]
    """Starts Spark when it is first called; not before `commit`."""
    replay_suffix: str = ""
    """Keeps what a replay holds, such as its staging, apart from what the live driver does."""


@dataclass(frozen=True)
class RecordLayout:
    """How rows become records of a topic, in Spark's own Kafka sink."""

    topic: str
    key: str | None
    value: str | None
    headers: bool


class SinkModel(BaseModel, frozen=True, extra="forbid"):
    """A sink as it stands in a pipeline file. The model of each sink builds on it, those of other packages, too."""

    guarantee: ClassVar[Literal["exactly once", "at least once"]] = "exactly once"
    """`exactly once` if positions are kept with the data and move in one step with them."""
    can_replace: ClassVar[bool] = False
    """Whether rows can take the place of those that the same records gave before (`Sink.replace`)."""
    can_merge: ClassVar[bool] = False
    """Whether it takes the results of a stateful pipeline (`open_merge`)."""
    target_key: ClassVar[str | None] = None
    """The key that says what it writes to, and that a replay may change; None if there is none."""
    needs_extra: ClassVar[Extra | None] = None
    """What has to be installed besides a plain Penstock, which `pipeline check` looks for."""

    type: str = Field(description="What kind of sink it is; each model has a literal of its own, which is the default.")
    name: str | None = Field(None, description="Name of the sink in reports and positions; its type if left out.")
    where: str | None = Field(None, description="SQL condition: only rows that meet it go to this sink.")

    @property
    def reserved_columns(self) -> tuple[str, ...]:
        """The columns of Penstock that the sink gets behind the user's."""
        return COORDINATES

    @property
    def takes_changes(self) -> bool:
        """Whether it has one row per key, which a change puts in, replaces or takes out."""
        return False

    @property
    def named_columns(self) -> dict[str, list[str]]:
        """The columns of the pipeline that it cannot do without, by the key of the file that names them."""
        return {}

    @property
    def compared_columns(self) -> tuple[str, ...]:
        """The columns by which it tells rows apart itself, so that they cannot be lists, maps or structs."""
        return ()

    def target(self) -> Target | None:
        """Return what it writes to; None if that is nothing which another sink or a source could mean, too."""
        return None

    def target_there(self) -> Target | None:
        """Return the same as its server knows it, which is asked: two names of one place are equal then."""
        return self.target()

    def problems(self, pipeline: PipelineView) -> Iterable[Problem]:  # noqa: ARG002 - most have none
        """Return what is wrong with it in this pipeline, with keys inside the sink. Nothing is started for it."""
        return ()

    @abstractmethod
    def open(self, context: SinkContext) -> "Sink":
        """Make the driver's part; nothing is reached yet."""

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
"""Hears how far a target was read for its positions: its name, how much so far, and of about how much."""


def unheard(_what: str, _done: int, _total: int) -> None:
    """Say nothing of how far it is."""


@dataclass(frozen=True)
class Recovery:
    """What is known when a checkpoint is rebuilt, for a sink that does not know its positions any more."""

    committed: Positions = field(default_factory=dict)
    """What the former checkpoint has of the sink: it has got at least as far."""
    settled: frozenset[SourcePartition] = frozenset()
    """Where it has not gone beyond that."""
    reported: Positions = field(default_factory=dict)
    """The lag that was reported last: the sink has got as far if it was one of the pipeline's then."""
    may_repeat: bool = False
    """Whether rows may be written a second time where it is not known how far the sink got."""
    on_read: OnRead = unheard


NOTHING_KNOWN = Recovery()


class Sink(ABC):
    """The driver's part of a sink."""

    positions_expire = False
    known_target_id = ""
    """What `target_id` was when the checkpoint was written; nothing if that is not on record."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._staged: list[Staged] = []
        self._expected: dict[SourcePartition, int | None] = {}

    def reach(self) -> None:  # noqa: B027 - most sinks are files
        """Connect to what the sink needs; called first, so that a mistake there shows before Spark starts."""

    def caution(self) -> str | None:
        """Return what a user should hear of rows that the target would not keep; None if it keeps them all."""
        return None

    def require_fitting(self, _schema: Callable[[], pa.Schema]) -> SchemaChange | None:
        """Raise what `open` would raise if the table is there and cannot take this schema; nothing is made.

        Return what the first rows will change in its columns; None if it is not there. Only if it is, the schema is
        asked for, which may take a while to work out.
        """
        return None

    @abstractmethod
    def open(self, schema: pa.Schema) -> None:
        """Make the table if it is not there; raise if it cannot take this schema."""

    def target_id(self) -> str:
        """Return what sets the target apart from another of its name, if positions could be forgotten; or nothing."""
        return ""

    @abstractmethod
    def positions(self, source_partitions: Iterable[SourcePartition]) -> Positions | None:
        """Read the positions that the sink keeps; None if it keeps none, and is therefore at least once."""

    def recover(self, source_partitions: Iterable[SourcePartition], recovery: Recovery = NOTHING_KNOWN) -> bool:  # noqa: ARG002 - most sinks keep positions inside their data
        """Before a checkpoint is rebuilt: give up positions that are not true of what the sink holds now, find others.

        Return whether anything was changed; positions that Kafka forgot are put back by `refresh`, once every sink has
        agreed. Raise, and change nothing, if where the sink stands cannot be told for certain from what it holds.
        """
        return False

    def take_over(self) -> None:  # noqa: B027 - most sinks compare positions, which is enough
        """Keep an older driver from writing any more; called once it is sure that this one may run."""

    def hold(self, positions: Positions) -> None:  # noqa: B027 - most sinks keep their positions for good
        """Take note of where the sink stands everywhere, if its positions could be forgotten."""

    def refresh(self) -> None:  # noqa: B027
        """Write positions that could be forgotten again, as they stand; called now and then while nothing comes."""

    def beyond(self, positions: Positions) -> Positions:  # noqa: ARG002 - most sinks keep their positions for good
        """Return positions of what the sink holds from behind these, which were forgotten and may be an old copy's."""
        return {}

    def replace(self, replaced: Replaced) -> None:
        """From here on, let the rows of each offset range take the place of those that its records gave before.

        Rows of other records stay. `positions` then raises if the live pipeline has not written all of these: it would
        write them once more, beside the new ones.
        """
        where = ", ".join(str(part) for parts in replaced.values() for part in parts)
        raise BadInput(f"sink '{self.name}' cannot replace the rows that it has of {where}")

    @abstractmethod
    def stager(self) -> StagerFactory:
        """Return what tasks stage with."""

    def prepare(self, staged: list[Staged], expected: Mapping[SourcePartition, int | None]) -> list[Refusal]:
        """Do all that can fail for the rows' sake; return the rows that are refused.

        An offset range that was staged without rows, and so without details, moves the position alone. It may end far
        beyond every record, at up to 2^63: that is how a replay is ended.
        """
        self._staged, self._expected = staged, dict(expected)
        return []

    def go_on(self, formers: Sequence[str], positions: Positions) -> None:  # noqa: ARG002 - most sinks need only these
        """Stand at these positions from here on: under its `formers` names the sink has written up to there."""
        found = self.positions(positions) or {}
        # One that is further is not set back: an old copy of the checkpoint may say where it stood once.
        moved = {each: at for each, at in positions.items() if found.get(each, -1) < at}
        if moved:
            staged = [Staged(OffsetRange(each, at, at), 0, {}) for each, at in moved.items()]
            self.prepare(staged, {each: found.get(each) for each in moved})
            self.commit()

    @abstractmethod
    def commit(self) -> None:
        """Move data and positions in one step, if the positions are still where they are expected."""

    def maintain(self) -> None:  # noqa: B027 - most sinks keep nothing that has to be looked after
        """Look after what the sink holds, if it is due; called between two batches, and also when there was none."""

    def abandon(self) -> None:  # noqa: B027 - most sinks hold nothing
        """Forget what was prepared: the batch will run again."""

    def close(self) -> None:  # noqa: B027
        """Let go of connections; called once, also after a failure."""
