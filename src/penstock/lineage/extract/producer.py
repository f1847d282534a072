"""What sets one producer of events apart from another. `Producer` itself is one that nobody knows."""

import datetime
from typing import Any, TypedDict
from uuid import UUID

import msgspec

from penstock.lineage.events import Event
from penstock.lineage.extract import facets


class Reading(msgspec.Struct, gc=False):
    """A RunEvent with the facets that are understood, by name."""

    event: Event
    run_id: UUID
    created_at: datetime.datetime | None
    """The time in that id, if it has one."""
    namespace: str
    """The job's."""
    job_name: str
    run: dict[str, Any]
    job: dict[str, Any]
    parent: facets.ParentRun | None = None
    """The run that started this one."""

    @property
    def job_type(self) -> str:
        """What the event's job is to its producer: APPLICATION, DAG, MODEL; nothing if it does not say."""
        facet: facets.JobType | None = self.job.get("jobType")
        return "" if facet is None else (facet.job_type or "").upper()


class Enclosing(msgspec.Struct, gc=False):
    """The run that an operation belongs to, where that is not its own."""

    run_id: UUID
    namespace: str
    job_name: str
    job_type: str | None
    started_at: datetime.datetime | None = None
    """If the event says it."""
    parent: facets.ParentRun | None = None


class RunDetails(TypedDict, total=False):
    """What a producer's own facets say of a run, by the names of `facts.Run`."""

    external_id: str | None
    attempt: str | None
    persistent_log_url: str | None
    running_log_url: str | None
    started_by: str | None
    start_reason: str | None


class OperationDetails(TypedDict, total=False):
    """What a producer's own facets say of an operation, by the names of `facts.Operation`."""

    name: str
    position: int | None
    group: str | None
    description: str | None


class Producer:
    """A producer of one's own. It may say more in the facets `dataRentgen_run` and `dataRentgen_operation`."""

    prefers_tables = False
    """Whether a dataset that has a name in a catalogue goes by that."""
    parent_type: str | None = None
    """The type of the job that starts its runs, if that can only be one."""
    facets_of_run: frozenset[str] = frozenset()
    """Facets nobody knows that come with each operation, and say something of the run that it belongs to."""

    def is_operation(self, reading: Reading) -> bool:
        """Return whether the event is about something that reads or writes, and not about a run alone."""
        return bool(reading.event.inputs or reading.event.outputs or "dataRentgen_operation" in reading.run)

    def enclosing(self, reading: Reading) -> Enclosing | None:
        """Return the run that the operation belongs to; None if that is the event's own run."""
        parent = reading.parent
        if parent is None or "dataRentgen_operation" not in reading.run or "dataRentgen_run" in reading.run:
            return None
        return of_parent(parent, None)

    def run_details(self, reading: Reading) -> RunDetails:
        """Return what else is said of the run."""
        said: facets.CustomRun | None = reading.run.get("dataRentgen_run")
        if said is None:
            return {}
        return {
            "external_id": said.external_id,
            "attempt": said.attempt,
            "persistent_log_url": said.persistent_log_url,
            "running_log_url": said.running_log_url,
            "started_by": said.started_by_user,
            "start_reason": said.start_reason,
        }

    def operation_details(self, reading: Reading) -> OperationDetails:
        """Return what else is said of the operation, and its name."""
        said: facets.CustomOperation | None = reading.run.get("dataRentgen_operation")
        if said is None:
            return {"name": reading.job_name}
        return {
            "name": said.name or reading.job_name,
            "position": said.position,
            "group": said.group,
            "description": said.description,
        }

    def began(self, reading: Reading) -> datetime.datetime | None:  # noqa: ARG002 - most send a START
        """Return when the operation began, if an event that is no START says so."""
        return None

    def dataset_name(self, name: str) -> str:
        """Return the name that a dataset goes by."""
        return name

    def is_symlink(self, identifier: facets.SymlinkIdentifier) -> bool:  # noqa: ARG002 - most are
        """Return whether a symlink names anything."""
        return True

    def writes(self, reading: Reading) -> int:  # noqa: ARG002 - some have more to say
        """Return the kind of write that its own words say; 0 if they say none."""
        return 0


def of_parent(parent: facets.ParentRun, job_type: str | None) -> Enclosing:
    """Return the parent as the run that an operation belongs to."""
    return Enclosing(parent.run.run_id, parent.job.namespace, parent.job.name, job_type)
