"""Workers that run while the games are played: streams in threads of this process, on its one Spark."""

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from threading import Event

from penstock.errors import BrokerUnavailable, NotFound
from penstock.kafka import groups
from penstock.lab.scenarios.arena import Arena
from penstock.operate import driver
from penstock.operate.status import Status
from penstock.pipeline.load import load

_POLL_S = 0.1
_PATIENCE_S = 180.0


@contextmanager
def live_workers(arena: Arena, names: Sequence[str]) -> Iterator[dict[str, Status]]:
    """Run workers as streams around the block; it begins when all of them wait for events.

    What is yielded gets each worker's status when the block has ended, which waits until all of them have caught up. A
    worker that fails ends the wait with its error.
    """
    done: dict[str, Status] = {}
    stopping = Event()
    opened = {name: Event() for name in names}
    with ThreadPoolExecutor(len(names)) as threads:
        running = {name: threads.submit(_run, arena, name, stopping, opened[name]) for name in names}
        try:
            arena.step("starting the pipelines", 0, 0)
            _wait(running.values(), lambda: all(each.is_set() for each in opened.values()))
            yield done
            arena.step("waiting until the pipelines have caught up", 0, 0)
            _wait(running.values(), lambda: all(_lag(arena, name) == 0 for name in names))
        finally:
            stopping.set()
        done |= {name: each.result() for name, each in running.items()}


def _run(arena: Arena, name: str, stopping: Event, opened: Event) -> Status:
    file = arena.worker(name, speed="stream")

    def show(status: Status) -> None:
        if status.state == "running":
            opened.set()

    return driver.run(load(file), arena.settings, file, show=show, stopping=stopping)


def _lag(arena: Arena, name: str) -> int:
    """Count what a worker has not landed yet; one that has not said so has landed nothing."""
    try:
        return groups.describe(arena.admin, f"penstock.{name.replace('_', '-')}").lag
    except (NotFound, BrokerUnavailable):
        return -1


def _wait(running: Iterable[Future[Status]], is_so: Callable[[], bool]) -> None:
    deadline = time.monotonic() + _PATIENCE_S
    while not is_so():
        for each in running:
            if each.done():
                each.result()
        if time.monotonic() > deadline:
            raise BrokerUnavailable(f"the pipelines did not come that far within {_PATIENCE_S:.0f} s")
        time.sleep(_POLL_S)
