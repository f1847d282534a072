"""The files of a pipeline, and what its driver reports while it runs."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Self

from penstock.delivery.checkpoint import Checkpoint
from penstock.driver.log_files import roll_over

if TYPE_CHECKING:
    from penstock.driver.batch import BatchReport


@dataclass(frozen=True)
class Progress:
    """What is reported after each batch, and while waiting."""

    report: "BatchReport | None"
    lag: int
    waiting_for: str = ""
    is_idle: bool = False
    """Nothing is left to read for now."""
    repeated: int = 0
    """Records that were sent before a crash, and again after it; at least once only."""


_PIPELINES = "pipelines"
SPARK_CONSOLE = "spark-console.log"
OnProgress = Callable[[Progress], None]


def pipeline_folders(home: Path) -> list[Path]:
    """Return the folders of the pipelines that have run in a home folder, by name."""
    folder = home / _PIPELINES
    return sorted(each for each in folder.iterdir() if each.is_dir()) if folder.is_dir() else []


@dataclass(frozen=True)
class PipelinePaths:
    """The folders of one pipeline."""

    folder: Path
    is_held: bool = False
    """Whether this driver holds the pipeline's lock, so that nobody has to take it."""
    pipeline_folder: Path | None = None
    """For a replay, the folder of its pipeline."""

    @classmethod
    def of(cls, home: Path, pipeline: str) -> Self:
        """Return the folders of a pipeline that runs in a home folder."""
        return cls(home / _PIPELINES / pipeline)

    @contextmanager
    def locked(self, pipeline: str) -> Iterator[Self]:
        """Hold the pipeline for one driver, and return the folders as held; raise `Conflict` if another one does."""
        if self.is_held:
            yield self
            return
        with Checkpoint(self.checkpoint, pipeline).locked():
            yield replace(self, is_held=True)

    @property
    def gaps(self) -> Path:
        """The record of what was skipped: a replay skips what its pipeline has skipped."""
        return self.pipeline_folder or self.folder

    @property
    def checkpoint(self) -> Path:
        """What the driver last did."""
        return self.folder / "checkpoint"

    @property
    def scratch(self) -> Path:
        """What tasks stage; useless once no driver runs."""
        return self.folder / "scratch"

    def replay(self, replay_id: str) -> "PipelinePaths":
        """Return the folders of one of its replays."""
        return PipelinePaths(self.folder / "replays" / replay_id, pipeline_folder=self.folder)

    @property
    def logs(self) -> Path:
        """The logs of the driver and of Spark."""
        return self.folder / "logs"

    @property
    def driver_log(self) -> Path:
        """The log of a driver in the background."""
        return self.logs / "driver.log"

    def roll_logs_over(self) -> None:
        """Roll over the logs that do not do that by themselves, as Spark's own does."""
        for log in (self.driver_log, self.logs / SPARK_CONSOLE):
            roll_over(log)
