"""What sinks have in common whose table is a folder of Parquet files: Delta's and Iceberg's."""

from collections.abc import Callable, Iterable, Iterator

from pydantic import Field

from penstock.config.problem import PipelineView, Problem
from penstock.errors import Conflict
from penstock.record.columns import COORDINATES
from penstock.record.positions import SourcePartition
from penstock.record.target import Target
from penstock.secret import PathFromFile
from penstock.sinks.partitioning import PartitionBy
from penstock.sinks.sink import SinkModel


class TableFolder(SinkModel, frozen=True):
    """A table in a folder that all workers share: appended to, or with one row per key. Exactly once."""

    can_replace = True
    can_merge = True
    target_key = "path"

    path: PathFromFile = Field(description="Folder of the table; made if it is not there.")
    key: list[str] = Field(
        default_factory=list,
        description="Columns that identify a row: there is one row per key, the newest. Rows are appended if left out.",
    )
    coordinates: bool = Field(
        default=True, description="Also write _topic_id, _partition and _offset, which name the record of each row."
    )
    partition_by: list[PartitionBy] = Field(default_factory=list, description="What the table is partitioned by.")

    @property
    def reserved_columns(self) -> tuple[str, ...]:
        """The columns of Penstock that go into the table."""
        return COORDINATES if self.coordinates else ()

    @property
    def takes_changes(self) -> bool:
        """Whether it has one row per key."""
        return bool(self.key)

    @property
    def named_columns(self) -> dict[str, list[str]]:
        """The columns of the key and of the partitions."""
        return {"key": self.key, "partition_by": [each.column for each in self.partition_by]}

    @property
    def compared_columns(self) -> tuple[str, ...]:
        """The columns of the key."""
        return tuple(self.key)

    def target(self) -> Target:
        """Return its folder."""
        return Target("folder", str(self.path.resolve()), is_shared=False)

    def problems(self, pipeline: PipelineView) -> Iterator[Problem]:
        """Return what is wrong with the key, by which results are merged."""
        if pipeline.is_stateful and not self.key:
            yield Problem.error("results that change need a `key` to be merged by")
        if self.key and not self.coordinates and not pipeline.is_stateful:
            yield Problem.error("which row of a key is the newest, only `coordinates` tell", "coordinates")


def require_no_rows(
    what: str, pipeline: str, source_partitions: Iterable[SourcePartition], has_rows: Callable[[SourcePartition], bool]
) -> None:
    """Raise if the table has rows of partitions that it has no position at: a copy of one that had, as a rule."""
    for each in source_partitions:
        if has_rows(each):
            raise Conflict(
                f"{what} has no position at {each}, and rows of it, which would be written twice if it were filled"
                " from the source's start",
                safe="Nothing was changed",
                fix="Give the sink another `path`, which is filled from the source's start, or take the rows with"
                f" _topic_id = '{each.topic_id}' out of the table; or, if they may come again, run: penstock pipeline"
                f" rebuild {pipeline} --may-repeat",
            )


def require_empty(what: str, pipeline: str, *, has_rows: bool) -> None:
    """Raise if a table without coordinates has rows, and no position of the sink: these may be the rows of a copy."""
    if has_rows:
        raise Conflict(
            f"{what} has rows and no position of this pipeline, as a copy has: without `coordinates` nobody can tell"
            " which records they are of, and they could be written twice if it were filled from the source's start",
            safe="Nothing was changed",
            fix="Give the sink another `path`, which is filled from the source's start, or empty the table; or, if rows"
            f" may come again, run: penstock pipeline rebuild {pipeline} --may-repeat",
        )
