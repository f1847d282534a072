"""What may be asked, and within which limits. Unknown parameters are refused: a misspelt one would filter nothing."""

import datetime
from typing import Annotated, Literal
from uuid import UUID

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    StringConstraints,
    ValidationInfo,
    field_validator,
    model_validator,
)

from penstock.lineage.keys import in_utc
from penstock.lineage.shapes.lineage import Direction, Granularity
from penstock.lineage.shapes.runs import Status
from penstock.lineage.shapes.shape import StoredText, without_nul

_MOST_IDS = 100
LARGEST_NUMBER = 2**63 - 1


def _in_utc(value: datetime.datetime) -> datetime.datetime:
    """Without an offset a time is in UTC."""
    found = in_utc(value)
    if found is None:
        raise ValueError("in UTC there is no such time")
    return found


Moment = Annotated[datetime.datetime, AfterValidator(_in_utc)]
Number = Annotated[int, Field(ge=0, le=LARGEST_NUMBER)]
Numbers = Annotated[list[Number], Field(max_length=_MOST_IDS)]
Uuids = Annotated[list[UUID], Field(max_length=_MOST_IDS)]
Texts = Annotated[list[StoredText], Field(max_length=_MOST_IDS)]
SearchQuery = Annotated[
    str, StringConstraints(strip_whitespace=True, min_length=3, max_length=1024), AfterValidator(without_nul)
]


