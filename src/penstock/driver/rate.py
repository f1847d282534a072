"""How many events a pipeline may take in a time, which a command can change while it runs."""

from pathlib import Path
from typing import Self

from pydantic import BaseModel, Field, ValidationError

from penstock.clock import clock
from penstock.delivery.durable import read_versioned, write_versioned
from penstock.pipeline.rate import Rate
from penstock.record.formats import PIPELINE_FILES

_FILE = "rate.json"


class Override(BaseModel, frozen=True):
    """A command's setting, which overrides the pipeline file."""

    rate: Rate | None = Field(description="The limit; none takes the file's limit away.")

    @classmethod
    def load(cls, folder: Path) -> Self | None:
        """Read the override; None if there is none."""
        try:
            return cls.model_validate(read_versioned(folder / _FILE, PIPELINE_FILES))
        except (OSError, ValueError, ValidationError):
            return None

    def save(self, folder: Path) -> None:
        """Save it for the running driver and later ones."""
        write_versioned(folder / _FILE, PIPELINE_FILES, self.model_dump())


def forget(folder: Path) -> None:
    """Let the pipeline file decide again."""
    (folder / _FILE).unlink(missing_ok=True)


class RateLimit:
    """A bucket that fills evenly, up to what one interval allows; a batch takes out of it what it read."""

    def __init__(self, of_file: Rate | None, folder: Path) -> None:
        self._of_file = of_file
        self._folder = folder
        self._rate: Rate | None = None
        self._left = 0.0
        self._looked_at = clock().monotonic()

    def allowance(self) -> int | None:
        """Return how many events may be read now; None if there is no limit."""
        override = Override.load(self._folder)
        rate = self._of_file if override is None else override.rate
        now = clock().monotonic()
        if rate is None:
            self._rate = None
            return None
        if rate != self._rate:
            # A new limit holds at once, and begins with a full interval.
            self._rate, self._left = rate, float(rate.events)
        self._left = min(rate.events, self._left + (now - self._looked_at) * 1000 * rate.events / rate.per)
        self._looked_at = now
        return max(0, int(self._left))

    def take(self, events: int) -> None:
        """Count what a batch read."""
        self._left -= events
