"""What the state of a stateful pipeline was computed with.

Spark compares the columns of its state and no more: a changed condition or sum would go on over the old state, and give
numbers that no query over the table gives. For a Python processor only keys and timers are compared: it may be fixed,
and only its author knows whether the old state fits the new code.
"""

from typing import Any

import msgspec
import sqlglot
from sqlglot.errors import SqlglotError

from penstock.pipeline.spec import PipelineSpec
from penstock.steps.select import Select


class Computation(msgspec.Struct, frozen=True):
    """The part of a pipeline file that results come from, as it was written."""

    watermark: str | None
    """The column of event times; how late is still in time may change."""
    steps: list[dict[str, Any]]

    @classmethod
    def of(cls, spec: PipelineSpec) -> "Computation":
        """Take it from the pipeline file."""
        return cls(spec.source.watermark_column, [step.model_dump(mode="json") for step in spec.steps])

    def has_state_of(self, other: "Computation") -> bool:
        """Return whether the state of the other one fits: steps behind the last one that keeps any may differ."""
        return self.state == other.state

    @property
    def state(self) -> list[Any]:
        """What state depends on, in a form that can be compared; nothing if no step keeps any."""
        last = max((number for number, step in enumerate(self.steps, 1) if _keeps_state(step)), default=0)
        return [self.watermark, *map(_plain, self.steps[:last])] if last else []


def _keeps_state(step: dict[str, Any]) -> bool:
    if "sql" not in step:
        return True
    try:
        Select(step["sql"])
    except ValueError:
        return True
    return False


def _plain(step: dict[str, Any]) -> dict[str, Any]:
    """Leave out what makes no difference to the state: in SQL that is white space, comments, the case of keywords."""
    if "sql" not in step:
        return {name: step[name] for name in ("key", "timers")}
    try:
        return {"sql": sqlglot.parse_one(step["sql"], dialect="spark").sql(dialect="spark", comments=False)}
    except (SqlglotError, RecursionError):
        return {"sql": " ".join(step["sql"].split())}
