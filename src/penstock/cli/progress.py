"""Progress on stderr: a bar or a spinner on a terminal, plain lines elsewhere."""

import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from penstock.cli.output import say
from penstock.private import make_missing_private
from penstock.terminal import visible

_LINE_EVERY_S = 5.0


class Bar:
    """Progress towards a total; `update` may be called as often as one likes."""

    def __init__(self, what: str) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

        self._what = what
        self._terminal = sys.stderr.isatty()
        self._last_line = time.monotonic()
        self._progress = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            console=Console(stderr=True),
            transient=True,
            disable=not self._terminal,
        )
        self._task = self._progress.add_task(visible(what), total=None)

    def update(self, done: int, total: int) -> None:
        """Show how far it is."""
        self._progress.update(self._task, completed=done, total=total)
        if not self._terminal and time.monotonic() - self._last_line > _LINE_EVERY_S:
            self._last_line = time.monotonic()
            say(f"{self._what}: {done:,} of {total:,}")

    def describe(self, what: str) -> None:
        """Say what is happening now; the same again is not repeated."""
        if what == self._what:
            return
        self._what = what
        self._progress.update(self._task, description=visible(what))
        if not self._terminal:
            say(what)


@contextmanager
def bar(what: str) -> Iterator[Bar]:
    """Show a bar while the block runs."""
    shown = Bar(what)
    with shown._progress:  # noqa: SLF001 - one piece in two parts
        yield shown


@contextmanager
def workplace(home: Path, what: str) -> Iterator[tuple[Path, Callable[[str, int, int], None]]]:
    """Return a folder that goes afterwards, and a way to report each step: (what happens, done, in all)."""
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
