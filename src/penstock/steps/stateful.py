"""A stateful Python step: what SQL cannot say on a stream, such as ranking.

Guarantee: the state is Spark's, kept in its checkpoint together with the place in the source.
"""

from pydantic import BaseModel, Field, field_validator

from penstock.pipeline.schema import parse


class Stateful(BaseModel, frozen=True, extra="forbid"):
    """A `StatefulProcessor` of PySpark, run by its transformWithState."""

    stateful: str = Field(pattern=r"^[A-Za-z_][\w.]*:[A-Za-z_]\w*$", description="The class, as `module:Class`.")
    key: list[str] = Field(min_length=1, description="Columns whose values share one state.")
    returns: str = Field(description="Columns that come out, as in `decode.schema`.")
    event_time: bool = Field(default=False, description="Timers follow the watermark rather than the clock.")

    @field_validator("returns")
    @classmethod
    def _returns_is_understood(cls, value: str) -> str:
        parse(value)
        return value
