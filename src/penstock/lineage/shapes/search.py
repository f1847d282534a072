"""What a search over everything finds, and what Penstock's own pipelines did."""

import datetime
from typing import Any, Literal
from uuid import UUID

from pydantic import Field

from penstock.lineage.shapes.shape import Shape


class SearchResult(Shape):
    """Something whose name has the words."""

    kind: Literal["DATASET", "JOB", "RUN", "LOCATION", "TAG", "USER"] = Field(description="What it is.")
    id: str = Field(description="Its number or UUID.")
    name: str = Field(description="Its name; of a run its external id.")
    context: str | None = Field(description="Where it is: the location, or the job of a run.")


class WriterPosition(Shape):
    """How far the pipeline that fills the store has read a partition."""

    pipeline: str = Field(description="Name of the pipeline.")
    sink: str = Field(description="Name of its sink.")
    topic: str = Field(description="Topic.")
    partition: int = Field(description="Partition.")
    next_offset: int = Field(description="The next offset that it needs.")


class Batch(Shape):
    """A batch of one of Penstock's pipelines that wrote a dataset."""

    run_id: UUID = Field(description="Id of the batch's run.")
    job_id: str = Field(description="Number of the batch's job.")
    written_at: datetime.datetime = Field(description="When it was written.")
    num_rows: int | None = Field(description="How many rows it wrote to this dataset.")
    batch: int | None = Field(description="Number of the batch.")
    offsets: list[dict[str, Any]] = Field(
        description="What it read: topic, topicId, partition, and the offsets from `start` to before `end`."
    )
