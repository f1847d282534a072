"""The contract of steps: a model in a pipeline file, and what it does to the rows.

A row-local step is SQL (`as_select`), which runs in the JVM unless workers can evaluate it with the same result, or a
task, which runs in Spark's Python workers (`open`) and gives for each row one row or none, in order. Rows that have
failed already pass it untouched. A step of a stateful pipeline works on the whole table as Spark streams it
(`on_table`).
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Protocol, Self

import pyarrow as pa
from pydantic import BaseModel

from penstock.config.problem import PipelineView, Problem
from penstock.errors import BadInput

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from penstock.steps.select import Select


@dataclass(frozen=True)
class ShippedCode:
    """The user's modules in an archive among the files that Spark brings to every executor."""

    name: str

    @property
    def path(self) -> Path:
        """Where the archive is; for tasks."""
        from pyspark import SparkFiles

        return Path(SparkFiles.get(self.name))


@dataclass(frozen=True)
class StepContext:
    """What a step may need to open."""

    schema: pa.Schema
    """The columns that go in, Penstock's among them."""
    folder: Path | ShippedCode
    """Where the user's modules are."""
    notes: Path
    """Folder for notes of the current record, which survive the death of a worker."""


class StepTask(Protocol):
    """What runs inside Spark's tasks. It is sent there: small, picklable, and without a secret."""

    @property
    def schema(self) -> pa.Schema:
        """The columns that come out, Penstock's among them."""

    def __call__(self, batches: Iterator[pa.RecordBatch], index: int, /) -> Iterator[pa.RecordBatch]:
        """Return what becomes of the rows of one offset range, given its number in the batch."""


class StepModel(BaseModel, frozen=True, extra="forbid"):
    """A step as it is written in a pipeline file."""

    keyword: ClassVar[str]
    """The key that makes a step one of this kind."""
    is_sql: ClassVar[bool] = False
    """Whether it is SQL alone, which needs no Python worker."""
    is_row_local: ClassVar[bool] = True
    """Whether it can be in a pipeline that lands events, and looks at one at a time."""
    takes_tables: ClassVar[bool] = False
    """Whether it can be in a stateful pipeline (`on_table`)."""
    has_handlers: ClassVar[bool] = False
    """Whether it reports to the driver what it counted, which one step of a pipeline can."""

    @property
    def makes_changes(self) -> bool:
        """Whether its rows say what becomes of the row with their key, and bring the column `_change` with them."""
        return False

    @property
    def user_code(self) -> str | None:
        """The user's code that it runs, as `module:name`."""
        return None

    @property
    def can_filter(self) -> bool:
        """Whether it may drop events, so that fewer arrive than were read."""
        return True

    @property
    def batch_timeouts_ms(self) -> list[int]:
        """How long messages may wait in its batchers."""
        return []

    def columns(self, names: list[str] | None) -> list[str] | None:
        """Return the user's columns that come out, given those that go in; None if that is not known."""
        return names

    def with_columns(self, columns: Mapping[str, str]) -> Self:  # noqa: ARG002 - most make the columns that they say
        """Return the step with the columns that it takes of those which records have brought: types by name."""
        return self

    def problems(self, pipeline: PipelineView, names: list[str] | None) -> Iterable[Problem]:  # noqa: ARG002 - most have none
        """Return what is wrong with it in this pipeline, behind these columns, with keys inside the step."""
        return ()

    def as_select(self) -> "Select | None":
        """Return its SQL taken apart; None if it has none. Raises `ValueError` for SQL that is not row-local."""
        return None

    def open(self, context: StepContext) -> StepTask:  # noqa: ARG002
        """Return what runs inside Spark's tasks."""
        raise BadInput(f"a `{self.keyword}` step does not run in Python's workers")

    def on_table(self, frame: "DataFrame", folder: Path) -> "DataFrame":  # noqa: ARG002
        """Return what it makes of a table that Spark streams, given where the user's modules are."""
        raise BadInput("a stateful pipeline has `sql` and `stateful` steps only")
