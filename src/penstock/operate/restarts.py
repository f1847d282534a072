"""How often a supervisor has restarted a driver, and why."""

from pathlib import Path

from pydantic import BaseModel, Field

from penstock.delivery.durable import read_versioned, write_versioned
from penstock.record.formats import PIPELINE_FILES

_FILE = "restarts.json"


class Restarts(BaseModel, frozen=True):
    """The restarts since one start."""

    count: int = Field(0, description="How often a driver has ended without being told to, and another was started.")
    reason: str = Field("", description="How the last of them ended; empty if none has.")

    def save(self, folder: Path) -> None:
        """Write it for other commands to read."""
        write_versioned(folder / _FILE, PIPELINE_FILES, self.model_dump())


def load(folder: Path) -> Restarts:
    """Return what the supervisor of the last start has said; nothing if there was none."""
    try:
        return Restarts.model_validate(read_versioned(folder / _FILE, PIPELINE_FILES))
    except (OSError, ValueError):
        return Restarts()
