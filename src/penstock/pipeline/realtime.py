"""What only `speed: realtime` has."""

from pydantic import BaseModel, Field

from penstock.quantities import DurationMs


class Realtime(BaseModel, frozen=True, extra="forbid"):
    """How much a crash in real time repeats."""

    commit_every: DurationMs = Field(
        10_000,
        ge=5000,
        description="How often the position is written down, which holds the stream up for a moment. A crash repeats"
        " what came since the last time.",
    )
