"""A pipeline's state, written after each batch for other commands to read."""

import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Literal

import psutil
from pydantic import BaseModel, Field

from penstock.delivery.checkpoint import DRIVER_LOCK
from penstock.delivery.durable import read_versioned, write_versioned
from penstock.delivery.holding import holder
from penstock.delivery.lag import group_of
from penstock.driver.paths import pipeline_folders
from penstock.errors import Conflict, EnvironmentNotReady, NotFound, PenstockError, Refused, Transient, one_line
from penstock.kafka import groups
from penstock.kafka.admin import Admin
from penstock.kafka.connection import Connection
from penstock.kafka.diagnose import is_reachable
from penstock.record.formats import PIPELINE_FILES

State = Literal["starting", "running", "waiting", "finished", "stopped", "failed", "crashed"]
SUPERVISOR_LOCK = "supervisor.lock"
_FILE = "status.json"
_ASKING_S = 3.0
ENDED = {"finished", "stopped", "failed"}


class SinkTotals(BaseModel):
    """What one sink got since the driver started. read = written + dead + dropped."""

    read: int = Field(0, description="Events that were read for it.")
    written: int = Field(0, description="Rows written.")
    dead: int = Field(0, description="Events that became dead letters instead.")
    dropped: int = Field(0, description="Events left out by a WHERE, a step, an expectation or the sink's condition.")


class Status(BaseModel):
    """The state of one pipeline."""

    pipeline: str = Field(description="Its name.")
    state: State = Field(description="starting, running, waiting, finished, stopped, failed; crashed if it just went.")
    pid: int = Field(description="Process id of the driver.")
    file: str = Field(description="The pipeline file.")
    batch: int = Field(0, description="Number of the last batch.")
    batches: int = Field(0, description="Batches committed since the driver started.")
    events: int = Field(0, description="Events read since then.")
    dead: int = Field(0, description="Dead letters written since then.")
    lag: int | None = Field(
        None, description="Events in the source that are not in every sink; none if that is not known."
    )
    events_per_s: int = Field(0, description="Speed of the last batch.")
    batch_seconds: float = Field(0.0, description="How long the last batch took.")
    sinks: dict[str, SinkTotals] = Field(default_factory=dict, description="The account of each sink.")
    rules: dict[str, int] = Field(default_factory=dict, description="Rows that broke each expectation.")
    repeated: int = Field(0, description="In real time: records that a crash made come twice, as counted at the start.")
    metrics: str = Field("", description="Where Prometheus finds its metrics; empty if nowhere.")
    spark_ui: str = Field("", description="Where Spark shows its jobs; empty unless spark.ui.enabled is true.")
    reason: str = Field("", description="Why it waits or failed.")
    exit_code: int | None = Field(None, description="What the last driver ended with; none as long as it has not.")
    updated: float = Field(0.0, description="When this was written, in seconds since 1970.")

    def save(self, folder: Path) -> None:
        """Write it for other commands to read."""
        self.updated = time.time()
        write_versioned(folder / _FILE, PIPELINE_FILES, self.model_dump())

    @property
    def has_ended(self) -> bool:
        """Return whether the driver has reported its end."""
        return self.state in ENDED

    def end(self, state: State) -> None:
        """Record a successful end."""
        self.state, self.reason, self.exit_code = state, "", 0

    def fail(self, error: Exception) -> None:
        """Record a failure, with the command line's exit code for it."""
        self.state, self.reason = "failed", one_line(str(error) or type(error).__name__)
        known = EnvironmentNotReady if isinstance(error, OSError) else PenstockError
        self.exit_code = getattr(error, "exit_code", known.exit_code)


def saved(folder: Path) -> Status | None:
    """Read what was written last."""
    try:
        return Status.model_validate(read_versioned(folder / _FILE, PIPELINE_FILES))
    except (OSError, ValueError):
        return None


def load(folder: Path) -> Status | None:
    """Read a pipeline's state. A driver that disappeared has crashed, unless its supervisor starts another."""
    while True:
        status, driver, supervisor = saved(folder), driver_of(folder), holder(folder / SUPERVISOR_LOCK)
        if saved(folder) == status:  # else a driver came or went in between
            break
    if status is None or driver is not None:
        return status
    if supervisor is None:
        status.state = status.state if status.has_ended else "crashed"
    elif status.exit_code == Transient.exit_code:
        status.state = "waiting"
    elif status.state in {"running", "waiting"}:
        status.state, status.reason = "waiting", "the driver was killed, and is being restarted"
    return status


def load_all(home: Path) -> list[Status]:
    """Read the states of all pipelines that have run here, by name."""
    found = [load(path) for path in pipeline_folders(home)]
    return [each for each in found if each is not None]


def ask_for_lag(found: Iterable[Status], connect: Callable[[], Connection]) -> None:
    """Ask Kafka for the lag of pipelines without a driver, whose last status is outdated."""
    ended = [each for each in found if each.state in {*ENDED, "crashed"}]
    for status in ended:
        status.lag = None
    if not ended:
        return
    with suppress(Refused, Conflict, Transient):
        connection = connect()
        if not is_reachable(connection):
            return
        admin = Admin(connection, timeout_s=_ASKING_S)
        for status in ended:
            with suppress(NotFound):  # it reads no topic, or never got so far
                status.lag = groups.describe(admin, group_of(status.pipeline)).lag


def driver_of(folder: Path) -> psutil.Process | None:
    """Return the process that runs the pipeline, which is the one that holds its lock; None if nobody does."""
    return holder(folder / DRIVER_LOCK)
