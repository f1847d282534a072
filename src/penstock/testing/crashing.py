"""Making a driver die at its crash points."""

from typing import Literal

Point = Literal["planned", "writing", "prepared", "in_commit", "sink_committed", "committed"]


def crashing(at: Point, *, sink: str = "", after: int = 0) -> dict[str, str]:
    """Return the environment in which `penstock pipeline run` dies, as by `kill -9`, at a point of a batch.

    `sink` narrows a point that every sink passes; `after` lets it pass this many times first. Start the command once
    with this and once without: every event must be in every sink once.
    """
    return {"PENSTOCK_CRASH_AT": f"{at}:{sink}" if sink else at, "PENSTOCK_CRASH_AFTER": str(after)}
