"""Reads events into facts, one after the other."""

import datetime
from typing import Any
from uuid import UUID

from penstock.lineage import events
from penstock.lineage.collected import Facts, put, put_facet
from penstock.lineage.extract import facets, names, understood, writes
from penstock.lineage.extract.airflow import Airflow
from penstock.lineage.extract.catalogue import Catalogue
from penstock.lineage.extract.columns import Relations
from penstock.lineage.extract.dbt import Dbt
from penstock.lineage.extract.flink import Flink
from penstock.lineage.extract.hive import Hive
from penstock.lineage.extract.penstock import Penstock
from penstock.lineage.extract.producer import Enclosing, Producer, Reading, RunDetails
from penstock.lineage.extract.spark import Spark
from penstock.lineage.extract.using import Operations, put_use
from penstock.lineage.facts import Operation, Run, Status
from penstock.lineage.keys import NO_RUN, DatasetKey, declared_by, in_utc, time_of

_HOUR = datetime.timedelta(hours=1)
_STATUSES = {
    "START": Status.STARTED,
    "RUNNING": Status.STARTED,
    "COMPLETE": Status.SUCCEEDED,
    "FAIL": Status.FAILED,
    "ABORT": Status.KILLED,
}
_CUSTOM = Producer()
_PRODUCERS: dict[str, Producer] = {
    "SPARK": Spark(),
    "AIRFLOW": Airflow(),
    "DBT": Dbt(),
    "FLINK": Flink(),
    "HIVE": Hive(),
    "PENSTOCK": Penstock(),
}


