"""Places where a test can make a driver die, as `kill -9` would: without cleanup.

`PENSTOCK_CRASH_AT=POINT` or `POINT:SINK` names the point, `PENSTOCK_CRASH_AFTER=N` lets it pass N times first. Points,
in the order of a batch: `planned`, `writing` (in a task), `prepared`, `in_commit` (of a sink), `sink_committed`,
`committed`; of a table that is compacted: `compacting`, `compacted`. Of a checkpoint that is made, also by `rebuild`:
`checkpoint_cleared`, `checkpoint_begun`. Of `skip-gap`: `gap_recorded`, then `in_commit` and `sink_committed` of each
sink. Unset, as in any real run, a point costs one lookup in a dictionary.
"""

import os
import signal

_passed = 0


def crash_point(name: str, sink: str = "", *, pid: int | None = None) -> None:
    """Die here if this is the point; `pid` is the driver, for points that lie in a task."""
    global _passed  # noqa: PLW0603 - a count per process is the point
    wanted = os.environ.get("PENSTOCK_CRASH_AT")
    if wanted is None or wanted not in {name, f"{name}:{sink}"}:
        return
    _passed += 1
    if _passed > int(os.environ.get("PENSTOCK_CRASH_AFTER", "0")):
        os.kill(pid or os.getpid(), signal.SIGKILL)
