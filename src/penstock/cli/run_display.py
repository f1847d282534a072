"""Progress of a running pipeline on stderr: how far it is through what there is to read."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from penstock.cli.output import say
from penstock.cli.progress import bar
from penstock.wording import plural

if TYPE_CHECKING:
    from penstock.operate.status import Status


@contextmanager
def run_display() -> Iterator[Callable[["Status"], None]]:
    """Return what shows each state: events of those there are to read, rate, time left, batch and dead letters."""
    reason, repeated = "", 0
    with bar("starting Spark") as shown:

        def show(status: "Status") -> None:
            nonlocal reason, repeated
            if status.reason and status.reason != reason:
                say(f"{status.pipeline}: waiting: {status.reason}")
            if status.repeated > repeated:
                say(f"{status.pipeline}: {plural(status.repeated, 'record')} sent twice: the last run was interrupted")
            reason, repeated = status.reason, status.repeated
            what = f"{status.pipeline}: {status.state}"
            if status.batch:
                what += f", batch {status.batch} in {status.batch_seconds:.1f} s, {plural(status.dead, 'dead letter')}"
            shown.update(status.events, status.events + (status.lag or 0) or None, what=what)

        yield show
