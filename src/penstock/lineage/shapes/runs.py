"""Runs and operations, with what they read and wrote in sum."""

import datetime
from typing import Literal
from uuid import UUID

from pydantic import Field

from penstock.lineage.shapes.catalogue import Job, Tag, User
from penstock.lineage.shapes.shape import Shape

Status = Literal["UNKNOWN", "STARTED", "SUCCEEDED", "FAILED", "KILLED"]


class Run(Shape):
    """One run of a job."""

    id: UUID = Field(description="Id of the run, as its producer made it.")
    created_at: datetime.datetime = Field(description="The time in the id, or of its first event.")
    job_id: str | None = Field(description="The job; null while only a child has named the run.")
    parent_run_id: UUID | None = Field(default=None, description="The run that started it, if one did.")
    status: Status = Field(description="How far it is.")
    external_id: str | None = Field(default=None, description="Its id where it runs, such as `application_1_2`.")
    attempt: str | None = Field(default=None, description="Which attempt it is.")
    persistent_log_url: str | None = Field(default=None, description="Where its log stays.")
    running_log_url: str | None = Field(default=None, description="Where it is watched while it runs.")
    started_at: datetime.datetime | None = Field(default=None, description="When it started.")
    started_by_user: User | None = Field(default=None, description="Who started it.")
    start_reason: str | None = Field(default=None, description="MANUAL or AUTOMATIC.")
    ended_at: datetime.datetime | None = Field(default=None, description="When it ended.")
    end_reason: str | None = Field(default=None, description="Why it ended so.")
    expected_start_at: datetime.datetime | None = Field(default=None, description="When it should have started.")
    expected_end_at: datetime.datetime | None = Field(default=None, description="When it should have ended.")


class Operation(Shape):
    """One step of a run that reads and writes."""

    id: UUID = Field(description="Id of the operation, as its producer made it.")
    created_at: datetime.datetime = Field(description="The time in the id, or of its first event.")
    run_id: UUID = Field(description="The run.")
    status: Status = Field(description="How far it is.")
    name: str = Field(description="Its name.")
    type: str = Field(description="BATCH or STREAMING.")
    position: int | None = Field(description="Its place among the operations of the run.")
    group: str | None = Field(description="What it belongs to within the run.")
    description: str | None = Field(description="What it is for.")
    sql_query: str | None = Field(description="The SQL that it ran.")
    started_at: datetime.datetime | None = Field(description="When it started.")
    ended_at: datetime.datetime | None = Field(description="When it ended.")


class IoStatistics(Shape):
    """What was read, or written, in sum."""

    total_datasets: int = Field(default=0, description="How many datasets.")
    total_bytes: int = Field(default=0, description="How many bytes.")
    total_rows: int = Field(default=0, description="How many rows.")
    total_files: int = Field(default=0, description="How many files.")


class OperationStatistics(Shape):
    """What an operation read and wrote."""

    outputs: IoStatistics = Field(description="Written.")
    inputs: IoStatistics = Field(description="Read.")


class OperationDetailed(Shape):
    """An operation with what it read and wrote."""

    id: UUID = Field(description="Id of the operation.")
    data: Operation = Field(description="The operation.")
    statistics: OperationStatistics = Field(description="What it read and wrote.")


class RunOperationStatistics(Shape):
    """Operations of a run."""

    total_operations: int = Field(default=0, description="How many operations.")


class RunStatistics(Shape):
    """What a run read and wrote."""

    outputs: IoStatistics = Field(description="Written.")
    inputs: IoStatistics = Field(description="Read.")
    operations: RunOperationStatistics = Field(description="Its operations.")


class RunDetailed(Shape):
    """A run with its job and what it read and wrote."""

    id: UUID = Field(description="Id of the run.")
    data: Run = Field(description="The run.")
    job: Job | None = Field(description="Its job; null while only a child has named the run.")
    statistics: RunStatistics = Field(description="What it read and wrote.")


class JobDetailed(Shape):
    """A job with its tags and its last run."""

    id: str = Field(description="Number of the job.")
    data: Job = Field(description="The job.")
    tags: list[Tag] = Field(default_factory=list, description="Its tags.")
    last_run: Run | None = Field(default=None, description="Its last run, if there is one.")
