"""Progress on stderr: a bar with a rate and the time left on a terminal, plain lines now and then elsewhere.

A pipe, NO_COLOR and a dumb terminal get lines: nothing is drawn over, and nothing is coloured.
"""

import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from penstock.cli.output import say
from penstock.private import make_missing_private
from penstock.terminal import colours_wanted, visible

if TYPE_CHECKING:
    from rich.progress import Task

Unit = Literal["things", "bytes"]
_LINE_EVERY_S = 5.0


class Bar:
    """Progress towards a total; `update` may be called as often as you like."""

    def __init__(self, what: str, unit: Unit = "things") -> None:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, ProgressColumn, TextColumn, TimeElapsedColumn
        from rich.text import Text

        class Measure(ProgressColumn):
            def render(self, task: "Task") -> Text:
                return Text(measure(task.completed, task.total, task.speed, unit))

        self._what = what
        self._unit: Unit = unit
        self._is_drawn = sys.stderr.isatty() and colours_wanted()
        self._last_line = time.monotonic()
        self._progress = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=20),
            Measure(),
            TimeElapsedColumn(),
            console=Console(stderr=True),
            transient=True,
            disable=not self._is_drawn,
        )
        self._task = self._progress.add_task(visible(what), total=None)

    def update(self, done: int, total: int | None, *, what: str | None = None) -> None:
        """Show how far it is, and of what; without a total, how much that is and how long it takes."""
        if what is not None:
            self._what = what
        self._progress.update(self._task, completed=done, total=total, description=visible(self._what))
        if not self._is_drawn and time.monotonic() - self._last_line > _LINE_EVERY_S:
            self._last_line = time.monotonic()
            far = measure(done, total, self._progress.tasks[0].speed, self._unit)
            say(f"{self._what}: {far}" if far else self._what)

    def describe(self, what: str) -> None:
        """Say what is happening now; the same again is not repeated."""
        if what == self._what:
            return
        self._what = what
        self._progress.update(self._task, description=visible(what))
        if not self._is_drawn:
            say(what)


def measure(done: float, total: float | None, per_s: float | None, unit: Unit = "things") -> str:
    """Return how far something is: `1,200 of 5,000, 400/s, 0:10 left`; a part that is not known yet is left out."""
    parts = [_amount(done, unit) + (f" of {_amount(total, unit)}" if total else "")] if done or total else []
    if per_s and (per_s >= 1 or unit == "bytes"):
        parts.append(f"{_amount(per_s, unit)}/s")
    if per_s and total and total > done:
        minutes, seconds = divmod(round((total - done) / per_s), 60)
        hours, minutes = divmod(minutes, 60)
        parts.append(f"{f'{hours}:{minutes:02}' if hours else minutes}:{seconds:02} left")
    return ", ".join(parts)


def _amount(count: float, unit: Unit) -> str:
    return f"{count / 1e6:,.1f} MB" if unit == "bytes" else f"{count:,.0f}"


@contextmanager
def bar(what: str, unit: Unit = "things") -> Iterator[Bar]:
    """Show a bar while the block runs."""
    shown = Bar(what, unit)
    with shown._progress:  # noqa: SLF001 - one piece in two parts
        yield shown


@contextmanager
def workplace(home: Path, what: str) -> Iterator[tuple[Path, Callable[[str, int, int], None]]]:
    """Return a folder that is removed afterwards, and a callback for each step: (what happens, done, in all)."""
    make_missing_private(home)
    doing = ""
    with tempfile.TemporaryDirectory(prefix=f"{what}-", dir=home) as place, bar(what) as shown:

        def step(happens: str, done: int, total: int) -> None:
            nonlocal doing
            if happens != doing:
                doing = happens
                shown.describe(happens)
            if total:
                shown.update(done, total)

        yield Path(place), step
