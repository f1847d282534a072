"""Progress of a running pipeline on stderr: one line that changes on a terminal, a line now and then elsewhere."""

import sys
import time
from types import TracebackType
from typing import TYPE_CHECKING, Self

from penstock.cli.output import say
from penstock.terminal import visible

if TYPE_CHECKING:
    from penstock.operate.status import Status

_LINE_EVERY_S = 5.0


class RunDisplay:
    """Shows events, rate, lag, dead letters and batch time."""

    def __init__(self) -> None:
        from rich.console import Console

        self._live = Console(stderr=True).status("starting Spark") if sys.stderr.isatty() else None
        self._last_line = 0.0
        self._last_reason = ""
        self._repeated = 0

    def show(self, status: "Status") -> None:
        """Take the newest state."""
        line = (
            f"{status.pipeline}: {status.state}, batch {status.batch}, {status.events:,} events"
            f" ({status.events_per_s:,}/s), lag {status.lag:,}, {status.dead:,} dead, batch {status.batch_seconds} s"
        )
        if status.reason and status.reason != self._last_reason:
            say(f"{status.pipeline}: waiting: {status.reason}")
        self._last_reason = status.reason
        if status.repeated > self._repeated:
            say(f"{status.pipeline}: {status.repeated:,} records come twice, for the last run was cut off")
        self._repeated = status.repeated
        if self._live is not None:
            from rich.text import Text

            # Text, not markup: a name is shown as it is.
            self._live.update(Text(visible(line)))
        elif time.monotonic() - self._last_line > _LINE_EVERY_S:
            self._last_line = time.monotonic()
            say(line)

    def __enter__(self) -> Self:
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(self, _k: type[BaseException] | None, _e: BaseException | None, _t: TracebackType | None) -> None:
        if self._live is not None:
            self._live.stop()
