"""What it was like to send events one way: how long the calls took."""

import statistics
from collections.abc import Sequence
from typing import TypedDict

from pydantic import BaseModel, Field


class SendingTimes(BaseModel, frozen=True):
    """One way to send."""

    way: str = Field(description="How.")
    events: int = Field(description="Events sent and acknowledged.")
    p50_ms: float = Field(description="Milliseconds that half of the calls took at most.")
    p99_ms: float = Field(description="Milliseconds that 99 of 100 calls took at most.")
    slowest_ms: float = Field(description="Milliseconds of the slowest call.")


class _CallTimes(TypedDict):
    p50_ms: float
    p99_ms: float
    slowest_ms: float


def call_times(calls_s: Sequence[float]) -> _CallTimes:
    """Return what `SendingTimes` says of calls that took this many seconds each; zeros if there was none."""
    milliseconds = sorted(1000 * each for each in calls_s) or [0.0]
    return {
        "p50_ms": round(statistics.median(milliseconds), 3),
        "p99_ms": round(milliseconds[int(len(milliseconds) * 0.99)], 3),
        "slowest_ms": round(milliseconds[-1], 1),
    }
