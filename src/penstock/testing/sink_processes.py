"""Processes that do a part of what a sink is tried with, and may be killed at it."""

import multiprocessing
import os
import signal
import sys
from pathlib import Path
from types import FrameType
from typing import Any

from penstock.record.positions import OffsetRange
from penstock.sinks.sink import Sink, Staged, StagerFactory
from penstock.testing.sink_driving import SinkDriving, require

_IMPORTED_LATE = (
    "alembic",
    "deltalake",
    "psycopg",
    "pyiceberg.catalog.rest",
    "pyiceberg.catalog.sql",
    "pyiceberg.io.pyarrow",
    "pytest",
    "sqlalchemy.dialects.sqlite",
)
_KNOWN = ("model", "folder", "pipeline", "connection", "source_partitions")


def killed_driver(driving: SinkDriving, point: str | int, end: int) -> int:
    """Let a process write up to an offset and die at a point, or at a line of its commit; return how many it has."""
    lines, code = _elsewhere(driving, _drive, point, end)
    expected = 0 if point == "never" else -signal.SIGKILL
    require(code == expected, f"the driver at '{point}' ended with {code}: see its output")
    return lines or 0


def staged_elsewhere(driving: SinkDriving, sink: Sink, offset_range: OffsetRange) -> Staged:
    """Let a process stage rows and end, as a worker may before the driver commits."""
    staged, code = _elsewhere(driving, _stage, sink.stager(), offset_range)
    if not isinstance(staged, Staged):
        raise AssertionError(f"the task ended with {code}: see its output")  # noqa: TRY004 - it is what is tested
    return staged


def _elsewhere(driving: SinkDriving, does: Any, *arguments: Any) -> tuple[Any, int | None]:
    """Run a function in another process; return what it sent, and how it ended."""
    # Each is forked from one that has no threads and knows all modules: starting Python takes far longer. That
    # one serves the whole run, so it also gets what sinks need that come later, or import it when they are opened;
    # and pandas, for Arrow imports it when it makes the first array.
    context = multiprocessing.get_context("forkserver")
    late = [name for name in _IMPORTED_LATE if name.partition(".")[0] in sys.modules]
    sinks = [name for name in sys.modules if name.startswith("penstock.sinks.")]
    context.set_forkserver_preload(["pandas", __name__, type(driving.model).__module__, *late, *sinks])
    known = {**{name: getattr(driving, name) for name in _KNOWN}, "_checkpoint": driving.checkpoint}
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=_run, args=(known, does, arguments, sender))
    process.start()
    sender.close()
    try:
        sent = receiver.recv()
    except EOFError:
        sent = None
    process.join()
    return sent, process.exitcode


def _run(known: dict[str, Any], does: Any, arguments: tuple[Any, ...], sender: Any) -> None:
    driving = SinkDriving()
    for name, value in known.items():
        setattr(driving, name, value)
    sender.send(does(driving, *arguments))


def _stage(driving: SinkDriving, factory: StagerFactory, offset_range: OffsetRange) -> Staged:
    return driving.stage_with(factory, offset_range)


def _drive(driving: SinkDriving, point: str | int, end: int) -> int:
    """Be a driver that dies at a point."""
    sink = driving.opened()
    _die_if(point == "opened")
    if point == "staged":
        found = sink.positions(driving.source_partitions) or driving.checkpoint
        for each in driving.source_partitions:
            driving.stage(sink, OffsetRange(each, found.get(each, 0), end))
        _die_if(point == "staged")
    driving.prepare(sink, end, end)
    _die_if(point == "prepared")
    lines = _Lines(type(sink), point if isinstance(point, int) else None)
    sys.settrace(lines.trace)
    sink.commit()
    sys.settrace(None)
    _die_if(point == "committed")
    sink.close()
    return lines.passed


class _Lines:
    """Counts the lines that run in the files of the sink's class and its bases, and dies at one of them."""

    def __init__(self, kind: type[Sink], dies_at: int | None) -> None:
        # Without Python's own: what that does, such as waiting for threads, is not the same in every run.
        own = [each.__module__ for each in kind.__mro__ if each.__module__ not in sys.stdlib_module_names]
        files = [getattr(sys.modules[each], "__file__", None) for each in own]
        self._folders = {str(Path(each).parent) for each in files if each}
        self._dies_at = dies_at
        self.passed = 0

    def trace(self, frame: FrameType, event: str, _argument: object) -> Any:
        if str(Path(frame.f_code.co_filename).parent) not in self._folders:
            return None
        if event == "line":
            self.passed += 1
            _die_if(self.passed == self._dies_at)
        return self.trace


def _die_if(it_is_time: bool) -> None:  # noqa: FBT001 - it reads as a sentence
    if it_is_time:
        os.kill(os.getpid(), signal.SIGKILL)
