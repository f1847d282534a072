"""Expectations: what must be true of a row, and what happens otherwise."""

from typing import Literal

from pydantic import BaseModel, Field

from penstock.steps.select import Condition


class Expectation(BaseModel, frozen=True, extra="forbid"):
    """A rule. A row meets it only if the condition is true; null is not true."""

    name: str = Field(min_length=1, max_length=200, description="Name of the rule in counts and dead letters.")
    that: Condition = Field(description="SQL condition on the columns after the last step.")
    otherwise: Literal["dead_letter", "drop", "warn", "fail"] = Field(
        "dead_letter",
        description="What happens to a row that does not meet it: it becomes a dead letter, is dropped and counted,"
        " is let through and counted, or stops the pipeline before anything of its batch is written.",
    )

    @property
    def is_strict(self) -> bool:
        """Return whether a row that does not meet it goes to no sink."""
        return self.otherwise in {"dead_letter", "drop"}
