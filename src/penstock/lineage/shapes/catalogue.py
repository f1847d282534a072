"""Locations, datasets, schemas, jobs, tags and users."""

import datetime
from typing import Any, Literal

from pydantic import ConfigDict, Field

from penstock.lineage.shapes.shape import Shape, StoredText


class Address(Shape):
    """One way to reach a location."""

    url: str = Field(description="Such as `kafka://broker-1:9092`.")


class Location(Shape):
    """Where datasets or jobs live."""

    id: str = Field(description="Number of the location.")
    type: str = Field(description="Such as `kafka`, `hive` or `airflow`.")
    name: str = Field(description="Such as `broker-1:9092`.")
    addresses: list[Address] = Field(description="All addresses that it is reached by.")
    external_id: str | None = Field(description="Its id in another catalogue.")


class LocationDatasetStatistics(Shape):
    """Datasets of a location."""

    total_datasets: int = Field(description="How many datasets there are.")


class LocationJobStatistics(Shape):
    """Jobs of a location."""

    total_jobs: int = Field(description="How many jobs there are.")


class LocationStatistics(Shape):
    """What a location has."""

    datasets: LocationDatasetStatistics = Field(description="Its datasets.")
    jobs: LocationJobStatistics = Field(description="Its jobs.")


class LocationDetailed(Shape):
    """A location with what it has."""

    id: str = Field(description="Number of the location.")
    data: Location = Field(description="The location.")
    statistics: LocationStatistics = Field(description="What it has.")


class LocationTypes(Shape):
    """Which types of locations there are."""

    location_types: list[str] = Field(description="Each once, in order.")


class UpdateLocationRequest(Shape):
    """What may be changed about a location."""

    model_config = ConfigDict(extra="forbid")

    external_id: StoredText | None = Field(description="Its id in another catalogue; null takes it away.")


class DatasetSchemaField(Shape):
    """A column."""

    name: str = Field(description="Name of the column.")
    type: str | None = Field(default=None, description="Its type, as the producer calls it.")
    description: str | None = Field(default=None, description="Its description.")
    fields: list["DatasetSchemaField"] = Field(default_factory=list, description="Columns inside it.")


class DatasetSchema(Shape):
    """The columns of a dataset."""

    id: str = Field(description="Number of the schema.")
    fields: list[DatasetSchemaField] = Field(description="The columns.")
    relevance_type: Literal["EXACT_MATCH", "LATEST_KNOWN"] | None = Field(
        default=None,
        description="EXACT_MATCH if all that the answer is about had this schema, LATEST_KNOWN if it is the last one.",
    )


class Dataset(Shape):
    """A table, topic or folder."""

    id: str = Field(description="Number of the dataset.")
    location: Location = Field(description="Where it lives.")
    name: str = Field(description="Its name there.")
    external_id: str | None = Field(description="Its id in another catalogue.")
    external_url: str | None = Field(description="Its page in another catalogue.")
    schema_: DatasetSchema | None = Field(
        default=None, alias="schema", description="Its columns; null if nobody has said them."
    )


class TagValue(Shape):
    """A value that a tag has somewhere."""

    id: int = Field(description="Number of the value.")
    value: str = Field(description="Such as `3.5.4`.")


class Tag(Shape):
    """A tag with its values."""

    id: int = Field(description="Number of the tag.")
    name: str = Field(description="Such as `spark.version`.")
    values: list[TagValue] = Field(default_factory=list, description="Its values: here, or all that there are.")


class TagDetailed(Shape):
    """A tag."""

    id: int = Field(description="Number of the tag.")
    data: Tag = Field(description="The tag with all values that it has anywhere.")


class DatasetDetailed(Shape):
    """A dataset with its tags."""

    id: str = Field(description="Number of the dataset.")
    data: Dataset = Field(description="The dataset.")
    tags: list[Tag] = Field(default_factory=list, description="Its tags.")


class Job(Shape):
    """A program that runs again and again."""

    id: str = Field(description="Number of the job.")
    parent_job_id: str | None = Field(default=None, description="The job that starts it, if one does.")
    location: Location = Field(description="Where it lives.")
    name: str = Field(description="Its name there.")
    type: str = Field(description="Such as SPARK_APPLICATION or AIRFLOW_TASK; UNKNOWN if nobody has said it.")


class JobTypes(Shape):
    """Which types of jobs there are."""

    job_types: list[str] = Field(description="Each once, in order.")


class User(Shape):
    """Somebody who starts runs, or asks."""

    name: str = Field(description="Name of the user.")


class Facet(Shape):
    """A facet that nobody knows, as it came."""

    kind: Literal["RUN", "JOB", "DATASET"] = Field(description="What it belongs to; RUN stands for operations, too.")
    id: str = Field(description="Number or UUID of what it belongs to.")
    name: str = Field(description="Name of the facet.")
    seen_at: datetime.datetime = Field(description="Time of the event that said it last.")
    value: Any = Field(description="The facet as it came.")
