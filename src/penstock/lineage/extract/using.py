"""Operations and what they read and wrote, put together event by event.

Most operations have two events or more that say nearly the same. So what counts is kept here in place, and facts are
made of it once, when they are asked for: to make them of each event and to merge those takes three times as long.
"""

import datetime
from uuid import UUID

import msgspec

from penstock.lineage.collected import Facts
from penstock.lineage.extract import facets
from penstock.lineage.extract.columns import Relations, Schema
from penstock.lineage.facts import ColumnLineage, Input, IoKey, Operation, Output, Run, greater, greater_job
from penstock.lineage.keys import DatasetKey, JobKey

_NO_COUNTS = facets.Statistics()


class _Use(msgspec.Struct, gc=False):
    """What is said of one dataset that an operation reads or writes; `facts.Input.merge` has the rules."""

    run_id: UUID
    job: JobKey
    kinds: int
    schema: UUID | None
    num_bytes: int | None
    num_rows: int | None
    num_files: int | None

    def add(self, run: Run, kinds: int, schema: UUID | None, counts: facets.Statistics) -> None:
        """Take in what another event says."""
        if run.id is not self.run_id:
            self.run_id = max(self.run_id, run.id)
        self.job = greater_job(self.job, run.job)
        self.kinds |= kinds
        if schema is not self.schema:
            self.schema = greater(self.schema, schema)
        if counts is not _NO_COUNTS:
            self.num_bytes = greater(self.num_bytes, counts.size)
            self.num_rows = greater(self.num_rows, counts.row_count)
            self.num_files = greater(self.num_files, counts.file_count)


_Uses = dict[DatasetKey, _Use]


class Hour(msgspec.Struct, gc=False):
    """What an operation reads and writes within an hour."""

    operation_id: UUID
    created_at: datetime.datetime
    """As in `IoKey`."""
    inputs: _Uses
    outputs: _Uses
    column_lineage: dict[tuple[DatasetKey, DatasetKey, int, int, JobKey], tuple[UUID, UUID]]
    """By source, target, fingerprint, run and job; the ids among these as numbers, which are found in half the time."""

    def relates(self, source: DatasetKey, target: DatasetKey, relations: Relations, run: Run) -> None:
        """Add that columns of one dataset are used for another."""
        fingerprint = relations.fingerprint
        self.column_lineage[source, target, fingerprint.int, run.id.int, run.job] = fingerprint, run.id


def put_use(
    into: _Uses, dataset: DatasetKey, run: Run, kinds: int, schema: Schema | None, counts: facets.Statistics | None
) -> None:
    """Add a dataset to what an operation reads or writes."""
    digest, counts = None if schema is None else schema.digest, counts or _NO_COUNTS
    there = into.get(dataset)
    if there is None:
        into[dataset] = _Use(run.id, run.job, kinds, digest, counts.size, counts.row_count, counts.file_count)
    else:
        there.add(run, kinds, digest, counts)


class Operations:
    """All that were met so far."""

    def __init__(self) -> None:
        self._operations: dict[int, Operation] = {}
        self._hours: dict[tuple[int, datetime.datetime], Hour] = {}

    def add(self, operation: Operation) -> None:
        """Add what an event says of an operation."""
        number = operation.id.int
        there = self._operations.setdefault(number, operation)
        if there is not operation and there != operation:
            self._operations[number] = there.merge(operation)

    def hour(self, operation_id: UUID, created_at: datetime.datetime) -> Hour:
        """Return what the operation does in the hour that begins then, to be added to."""
        key = operation_id.int, created_at
        found = self._hours.get(key)
        if found is None:
            found = self._hours[key] = Hour(operation_id, created_at, {}, {}, {})
        return found

    def settle(self, facts: Facts) -> None:
        """Add all of it to the facts; those that were there of the same operations are replaced."""
        facts.operations.update((each.id, each) for each in self._operations.values())
        for hour in self._hours.values():
            _settle(hour, facts)


def _settle(hour: Hour, facts: Facts) -> None:
    id_, created_at = hour.operation_id, hour.created_at
    for dataset, use in hour.inputs.items():
        key = IoKey(id_, dataset, created_at)
        facts.inputs[key] = Input(
            key=key,
            run_id=use.run_id,
            job=use.job,
            schema=use.schema,
            num_bytes=use.num_bytes,
            num_rows=use.num_rows,
            num_files=use.num_files,
        )
    for dataset, use in hour.outputs.items():
        key = IoKey(id_, dataset, created_at)
        facts.outputs[key] = Output(
            key=key,
            run_id=use.run_id,
            job=use.job,
            kinds=use.kinds,
            schema=use.schema,
            num_bytes=use.num_bytes,
            num_rows=use.num_rows,
            num_files=use.num_files,
        )
    for (source, target, _, _, job), (fingerprint, run_id) in hour.column_lineage.items():
        facts.column_lineage.add(ColumnLineage(id_, run_id, job, source, target, created_at, fingerprint))
