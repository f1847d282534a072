"""What lineage events say, in the words of the store: the vocabulary between extraction and storing.

Guarantee: merging is commutative, associative and idempotent, so facts of the same events are equal whatever their
order, however often each came, and however they were split into batches. The store holds the same rules:

- of two spellings, texts or counts that contradict each other the greater counts, and known beats unknown; text
  compares by code point (in PostgreSQL: COLLATE "C"), and jobs by their name first. No time has to be kept beside such
  a field;
- a run or operation starts at the least time of START or RUNNING, and ends at the greatest of a terminal event. The
  greatest status counts, so one that failed stays so: Spark sends FAIL for an execution, and then COMPLETE;
- where values replace each other in the course of time (a job's parent, a facet), the later counts, then the greater;
- addresses, tags, symlinks, dependencies and kinds of write add up.

Nothing here is changed in place: merged structs are new ones. `collected.py` has the facts of many events together.
"""

import datetime
from enum import IntEnum, IntFlag
from typing import NamedTuple, TypeVar
from uuid import UUID

import msgspec

from penstock.lineage.keys import DatasetKey, JobKey, LocationKey

Value = TypeVar("Value")


class Status(IntEnum):
    """How far a run or an operation is."""

    UNKNOWN = -1
    STARTED = 0
    SUCCEEDED = 1
    FAILED = 2
    KILLED = 3


class WriteKind(IntFlag):
    """What a write did to its dataset."""

    APPEND = 1
    CREATE = 2
    ALTER = 4
    RENAME = 8
    OVERWRITE = 16
    DROP = 32
    TRUNCATE = 64
    DELETE = 128
    UPDATE = 256
    MERGE = 512


class ColumnUse(IntFlag):
    """What a target makes of a source column. From FILTER on the use is indirect: it shapes rows, not a value."""

    UNKNOWN = 1
    IDENTITY = 2
    TRANSFORMATION = 4
    TRANSFORMATION_MASKING = 8
    AGGREGATION = 16
    AGGREGATION_MASKING = 32
    FILTER = 64
    JOIN = 128
    GROUP_BY = 256
    SORT = 512
    WINDOW = 1024
    CONDITIONAL = 2048


