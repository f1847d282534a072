"""A stateful Python step: what SQL cannot say on a stream, such as ranking.

Guarantee: the state is Spark's, kept in its checkpoint together with the place in the source.
"""

from typing import Literal

from pydantic import BaseModel, Field, field_validator

from penstock.record.schema import parse


class Stateful(BaseModel, frozen=True, extra="forbid"):
    """A `StatefulProcessor` of PySpark, run by its transformWithState."""

    stateful: str = Field(pattern=r"^[A-Za-z_][\w.]*:[A-Za-z_]\w*$", description="The class, as `module:Class`.")
    key: list[str] = Field(min_length=1, description="Columns whose values share one state.")
    returns: str = Field(description="Columns that come out, as in `decode.schema`.")
    timers: Literal["none", "event_time", "processing_time"] = Field(
        "none", description="What the processor's timers follow, if it has any: the watermark, or the clock."
    )

    @field_validator("returns")
    @classmethod
    def _returns_is_understood(cls, value: str) -> str:
        parse(value)
        return value
