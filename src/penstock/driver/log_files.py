"""Rolling over logs that several processes append to."""

import os
import shutil
from pathlib import Path

MOST_BYTES = 10_000_000


def roll_over(log: Path) -> None:
    """Empty a log that has grown beyond 10 MB; what it held is kept beside it, as `.1`.

    It is emptied in place, because its writers keep it open to append. A line that is written meanwhile is lost.
    """
    try:
        if log.stat().st_size <= MOST_BYTES:
            return
        shutil.copy(log, log.with_name(f"{log.name}.1"))
        os.truncate(log, 0)
    except FileNotFoundError:
        return


def last_lines(path: Path, count: int, leave_out: str | None = None) -> list[str]:
    """Return the last lines of a log, but none that begins so."""
    written = path.read_text(encoding="utf-8", errors="replace").splitlines()
    return [line for line in written if leave_out is None or not line.startswith(leave_out)][-count:]