class Location(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """Where datasets or jobs live, with all addresses that it is reached by: `kafka://broker-1:9092`."""

    key: LocationKey
    addresses: frozenset[str]

    def merge(self, other: "Location") -> "Location":
        """Add up the addresses."""
        return Location(self.key, self.addresses | other.addresses)


class Dataset(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """A table, topic or folder."""

    key: DatasetKey
    name: str
    """As it was spelt."""

    def merge(self, other: "Dataset") -> "Dataset":
        """Keep the greater spelling: lower case, where there is one."""
        return self if self.name >= other.name else other


class Symlink(NamedTuple):
    """Another name of the same data; there is always one each way."""

    source: DatasetKey
    target: DatasetKey
    type: str
    """METASTORE if the target is the table's name in a catalogue, WAREHOUSE if it is the place of its files."""


class DatasetSchema(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """That a dataset had a schema, and when."""

    dataset: DatasetKey
    digest: UUID
    first_seen: datetime.datetime
    last_seen: datetime.datetime

    def merge(self, other: "DatasetSchema") -> "DatasetSchema":
        """Span both times."""
        return DatasetSchema(
            self.dataset,
            self.digest,
            min(self.first_seen, other.first_seen),
            max(self.last_seen, other.last_seen),
        )


class Job(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """A program that runs again and again."""

    key: JobKey
    name: str
    """As it was spelt."""
    type: str | None = None
    """SPARK_APPLICATION, AIRFLOW_DAG and so on; None if no event has said it yet (UNKNOWN in answers)."""
    parent: JobKey | None = None
    parent_at: datetime.datetime | None = None
    """When the parent was last said; None with the parent."""

    def merge(self, other: "Job") -> "Job":
        """Keep the type that is known, and the later parent."""
        parent_at, parent = self.parent_at, self.parent
        if other.parent is not None and other.parent_at is not None:
            if parent is None or parent_at is None or other.parent_at > parent_at:
                parent_at, parent = other.parent_at, other.parent
            elif other.parent_at == parent_at:
                parent = greater_job(parent, other.parent)
        return Job(self.key, max(self.name, other.name), greater(self.type, other.type), parent, parent_at)


class JobDependency(NamedTuple):
    """That one job waits for another or starts it, without being its parent."""

    source: JobKey
    target: JobKey
    type: str
    """DIRECT_DEPENDENCY or INDIRECT_DEPENDENCY, or what the producer calls it."""


class JobTag(NamedTuple):
    """A tag of a job, such as `spark.version` and `3.5.4`."""

    job: JobKey
    name: str
    value: str


class DatasetTag(NamedTuple):
    """A tag of a dataset."""

    dataset: DatasetKey
    name: str
    value: str


class Run(msgspec.Struct, frozen=True, gc=False, array_like=True, kw_only=True):
    """One run of a job."""

    id: UUID
    created_at: datetime.datetime
    """The time in the id if that is a UUIDv7, or else the least time of its events."""
    job: JobKey
    parent_id: UUID | None = None
    status: int = Status.UNKNOWN
    started_at: datetime.datetime | None = None
    ended_at: datetime.datetime | None = None
    external_id: str | None = None
    attempt: str | None = None
    persistent_log_url: str | None = None
    running_log_url: str | None = None
    started_by: str | None = None
    """Name of the user."""
    start_reason: str | None = None
    """MANUAL or AUTOMATIC."""
    end_reason: str | None = None
    expected_start_at: datetime.datetime | None = None
    expected_end_at: datetime.datetime | None = None

    def merge(self, other: "Run") -> "Run":
        """Put together what two events say of the run."""
        return Run(
            id=self.id,
            created_at=min(self.created_at, other.created_at),
            job=greater_job(self.job, other.job),
            parent_id=greater(self.parent_id, other.parent_id),
            status=max(self.status, other.status),
            started_at=_least(self.started_at, other.started_at),
            ended_at=greater(self.ended_at, other.ended_at),
            external_id=greater(self.external_id, other.external_id),
            attempt=greater(self.attempt, other.attempt),
            persistent_log_url=greater(self.persistent_log_url, other.persistent_log_url),
            running_log_url=greater(self.running_log_url, other.running_log_url),
            started_by=greater(self.started_by, other.started_by),
            start_reason=greater(self.start_reason, other.start_reason),
            end_reason=greater(self.end_reason, other.end_reason),
            expected_start_at=greater(self.expected_start_at, other.expected_start_at),
            expected_end_at=greater(self.expected_end_at, other.expected_end_at),
        )


class Operation(msgspec.Struct, frozen=True, gc=False, array_like=True, kw_only=True):
    """One step of a run that reads and writes, such as a job of a Spark application; a run may be its own only one."""

    id: UUID
    run_id: UUID
    created_at: datetime.datetime
    """The time in the id if that is a UUIDv7, or else the least time of its events."""
    name: str
    status: int = Status.UNKNOWN
    started_at: datetime.datetime | None = None
    ended_at: datetime.datetime | None = None
    type: str | None = None
    """BATCH or STREAMING; None if no event has said it yet (BATCH in answers)."""
    position: int | None = None
    group: str | None = None
    description: str | None = None
    sql: str | None = None

    def merge(self, other: "Operation") -> "Operation":
        """Put together what two events say of the operation."""
        return Operation(
            id=self.id,
            run_id=self.run_id if self.run_id is other.run_id else max(self.run_id, other.run_id),
            created_at=min(self.created_at, other.created_at),
            name=max(self.name, other.name),
            status=max(self.status, other.status),
            started_at=_least(self.started_at, other.started_at),
            ended_at=greater(self.ended_at, other.ended_at),
            type=greater(self.type, other.type),
            position=greater(self.position, other.position),
            group=greater(self.group, other.group),
            description=greater(self.description, other.description),
            sql=greater(self.sql, other.sql),
        )


class IoKey(NamedTuple):
    """A dataset that an operation reads or writes, within an hour; in the store, this is the row's key.

    A longer operation has a row for each hour in which it said so, and is seen in every window that it covers.
    """

    operation_id: UUID
    dataset: DatasetKey
    created_at: datetime.datetime
    """Begin of the hour, counted from the time in the operation's id; whole hours of the clock if that is no UUIDv7."""


class Input(msgspec.Struct, frozen=True, gc=False, array_like=True, kw_only=True):
    """That an operation reads a dataset."""

    key: IoKey
    run_id: UUID
    job: JobKey
    """The run's job."""
    schema: UUID | None = None
    num_bytes: int | None = None
    num_rows: int | None = None
    num_files: int | None = None

    def merge(self, other: "Input") -> "Input":
        """Keep the greater counts."""
        return Input(
            key=self.key,
            run_id=self.run_id if self.run_id is other.run_id else max(self.run_id, other.run_id),
            job=greater_job(self.job, other.job),
            schema=greater(self.schema, other.schema),
            num_bytes=greater(self.num_bytes, other.num_bytes),
            num_rows=greater(self.num_rows, other.num_rows),
            num_files=greater(self.num_files, other.num_files),
        )


class Output(msgspec.Struct, frozen=True, gc=False, array_like=True, kw_only=True):
    """That an operation writes a dataset."""

    key: IoKey
    run_id: UUID
    job: JobKey
    """The run's job."""
    kinds: int = 0
    """`WriteKind`, added up; 0 if no event has said it yet: answers then name none."""
    schema: UUID | None = None
    num_bytes: int | None = None
    num_rows: int | None = None
    num_files: int | None = None

    def merge(self, other: "Output") -> "Output":
        """Keep the greater counts, and all kinds of write."""
        return Output(
            key=self.key,
            run_id=self.run_id if self.run_id is other.run_id else max(self.run_id, other.run_id),
            job=greater_job(self.job, other.job),
            kinds=self.kinds | other.kinds,
            schema=greater(self.schema, other.schema),
            num_bytes=greater(self.num_bytes, other.num_bytes),
            num_rows=greater(self.num_rows, other.num_rows),
            num_files=greater(self.num_files, other.num_files),
        )


class ColumnRelation(NamedTuple):
    """That a column of the source is used for one of the target."""

    source_column: str
    target_column: str | None
    """None if the use is indirect, and so concerns every column."""
    uses: int
    """`ColumnUse`, added up."""


class ColumnLineage(NamedTuple):
    """That an operation used columns of one dataset for another, within an hour; all of it is the row's key."""

    operation_id: UUID
    run_id: UUID
    job: JobKey
    source: DatasetKey
    target: DatasetKey
    created_at: datetime.datetime
    """As in `IoKey`."""
    fingerprint: UUID
    """Which relations: `Facts.column_relations` has them. The same relations always have the same fingerprint."""


class Facet(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """A facet that nobody knows, as it came."""

    seen_at: datetime.datetime
    value: bytes
    """JSON, to be kept as this text: PostgreSQL's jsonb would reorder it, and refuse numbers such as 1e999999."""

    def merge(self, other: "Facet") -> "Facet":
        """Keep the later, then the greater."""
        return self if (self.seen_at, self.value) >= (other.seen_at, other.value) else other


def greater(one: Value | None, other: Value | None) -> Value | None:
    """Return the greater of two, or the one that is known."""
    if one is None or one is other:
        return other
    return one if other is None or one >= other else other  # type: ignore[operator]


def greater_job(one: JobKey, other: JobKey) -> JobKey:
    """Return the one with the greater name: that stays as it is when locations are found to be one."""
    return one if one is other else max(one, other, key=_name_first)


def _name_first(job: JobKey) -> tuple[str, LocationKey]:
    return job.name, job.location


def _least(one: datetime.datetime | None, other: datetime.datetime | None) -> datetime.datetime | None:
    if one is None or other is None:
        return one or other
    return min(one, other)
