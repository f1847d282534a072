"""Row-local Spark SQL: `SELECT ... FROM events [WHERE ...]`.

Guarantee: each event gives one row, or none if WHERE leaves it out, which counts as dropped. The columns of Penstock
come along whether or not the SELECT names them, and rows that have failed already pass through untouched. A record on
which the SQL itself fails, such as a division by zero, becomes a dead letter, and the rest of the batch goes on. A
name given in a SELECT can be used in the next step, not in the same SELECT.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import Field

from penstock.config.problem import PipelineView, Problem
from penstock.steps.select import Select, mentioned_columns, unknown_columns
from penstock.steps.step import StepModel

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class Sql(StepModel, frozen=True):
    """Spark SQL over the table `events`."""

    keyword = "sql"
    is_sql = True
    takes_tables = True

    sql: str = Field(description="`SELECT ... FROM events [WHERE ...]`; each row is one event.")

    @property
    def can_filter(self) -> bool:
        """Whether it has a condition."""
        return Select(self.sql).where is not None

    def as_select(self) -> Select:
        """Return it taken apart."""
        return Select(self.sql)

    def on_table(self, frame: "DataFrame", folder: Path) -> "DataFrame":  # noqa: ARG002 - SQL has no modules
        """Return what Spark makes of it: in a stateful pipeline it may look at more than one event."""
        frame.createOrReplaceTempView("events")
        return frame.sparkSession.sql(self.sql)

    def columns(self, names: list[str] | None) -> list[str] | None:
        """Return the columns that come out, of those that go in; None if that is not known."""
        try:
            return None if names is None else Select(self.sql).columns(names)
        except ValueError:
            return None

    def problems(self, pipeline: PipelineView, names: list[str] | None) -> Iterator[Problem]:
        """Find what is not row-local, and columns that do not exist, or occur twice."""
        if pipeline.is_stateful:
            return
        try:
            select = Select(self.sql)
        except ValueError as error:
            yield Problem.error(str(error), "sql")
            return
        texts = [*select.expressions, *([select.where] if select.where else [])]
        # A column that is only passed on makes nothing: if it is not there, it is a typo.
        made = frozenset(name.lower() for name, text in select.made if {name} != mentioned_columns(text))
        yield from (each.under("sql") for each in unknown_columns(texts, names, made))
        folded = [name.lower() for name in self.columns(names) or []]
        for number, name in enumerate(folded):
            if name in folded[:number]:
                text = f"the column '{name}' comes out twice: leave the old one out with * EXCEPT ({name})"
                yield Problem.error(text, "sql")
