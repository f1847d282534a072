"""Readers: one in a process of its own, which can be killed with -9, and one in this process that reads to the end."""

import subprocess
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path

from pydantic import BaseModel, Field

from penstock.errors import BrokerUnavailable
from penstock.interpreter import SAFE_PYTHON
from penstock.lab.bench.brokers.game_events import is_event, marker, number_of
from penstock.transports import Outgoing, Transport

_BATCH = 1000
_WAIT_S = 0.1
_GIVE_UP_S = 120.0
_STRAGGLERS_S = 0.5


class ReaderTask(BaseModel, frozen=True, extra="forbid"):
    """What a reader's process does."""

    address: str = Field(description="The broker; where its password is kept, never the password.")
    topic: str = Field(description="Topic to read.")
    group: str = Field(description="Group to join.")
    count: int = Field(ge=1, description="Events to wait for.")
    report: Path = Field(description="File for what it got.")
    wake_up: bool = Field(default=False, description="Wait for a message that is not an event first.")
    batch: int = Field(_BATCH, ge=1, description="Events in hand at most; then they are acknowledged.")
    hold_after: int | None = Field(
        None, ge=1, description="After this many stand still with more in hand, to be killed."
    )
    first_within_s: float = Field(60.0, gt=0, description="How long to wait for the first event.")
    silence_s: float = Field(10.0, gt=0, description="How long to wait for another one.")


class Received(BaseModel, frozen=True):
    """What a reader's process got. Moments are of the monotonic clock, which all processes share."""

    first_ns: int = Field(description="When the first event arrived.")
    last_ns: int = Field(description="When the last one was acknowledged.")
    acknowledged: list[int] = Field(description="Numbers of events that were acknowledged.")
    held: list[int] = Field(description="Numbers of events that were in hand at the end.")
    delays_ns: list[tuple[int, int]] = Field(description="When each timed event was due, and how late it arrived.")


class ReaderProcess:
    """A running reader."""

    def __init__(self, task: ReaderTask) -> None:
        self._task = task
        self._complaints = task.report.with_suffix(".err")
        with self._complaints.open("wb") as complaints:
            # A session of its own: Ctrl+C is ours to handle, and the reader ends with its input.
            self._process = subprocess.Popen(
                [*SAFE_PYTHON, "-m", "penstock.lab.bench.brokers.reader_process", task.model_dump_json()],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=complaints,
                text=True,
                start_new_session=True,
            )

    def wait_for(self, word: str) -> None:
        """Wait until it says how far it is."""
        said = self._process.stdout.readline().strip() if self._process.stdout else ""
        if said != word:
            complaint = (self._complaints.read_text(encoding="utf-8").splitlines() or ["it gave no reason"])[-1]
            raise BrokerUnavailable(f"a reader of '{self._task.topic}' ended: {complaint}")

    def got(self) -> Received:
        """Return what it has written down."""
        return Received.model_validate_json(self._task.report.read_bytes())

    def kill(self) -> None:
        """End it with `kill -9`."""
        self._process.kill()
        self._process.communicate()


@contextmanager
def reading(task: ReaderTask) -> Iterator[ReaderProcess]:
    """Run a reader, which is ready when the block begins, and gone when it ends."""
    process = ReaderProcess(task)
    try:
        process.wait_for("ready")
        yield process
    finally:
        process.kill()


class Drained(BaseModel, frozen=True):
    """What was still there to read."""

    times: Counter[int] = Field(description="How often each number came.")
    arrived_s: dict[int, float] = Field(description="When each number came first, by the monotonic clock.")


def drain(
    transport: Transport,
    topic: str,
    group: str,
    wanted: set[int],
    *,
    silence_s: float,
    when_heard: Sequence[Outgoing] = (),
) -> Drained:
    """Subscribe, send `when_heard` and a marker; read until all that is wanted has come, or the marker and silence.

    The marker shows that the reader hears: silence alone could be a group that takes its time to form.
    """
    times: Counter[int] = Counter()
    arrived_s: dict[int, float] = {}
    missing = set(wanted)
    marked = False
    with closing(transport.subscribe(topic, group)) as subscription:
        mark = marker(topic)
        transport.send([*when_heard, mark])
        last_s = began_s = time.monotonic()
        while True:
            found = subscription.receive(_BATCH, _WAIT_S)
            now_s = time.monotonic()
            subscription.acknowledge(found)
            marked = marked or any(message.value == mark.value for message in found)
            for number in map(number_of, found):
                if is_event(number):
                    times[number] += 1
                    arrived_s.setdefault(number, now_s)
                    missing.discard(number)
            last_s = now_s if found else last_s
            if marked and now_s - last_s > (silence_s if missing else _STRAGGLERS_S):
                return Drained(times=times, arrived_s=arrived_s)
            if not marked and now_s - began_s > _GIVE_UP_S:
                raise BrokerUnavailable(f"a message sent to '{topic}' did not arrive within {_GIVE_UP_S:.0f} s")
