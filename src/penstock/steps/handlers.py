"""Handlers in a class: each message alone, then in batches, then those that failed.

Guarantee: what the handlers return goes to the sinks exactly once, in the order of its partition; a handler's side
effects are at least once, because a task may run twice. A message that fails becomes a dead letter and never stops the
stream, unless `on_failure` says so. No message is kept from one Spark job to the next: what is left in a batcher is
handled as a smaller batch.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Literal

import pyarrow as pa
from pydantic import BaseModel, Field, field_validator

from penstock.config.problem import PipelineView, Problem
from penstock.quantities import DurationMs, SizeBytes
from penstock.record.schema import parse
from penstock.steps.message import DEFAULT
from penstock.steps.step import StepContext, StepModel
from penstock.steps.user_code import CodeName, columns_after

if TYPE_CHECKING:
    from penstock.steps.handlers_task import HandlersTask


class Batcher(BaseModel, frozen=True, extra="forbid"):
    """How messages are gathered for `handle_batch`: per batch key, within a partition."""

    batch_size: int = Field(100, ge=1, le=1_000_000, description="Messages a batch.")
    batch_timeout: DurationMs = Field(
        1000,
        ge=0,
        description="How long the first message may wait for others, with `speed: stream`. The shortest of all"
        " batchers takes the place of `batch.max_wait`.",
    )
    max_bytes: SizeBytes | None = Field(None, ge=1, description="A batch also ends once its values are so large.")


class OnFailure(BaseModel, frozen=True, extra="forbid"):
    """What happens when a handler raises."""

    then: Literal["continue", "stop", "retry"] = Field(
        "continue",
        description="`continue`: the message is a dead letter, and the stream goes on. `stop`: the pipeline ends with"
        " exit code 10, and nothing of the current run is written. `retry`: the handler is called again, and only"
        " after its last attempt is the message a dead letter.",
    )
    attempts: int = Field(3, ge=1, le=100, description="With `retry`: how often in all.")
    backoff: DurationMs = Field(100, ge=0, description="With `retry`: the first pause.")
    growth: float = Field(2.0, ge=1.0, le=10.0, description="With `retry`: each pause is so many times the last.")
    max_backoff: DurationMs = Field(10_000, ge=0, description="With `retry`: no pause is longer.")


class Handlers(StepModel, frozen=True):
    """A class with handlers: `prepare_messages`, `handle_message`, `handle_batch`, `handle_failed`, any of them."""

    keyword = "handlers"
    has_handlers = True

    handlers: CodeName = Field(description="The class, as `module:Class`.")
    batchers: dict[str, Batcher] = Field(
        default_factory=dict,
        description="Batchers by name; a message goes to `default` unless `put_batcher` says otherwise."
        " Without any, there is no `handle_batch`.",
    )
    on_failure: OnFailure = Field(default_factory=OnFailure, description="What happens when a handler raises.")
    returns: str | None = Field(None, description="Columns that come out, as in `decode.schema`; the same if left out.")
    batcher_column: str | None = Field(
        None, pattern=r"^[A-Za-z]\w*$", description="A column to add with the name of each message's batcher."
    )

    @field_validator("returns")
    @classmethod
    def _returns_is_understood(cls, value: str | None) -> str | None:
        if value is not None:
            parse(value)
        return value

    @field_validator("on_failure", mode="before")
    @classmethod
    def _one_word_is_enough(cls, value: object) -> object:
        return {"then": value} if isinstance(value, str) else value

    def _made(self, names: list[str]) -> list[str]:
        return list(parse(self.returns).names) if self.returns else names

    def columns(self, names: list[str] | None) -> list[str] | None:
        """Return the columns that the handlers make, and that of the batcher."""
        if names is None:
            return None
        return [*self._made(names), *([self.batcher_column] if self.batcher_column else [])]

    def problems(self, pipeline: PipelineView, names: list[str] | None) -> Iterator[Problem]:
        """Find messages that no batcher takes, and a column that is there twice."""
        if pipeline.is_stateful:
            return
        if self.batchers and DEFAULT not in self.batchers:
            text = "no batcher is called `default`: a message without `put_batcher` is a dead letter"
            yield Problem.warning(text, "batchers")
        taken = [name.lower() for name in self._made(names or [])]
        if self.batcher_column is not None and self.batcher_column.lower() in taken:
            yield Problem.error("there is a column of this name already", "batcher_column")

    @property
    def user_code(self) -> str:
        """The class."""
        return self.handlers

    @property
    def batch_timeouts_ms(self) -> list[int]:
        """The time of each batcher."""
        return [each.batch_timeout for each in self.batchers.values()]

    def open(self, context: StepContext) -> "HandlersTask":
        """Return what runs inside Spark's tasks."""
        from penstock.steps.handlers_task import HandlersTask

        columns = columns_after(self.returns, context.schema)
        if self.batcher_column:
            columns = columns.append(pa.field(self.batcher_column, pa.string()))
        return HandlersTask(self, columns, context)