class Extractor:
    """Collects the facts of many events; one for each task."""

    def __init__(self) -> None:
        self._facts = Facts()
        self._catalogue = Catalogue(self._facts)
        self._operations = Operations()
        self._run_facets = understood.Remembered(understood.RUN)
        self._job_facets = understood.Remembered(understood.JOB)
        self._ids: dict[int, tuple[UUID, datetime.datetime | None]] = {}
        """Each id once, and its time: to find that two are the same object takes a tenth of comparing them."""
        self._enclosing: dict[tuple[int, str, str, str | None], Run] = {}
        """Runs of which events of their operations say nothing but whose they are."""

    @property
    def facts(self) -> Facts:
        """All that was said so far."""
        self._catalogue.settle()
        self._operations.settle(self._facts)
        return self._facts

    def add(self, event: events.Event) -> None:
        """Add what one event says."""
        if event.run is not None and event.job is not None:
            self._add_run_event(event, event.run, event.job)
        elif event.job is not None:
            self._add_job_event(event, event.job)
        elif event.dataset is not None:
            self._catalogue.dataset(event.dataset, _CUSTOM, event.event_time)

    def _add_job_event(self, event: events.Event, said: events.Job) -> None:
        """Add a job and what it is said to read and write. No run and no operation has done so."""
        time = event.event_time
        known, unknown = self._job_facets.read(said.facets)
        reading = Reading(event, NO_RUN, None, said.namespace, said.name, {}, known)
        job = self._catalogue.job(said.namespace, said.name, _type(reading.job))
        self._catalogue.tags(job, reading.job.get("tags"))
        for name, facet in unknown:
            put_facet(self._facts.job_facets, (job, name), time, facet)
        reading.run_id = declared_by(job)
        producer, run = _producer(reading.job, said.namespace), Run(id=NO_RUN, created_at=time, job=job)
        self._reads_and_writes(reading, producer, run, _sql(reading))

    def _add_run_event(self, event: events.Event, event_run: events.Run, event_job: events.Job) -> None:
        time, number = event.event_time, event_run.run_id.int
        named = self._ids.get(number)
        if named is None:
            named = self._ids[number] = event_run.run_id, time_of(event_run.run_id)
        run_id, created_at = named
        run_known, run_unknown = self._run_facets.read(event_run.facets)
        job_known, job_unknown = self._job_facets.read(event_job.facets)
        reading = Reading(event, run_id, created_at, event_job.namespace, event_job.name, run_known, job_known)
        parent: facets.ParentRun | None = run_known.get("parent")
        if parent is not None and parent.run.run_id == NO_RUN:  # said by who knows no parent
            run_unknown = [*run_unknown, ("parent", bytes((event_run.facets or {})["parent"]))]
        elif parent is not None and parent.run.run_id.int != number:
            reading.parent = parent
        producer = _producer(reading.job, event_job.namespace)
        is_operation = producer.is_operation(reading)
        enclosing = producer.enclosing(reading) if is_operation else None
        if enclosing is None:
            run = self._own_run(reading, producer)
        else:
            run = self._enclosing_run(reading, producer, enclosing)
            if "errorMessage" in run_known and event_run.facets is not None:
                error = ("errorMessage", bytes(event_run.facets["errorMessage"]))  # which is not the run's
                run_unknown = [*run_unknown, error]
        job = run.job
        self._catalogue.versions(job, run_known.get("processing_engine"))
        self._catalogue.tags(job, run_known.get("tags"))
        self._catalogue.tags(job, job_known.get("tags"))
        self._catalogue.dependencies(job, run_known.get("jobDependencies"))
        for name, facet in run_unknown:
            owner = run.id if name in producer.facets_of_run else run_id
            put_facet(self._facts.run_facets, (owner, name), time, facet)
        for name, facet in job_unknown:
            put_facet(self._facts.job_facets, (job, name), time, facet)
        if is_operation:
            self._operation(reading, producer, run)

    def _add_run(self, run: Run) -> Run:
        put(self._facts.runs, run.id, run)
        if run.started_by is not None:
            self._facts.users.add(run.started_by)
        return run

    def _own_run(self, reading: Reading, producer: Producer) -> Run:
        """Add the run that the event is about."""
        time, parent = reading.event.event_time, reading.parent
        status = _STATUSES.get(reading.event.event_type or "", Status.UNKNOWN)
        parent_job = None if parent is None else self._catalogue.parent(parent, producer.parent_type, time)
        nominal: facets.NominalTime | None = reading.run.get("nominalTime")
        planned_from = planned_to = None
        if nominal is not None:
            planned_from = in_utc(nominal.nominal_start_time)
            if nominal.nominal_end_time is not None and nominal.nominal_end_time != nominal.nominal_start_time:
                planned_to = in_utc(nominal.nominal_end_time)
        error: facets.ErrorMessage | None = reading.run.get("errorMessage")
        return self._add_run(
            Run(
                id=reading.run_id,
                created_at=reading.created_at or time,
                job=self._catalogue.job(reading.namespace, reading.job_name, _type(reading.job), parent_job, time),
                parent_id=None if parent is None else parent.run.run_id,
                status=int(status),
                started_at=time if status is Status.STARTED else None,
                ended_at=time if status > Status.STARTED else None,
                end_reason=None if error is None else error.message,
                expected_start_at=planned_from,
                expected_end_at=planned_to,
                **_details(reading, producer),
            )
        )

    def _enclosing_run(self, reading: Reading, producer: Producer, enclosing: Enclosing) -> Run:
        """Add the run that the event's operation belongs to, as far as the event knows it."""
        time, parent = reading.event.event_time, enclosing.parent
        parent_job = None if parent is None else self._catalogue.parent(parent, producer.parent_type, time)
        if parent is None and reading.parent is not None:
            self._catalogue.root(reading.parent, time)
        details = _details(reading, producer)
        said = (enclosing.run_id.int, enclosing.namespace, enclosing.job_name, enclosing.job_type)
        is_bare = parent is None and enclosing.started_at is None and not details
        if is_bare and (known := self._enclosing.get(said)) is not None:
            return known
        created_at = time_of(enclosing.run_id)
        run = self._add_run(
            Run(
                id=enclosing.run_id,
                created_at=created_at or time,
                job=self._catalogue.job(enclosing.namespace, enclosing.job_name, enclosing.job_type, parent_job, time),
                parent_id=None if parent is None else parent.run.run_id,
                status=int(Status.UNKNOWN if enclosing.started_at is None else Status.STARTED),
                started_at=enclosing.started_at,
                **details,
            )
        )
        if is_bare and created_at is not None:
            self._enclosing[said] = run
        return run

    def _operation(self, reading: Reading, producer: Producer, run: Run) -> None:
        """Add the event's operation, with what it reads and writes."""
        event = reading.event
        time = event.event_time
        status = _STATUSES.get(event.event_type or "", Status.UNKNOWN)
        job_type: facets.JobType | None = reading.job.get("jobType")
        processing = "" if job_type is None else (job_type.processing_type or "").upper()
        operation = Operation(
            id=reading.run_id,
            run_id=run.id,
            created_at=reading.created_at or time,
            status=int(status),
            started_at=time if status is Status.STARTED else producer.began(reading),
            ended_at=time if status > Status.STARTED else None,
            type=processing if processing in ("BATCH", "STREAMING") else None,
            sql=_sql(reading),
            **producer.operation_details(reading),
        )
        self._operations.add(operation)
        self._reads_and_writes(reading, producer, run, operation.sql)

    def _reads_and_writes(self, reading: Reading, producer: Producer, run: Run, sql: str | None) -> None:
        """Add what the event's operation reads and writes, and of which columns that is made."""
        event = reading.event
        datasets: list[tuple[events.Dataset, DatasetKey]] = []
        hour = self._operations.hour(reading.run_id, _hour(reading.created_at, event.event_time))
        for each in event.inputs or ():
            dataset, known = self._catalogue.dataset(each, producer, event.event_time)
            datasets.append((each, dataset))
            put_use(hour.inputs, dataset, run, 0, known.get("schema"), known.get("inputStatistics"))
        related: list[tuple[DatasetKey, tuple[Relations, ...]]] = []
        for each in event.outputs or ():
            dataset, known = self._catalogue.dataset(each, producer, event.event_time)
            datasets.append((each, dataset))
            kinds = _kinds(known, reading, producer, sql)
            put_use(hour.outputs, dataset, run, kinds, known.get("schema"), known.get("outputStatistics"))
            if "columnLineage" in known:
                related.append((dataset, known["columnLineage"]))
        tables = {(said.namespace, said.name): dataset for said, dataset in datasets} if related else {}
        for target, relations in related:
            for of_source in relations:
                source = tables.get((of_source.namespace, of_source.name))
                if source is None:
                    source = self._catalogue.named(producer, of_source.namespace, of_source.name)
                self._facts.column_relations[of_source.fingerprint] = of_source.relations
                hour.relates(source, target, of_source, run)


