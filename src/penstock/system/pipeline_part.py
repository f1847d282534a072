"""A pipeline as a part of the system: a supervised driver."""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from penstock.config.settings import Settings
from penstock.errors import BadInput, BrokerUnavailable, PipelineHalted
from penstock.operate import supervisor
from penstock.system.part import Kind
from penstock.wording import plural

_STOP_TIMEOUT_S = 60.0


@dataclass(frozen=True)
class PipelinePart:
    """A pipeline of the project file."""

    name: str
    file: Path
    settings: Settings
    root: tuple[str, ...]
    """The options of this command line, for the driver to see the same settings."""
    on_progress: Callable[[str], None] = lambda _line: None
    needs: tuple[str, ...] = ()
    stream: bool = False
    """Whether it goes on when it has caught up, whatever its file says."""
    kind: ClassVar[Kind] = "pipeline"

    def digest(self) -> str:
        """Return a digest of its file; one that cannot be read is another."""
        try:
            return hashlib.sha256(self.file.read_bytes() + bytes([self.stream])).hexdigest()
        except OSError:
            return ""

    def is_running(self) -> bool:
        """Return whether it has a supervisor or a driver."""
        return supervisor.is_running(self.name, self.settings)

    def check(self) -> None:
        """Raise if its file cannot be read, or is that of another pipeline."""
        from penstock.pipeline.load import load

        found = load(self.file).name
        if found != self.name:
            raise BadInput(
                f"{self.file} is the file of pipeline '{found}', and the project file calls it '{self.name}'",
                safe="Nothing was started",
                fix=f"Call it '{found}' in both",
            )

    def start(self) -> None:
        """Start its supervisor."""
        from penstock.operate.driver import MASTER

        self.on_progress(f"starting pipeline {self.name}")
        supervisor.start(self.name, self.settings, self.file, list(self.root), MASTER, stream=self.stream)

    def wait(self) -> str:
        """Wait for its first batch, or until it has nothing to read."""
        self.on_progress(f"waiting for the first batch of pipeline {self.name}")
        done = supervisor.wait_for_first_batch(self.name, self.settings, lambda _status: None)
        if done.state == "waiting":
            raise BrokerUnavailable(
                f"pipeline '{self.name}' is waiting: {done.reason}", fix="It goes on by itself once that is over"
            )
        if done.state in {"failed", "crashed"}:
            raise PipelineHalted(
                f"pipeline '{self.name}' {done.state}: {done.reason}", fix=f"See also: penstock logs {self.name}"
            )
        return f"pipeline '{self.name}' is {done.state}: {plural(done.events, 'event')} so far, lag {done.lag or 0:,}"

    def stop(self) -> None:
        """Let it finish its batch; after a minute end it by force."""
        supervisor.stop(self.name, self.settings, _STOP_TIMEOUT_S)
