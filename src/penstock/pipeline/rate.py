"""A limit of rate."""

from pydantic import BaseModel, Field

from penstock.quantities import DurationMs


class Rate(BaseModel, frozen=True, extra="forbid"):
    """This many events within a time, over all partitions."""

    events: int = Field(ge=1, description="Events.")
    per: DurationMs = Field(1000, ge=1, description="In how long.")
