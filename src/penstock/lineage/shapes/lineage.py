"""Graphs: the lineage of something, and the hierarchy of jobs."""

import datetime
from typing import Literal

from pydantic import Field

from penstock.lineage.shapes.catalogue import Dataset, Job
from penstock.lineage.shapes.runs import Operation, Run
from penstock.lineage.shapes.shape import Shape

Direction = Literal["DOWNSTREAM", "UPSTREAM", "BOTH"]
Granularity = Literal["OPERATION", "RUN", "JOB", "DATASET"]
Kind = Literal["JOB", "RUN", "OPERATION", "DATASET"]
OutputType = Literal[
    "APPEND", "CREATE", "ALTER", "RENAME", "OVERWRITE", "DROP", "TRUNCATE", "DELETE", "UPDATE", "MERGE"
]
ColumnUseName = Literal[
    "UNKNOWN",
    "IDENTITY",
    "TRANSFORMATION",
    "TRANSFORMATION_MASKING",
    "AGGREGATION",
    "AGGREGATION_MASKING",
    "FILTER",
    "JOIN",
    "GROUP_BY",
    "SORT",
    "WINDOW",
    "CONDITIONAL",
]


class LineageEntity(Shape):
    """One end of a relation."""

    kind: Kind = Field(description="What it is.")
    id: str = Field(description="Its number or UUID.")


class LineageParentRelation(Shape):
    """That one thing is a part of another."""

    from_: LineageEntity = Field(alias="from", description="The whole: a job or a run.")
    to: LineageEntity = Field(description="The part: a job, a run or an operation.")


class LineageSymlinkRelation(Shape):
    """That two names mean the same data."""

    from_: LineageEntity = Field(alias="from", description="A dataset.")
    to: LineageEntity = Field(description="Its other name.")
    type: str = Field(description="What the other name is: METASTORE or WAREHOUSE.")


class LineageInputRelation(Shape):
    """That something was read."""

    from_: LineageEntity = Field(alias="from", description="The dataset.")
    to: LineageEntity = Field(description="Who read it; or the dataset that came of it, if no one is asked for.")
    last_interaction_at: datetime.datetime = Field(description="When it was last read.")
    num_bytes: int | None = Field(default=None, description="How many bytes, in sum.")
    num_rows: int | None = Field(default=None, description="How many rows, in sum.")
    num_files: int | None = Field(default=None, description="How many files, in sum.")


class LineageOutputRelation(Shape):
    """That something was written."""

    from_: LineageEntity = Field(alias="from", description="Who wrote it.")
    to: LineageEntity = Field(description="The dataset.")
    types: list[OutputType] = Field(description="What the writes did; empty if nobody has said it.")
    last_interaction_at: datetime.datetime = Field(description="When it was last written.")
    num_bytes: int | None = Field(default=None, description="How many bytes, in sum.")
    num_rows: int | None = Field(default=None, description="How many rows, in sum.")
    num_files: int | None = Field(default=None, description="How many files, in sum.")


class LineageSourceColumn(Shape):
    """A column that something comes from."""

    field: str = Field(description="Name of the column.")
    types: list[ColumnUseName] = Field(description="What was made of it.")
    last_used_at: datetime.datetime = Field(description="When it was last used so.")


class DirectLineageColumnRelation(Shape):
    """Which columns the values of others are made of."""

    from_: LineageEntity = Field(alias="from", description="The dataset that was read.")
    to: LineageEntity = Field(description="The dataset that was written.")
    fields: dict[str, list[LineageSourceColumn]] = Field(
        default_factory=dict, description="By column of the target: the columns that its values are made of."
    )


class IndirectLineageColumnRelation(Shape):
    """Which columns decide over rows: by a filter, a join and so on."""

    from_: LineageEntity = Field(alias="from", description="The dataset that was read.")
    to: LineageEntity = Field(description="The dataset that was written.")
    fields: list[LineageSourceColumn] = Field(
        default_factory=list, description="Columns that every column of the target depends on."
    )


class LineageRelations(Shape):
    """The edges of a lineage, by kind."""

    parents: list[LineageParentRelation] = Field(default_factory=list, description="What is a part of what.")
    symlinks: list[LineageSymlinkRelation] = Field(default_factory=list, description="Names of the same data.")
    inputs: list[LineageInputRelation] = Field(default_factory=list, description="What was read.")
    outputs: list[LineageOutputRelation] = Field(default_factory=list, description="What was written.")
    direct_column_lineage: list[DirectLineageColumnRelation] = Field(
        default_factory=list, description="Which columns values are made of, if that was asked for."
    )
    indirect_column_lineage: list[IndirectLineageColumnRelation] = Field(
        default_factory=list, description="Which columns decide over rows, if that was asked for."
    )


class LineageNodes(Shape):
    """The nodes, each by its id."""

    datasets: dict[str, Dataset] = Field(default_factory=dict, description="Datasets.")
    jobs: dict[str, Job] = Field(default_factory=dict, description="Jobs.")
    runs: dict[str, Run] = Field(default_factory=dict, description="Runs.")
    operations: dict[str, Operation] = Field(default_factory=dict, description="Operations.")


class Lineage(Shape):
    """Where something comes from, and what is made from it."""

    relations: LineageRelations = Field(default_factory=LineageRelations, description="The edges.")
    nodes: LineageNodes = Field(default_factory=LineageNodes, description="The nodes.")


class JobEntity(Shape):
    """One end of a relation of jobs."""

    kind: Literal["JOB"] = Field(default="JOB", description="A job.")
    id: str = Field(description="Number of the job.")


class JobParentRelation(Shape):
    """That a job starts another."""

    from_: JobEntity = Field(alias="from", description="The parent.")
    to: JobEntity = Field(description="The child.")


class JobDependency(Shape):
    """That a job waits for another."""

    from_: JobEntity = Field(alias="from", description="The job that comes first.")
    to: JobEntity = Field(description="The job that waits.")
    type: str | None = Field(
        default=None, description="As the producer calls it; INFERRED_FROM_LINEAGE if none said it."
    )


class JobHierarchyRelations(Shape):
    """The edges of a hierarchy."""

    parents: list[JobParentRelation] = Field(default_factory=list, description="Which job starts which.")
    dependencies: list[JobDependency] = Field(default_factory=list, description="Which job waits for which.")


class JobHierarchy(Shape):
    """Which jobs a job belongs to, starts, waits for and is waited for."""

    relations: JobHierarchyRelations = Field(default_factory=JobHierarchyRelations, description="The edges.")
    nodes: dict[str, dict[str, Job]] = Field(default_factory=dict, description="Under `jobs`: the jobs by number.")