class Parameters(BaseModel):
    """Parameters of a request that has none."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Paging(Parameters):
    """Which page is wanted."""

    page: int = Field(default=1, gt=0, le=1_000_000, description="Number of the page.")
    page_size: int = Field(default=20, gt=0, le=50, description="How many items a page has at most.")


class _WithWindow(Parameters):
    @field_validator("until", mode="after", check_fields=False)
    @classmethod
    def _ends_later(cls, until: datetime.datetime | None, info: ValidationInfo) -> datetime.datetime | None:
        since = info.data.get("since")
        if since and until and since >= until:
            raise ValueError("'since' should be less than 'until'")
        return until


class DatasetsQuery(Paging):
    """Which datasets."""

    dataset_id: Numbers = Field(default_factory=list, description="Only these.")
    search_query: SearchQuery | None = Field(
        default=None, description="Words that the name or the location has, in either case; each of them."
    )
    tag_value_id: Numbers = Field(default_factory=list, description="Only those that have all of these values of tags.")
    location_id: Numbers = Field(default_factory=list, description="Only those in these locations.")
    location_type: Texts = Field(default_factory=list, description="Only those in locations of these types.")


class JobsQuery(Paging):
    """Which jobs."""

    job_id: Numbers = Field(default_factory=list, description="Only these.")
    parent_job_id: Numbers = Field(default_factory=list, description="Only children of these.")
    search_query: SearchQuery | None = Field(
        default=None, description="Words that the name or the location has, in either case; each of them."
    )
    job_type: Texts = Field(default_factory=list, description="Only those of these types.")
    tag_value_id: Numbers = Field(default_factory=list, description="Only those that have all of these values of tags.")
    location_id: Numbers = Field(default_factory=list, description="Only those in these locations.")
    location_type: Texts = Field(default_factory=list, description="Only those in locations of these types.")


class LocationsQuery(Paging):
    """Which locations."""

    location_id: Numbers = Field(default_factory=list, description="Only these.")
    location_type: Texts = Field(default_factory=list, description="Only those of these types.")
    search_query: SearchQuery | None = Field(
        default=None, description="Words that the name or an address has, in either case; each of them."
    )


class TagsQuery(Paging):
    """Which tags."""

    tag_id: Numbers = Field(default_factory=list, description="Only these.")
    search_query: SearchQuery | None = Field(
        default=None, description="Words that the name or a value has, in either case; each of them."
    )


class RunsQuery(Paging, _WithWindow):
    """Which runs."""

    since: Moment | None = Field(default=None, description="Made at this time or later, or a stream that goes on then.")
    until: Moment | None = Field(default=None, description="Made at this time or earlier.")
    run_id: Uuids = Field(default_factory=list, description="Only these.")
    search_query: SearchQuery | None = Field(
        default=None, description="Words that the external id or the job's name has, in either case; needs `since`."
    )
    parent_run_id: Uuids = Field(default_factory=list, description="Only children of these; needs `since`.")
    job_id: Numbers = Field(default_factory=list, description="Only those of these jobs; needs `since`.")
    job_type: Texts = Field(default_factory=list, description="Only those of jobs of these types.")
    job_location_id: Numbers = Field(default_factory=list, description="Only those of jobs in these locations.")
    status: list[Status] = Field(default_factory=list, max_length=5, description="Only those that are in this state.")
    started_by_user: Texts = Field(default_factory=list, description="Only those that these users started.")
    started_since: Moment | None = Field(default=None, description="Started at this time or later.")
    started_until: Moment | None = Field(default=None, description="Started at this time or earlier.")
    ended_since: Moment | None = Field(default=None, description="Ended at this time or later.")
    ended_until: Moment | None = Field(default=None, description="Ended at this time or earlier.")

    @model_validator(mode="after")
    def _is_bounded(self) -> "RunsQuery":
        if not self.since and not self.run_id:
            filters = {"job_id": self.job_id, "parent_run_id": self.parent_run_id, "search_query": self.search_query}
            used = [name for name, value in filters.items() if value]
            if used:
                raise ValueError(f"'{used[0]}' can be used only with 'since'")
            raise ValueError("input should contain either 'since' or 'run_id'")
        return self


class OperationsQuery(Paging, _WithWindow):
    """Which operations."""

    since: Moment | None = Field(default=None, description="Made at this time or later, or a stream that goes on then.")
    until: Moment | None = Field(default=None, description="Made at this time or earlier.")
    operation_id: Uuids = Field(default_factory=list, description="Only these.")
    run_id: Uuids = Field(default_factory=list, description="Only those of these runs; needs `since`.")

    @model_validator(mode="after")
    def _is_bounded(self) -> "OperationsQuery":
        if not self.operation_id and not self.run_id:
            raise ValueError("input should contain either 'run_id' or 'operation_id' field")
        if not self.operation_id and not self.since:
            raise ValueError("'run_id' can be used only with 'since'")
        return self


class LineageQuery(_WithWindow):
    """What every question about lineage has."""

    since: Moment = Field(description="What happened at this time or later.")
    until: Moment | None = Field(default=None, description="What happened at this time or earlier; now, if left out.")
    direction: Direction = Field(default="BOTH", description="What it is made from, what is made from it, or both.")
    depth: int = Field(default=1, ge=1, le=10, description="How many steps, from a dataset to a reader or back.")
    include_column_lineage: bool = Field(default=False, description="Whether to include columns.")


class DatasetLineageQuery(LineageQuery):
    """What about a dataset."""

    start_node_id: Number = Field(description="Number of the dataset.")
    granularity: Granularity = Field(
        default="RUN",
        description="Level of detail; the sums for coarser levels come with it. DATASET leaves them all out.",
    )


class JobLineageQuery(LineageQuery):
    """What about a job."""

    start_node_id: Number = Field(description="Number of the job.")
    granularity: Literal["JOB", "RUN"] = Field(default="JOB", description="Level of detail.")


class RunLineageQuery(LineageQuery):
    """What about a run."""

    start_node_id: UUID = Field(description="Id of the run.")
    granularity: Literal["OPERATION", "RUN"] = Field(default="RUN", description="Level of detail.")


class OperationLineageQuery(LineageQuery):
    """What about an operation."""

    start_node_id: UUID = Field(description="Id of the operation.")


class HierarchyQuery(_WithWindow):
    """What about a job."""

    start_node_id: Number = Field(description="Number of the job.")
    direction: Direction = Field(default="BOTH", description="What it waits for, what waits for it, or both.")
    depth: int = Field(default=1, ge=1, le=10, description="How many steps, from job to job.")
    infer_from_lineage: bool = Field(
        default=False, description="Whether a job that reads what another wrote counts as waiting for it."
    )
    since: Moment | None = Field(default=None, description="Inferred from what happened then or later.")
    until: Moment | None = Field(default=None, description="Inferred from what happened then or earlier.")

    @model_validator(mode="after")
    def _is_bounded(self) -> "HierarchyQuery":
        if self.infer_from_lineage and not self.since:
            raise ValueError("'since' is mandatory when 'infer_from_lineage' is used")
        return self


class SearchParameters(Paging):
    """What is looked for."""

    search_query: SearchQuery = Field(description="Words that a name has, in either case; each of them.")
    kind: list[Literal["DATASET", "JOB", "RUN", "LOCATION", "TAG", "USER"]] = Field(
        default_factory=list, max_length=6, description="Only these kinds."
    )


class FacetsQuery(Paging):
    """Which facets."""

    run_id: Uuids = Field(default_factory=list, description="Those of these runs and operations.")
    job_id: Numbers = Field(default_factory=list, description="Those of these jobs.")
    dataset_id: Numbers = Field(default_factory=list, description="Those of these datasets.")
    name: Texts = Field(default_factory=list, description="Only those of these names.")

    @model_validator(mode="after")
    def _is_bounded(self) -> "FacetsQuery":
        if not self.run_id and not self.job_id and not self.dataset_id:
            raise ValueError("input should contain 'run_id', 'job_id' or 'dataset_id'")
        return self


class BatchesQuery(Paging, _WithWindow):
    """Which batches of Penstock's pipelines."""

    dataset_id: Number = Field(description="Those that wrote this dataset.")
    since: Moment = Field(description="Written at this time or later.")
    until: Moment | None = Field(default=None, description="Written at this time or earlier.")


class PersonalTokensQuery(Paging):
    """Which personal tokens."""

    personal_token_id: Uuids = Field(default_factory=list, description="Only these.")
