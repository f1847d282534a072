"""The facets that are understood, each with the fields that are used. Names are OpenLineage's own.

A facet that is not listed, or is not as it should be, is kept as it came.
"""

import datetime
from typing import Annotated
from uuid import UUID

import msgspec

Count = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
"""What a database's 64 bits hold."""
Position = Annotated[int, msgspec.Meta(ge=-(2**31), le=2**31 - 1)]


class _Facet(msgspec.Struct, gc=False, rename="camel"):
    pass


class _SnakeFacet(msgspec.Struct, gc=False):
    """Airflow, dbt and some others write their fields with underscores."""


class Identifier(_Facet):
    """Name of a job or dataset."""

    namespace: str
    name: str


class RunIdentifier(_Facet):
    """Name of a run."""

    run_id: UUID


class Root(_Facet):
    """The run that started all."""

    run: RunIdentifier
    job: Identifier


class ParentRun(_Facet):
    """The run that started this one."""

    run: RunIdentifier
    job: Identifier
    root: Root | None = None


class ProcessingEngine(_Facet):
    """What runs it, with its version and that of the integration."""

    version: str
    name: str | None = None
    openlineage_adapter_version: str | None = None


class NominalTime(_Facet):
    """For when it was planned."""

    nominal_start_time: datetime.datetime
    nominal_end_time: datetime.datetime | None = None


class ErrorMessage(_Facet):
    """Why it failed."""

    message: str


class Tag(_Facet):
    """A tag; of a column if it has a field."""

    key: str
    value: str | bool | int | float | None = None
    field: str | None = None


class Tags(_Facet):
    """Tags of a run, a job or a dataset."""

    tags: list[Tag] = msgspec.field(default_factory=list)


class Dependency(_SnakeFacet):
    """Another job."""

    job: Identifier
    dependency_type: str | None = None


class JobDependencies(_SnakeFacet):
    """The jobs that this one waits for, and those that wait for it."""

    upstream: list[Dependency] | None = None
    downstream: list[Dependency] | None = None


class SparkApplication(_Facet):
    """A Spark application."""

    application_id: str
    user_name: str | None = None
    ui_web_url: str | None = None
    proxy_url: str | None = None
    history_url: str | None = None


class SparkJob(_Facet):
    """A job of a Spark application."""

    job_id: Position | None = None
    job_description: str | None = None
    job_group: str | None = None


class AirflowDag(_SnakeFacet):
    """An Airflow DAG."""

    dag_id: str
    owner: str | None = None


class AirflowDagRun(_SnakeFacet):
    """A run of a DAG."""

    run_id: str
    run_type: str | None = None
    data_interval_start: datetime.datetime | None = None


class AirflowTaskGroup(_SnakeFacet):
    """The group of a task."""

    group_id: str | None = None


class AirflowTask(_SnakeFacet):
    """A task of a DAG."""

    task_id: str
    operator_class: str | None = None
    task_group: AirflowTaskGroup | None = None


class AirflowTaskInstance(_SnakeFacet):
    """A try of a task."""

    try_number: Position | None = None
    map_index: Position | None = None
    log_url: str | None = None


class AirflowDagRunFacet(_Facet):
    """What Airflow says of a DAG's run."""

    dag: AirflowDag
    dag_run: AirflowDagRun


class AirflowTaskFacet(_Facet):
    """What Airflow says of a task's run."""

    dag: AirflowDag
    dag_run: AirflowDagRun
    task: AirflowTask
    task_instance: AirflowTaskInstance


class DbtRun(_SnakeFacet):
    """An invocation of dbt."""

    invocation_id: str


class FlinkJob(_Facet):
    """A job of Flink."""

    job_id: str


class HiveQuery(_Facet):
    """A query of Hive."""

    query_id: str
    operation_name: str | None = None


class HiveSession(_Facet):
    """A session of Hive, in which queries run."""

    session_id: str
    creation_time: datetime.datetime
    username: str | None = None
    client_ip: str | None = None


class CustomRun(_SnakeFacet):
    """What a producer of one's own says of its run, as the founding system understands it."""

    external_id: str | None = None
    attempt: str | None = None
    running_log_url: str | None = None
    persistent_log_url: str | None = None
    start_reason: str | None = None
    started_by_user: str | None = None


class CustomOperation(_SnakeFacet):
    """What a producer of one's own says of its operation."""

    name: str | None = None
    description: str | None = None
    group: str | None = None
    position: Position | None = None


class JobType(_Facet):
    """Which integration it is, and what of it."""

    integration: str
    processing_type: str | None = None
    job_type: str | None = None


class Sql(_Facet):
    """The query."""

    query: str


class SchemaField(_Facet, omit_defaults=True):
    """A column, or a field of one."""

    name: str
    type: str | None = None
    description: str | None = None
    fields: list["SchemaField"] | None = None


class Schema(_Facet):
    """The columns of a dataset."""

    fields: list[SchemaField] | None = None


class SymlinkIdentifier(_Facet):
    """Another name of the same data; a TABLE is its name in a catalogue, anything else a place of files."""

    namespace: str
    name: str
    type: str


class Symlinks(_Facet):
    """The other names of a dataset."""

    identifiers: list[SymlinkIdentifier] | None = None


class Transformation(_Facet):
    """What becomes of a column."""

    type: str
    subtype: str | None = None
    masking: bool | None = None


class ColumnReference(_Facet):
    """A column of a source."""

    namespace: str
    name: str
    field: str
    transformations: list[Transformation] | None = None


class ColumnSources(_Facet):
    """What a column of the target is made of; the type is that of older producers."""

    input_fields: list[ColumnReference] = msgspec.field(default_factory=list)
    transformation_type: str | None = None


class ColumnLineage(_Facet):
    """What the columns of a target are made of, and what shapes all of its rows."""

    fields: dict[str, ColumnSources] = msgspec.field(default_factory=dict)
    dataset: list[ColumnReference] | None = None


class Lifecycle(_Facet):
    """What a write did to the dataset."""

    lifecycle_state_change: str


class Statistics(_Facet):
    """How much was read or written."""

    row_count: Count | None = None
    size: Count | None = None
    file_count: Count | None = None