def _kinds(known: dict[str, Any], reading: Reading, producer: Producer, sql: str | None) -> int:
    """Return what a write did: as its facets say, or else the SQL, or else the producer."""
    change: facets.Lifecycle | None = known.get("lifecycleStateChange")
    kinds = 0 if change is None else writes.of_state(change.lifecycle_state_change)
    return kinds or (0 if sql is None else writes.of_sql(sql)) or producer.writes(reading)


def _details(reading: Reading, producer: Producer) -> RunDetails:
    details = producer.run_details(reading)
    user = details.get("started_by")
    if user is not None:
        details["started_by"] = names.bounded(user)
    return details


def _producer(job_facets: dict[str, Any], namespace: str) -> Producer:
    job_type: facets.JobType | None = job_facets.get("jobType")
    if job_type is not None:
        return _PRODUCERS.get(job_type.integration.upper(), _CUSTOM)
    return _PRODUCERS["HIVE"] if namespace.startswith("hive://") else _CUSTOM


def _sql(reading: Reading) -> str | None:
    said: facets.Sql | None = reading.job.get("sql")
    return None if said is None else said.query.strip() or None


def _type(job_facets: dict[str, Any]) -> str | None:
    job_type: facets.JobType | None = job_facets.get("jobType")
    if job_type is None:
        return None
    kind = f"{job_type.integration}_{job_type.job_type}" if job_type.job_type else job_type.integration
    return names.bounded(kind.upper())


def _hour(created_at: datetime.datetime | None, time: datetime.datetime) -> datetime.datetime:
    """Return the begin of the hour in which the time lies, as `IoKey` counts them."""
    if created_at is None:
        return time.replace(minute=0, second=0, microsecond=0)
    later = time - created_at
    return created_at if later < _HOUR else created_at + later // _HOUR * _HOUR
