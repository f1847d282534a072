"""What `penstock up` has started from the project file, so that the next one knows what differs."""

from pathlib import Path

from pydantic import BaseModel, Field

from penstock.delivery.durable import read_versioned, write_versioned
from penstock.errors import Conflict
from penstock.record.formats import SYSTEM
from penstock.system.part import Kind, Part

_FILE = "system.json"


class Started(BaseModel, frozen=True):
    """One part, as it was started."""

    kind: Kind = Field(description="What it is.")
    digest: str = Field(description="A digest of what it was started with.")


class Record(BaseModel):
    """All parts that were started from the project file and not taken out of it since."""

    parts: dict[str, Started] = Field(default_factory=dict, description="The parts by name.")

    def note(self, part: Part) -> None:
        """Put on record how a part was started."""
        self.parts[part.name] = Started(kind=part.kind, digest=part.digest())

    def save(self, home: Path) -> None:
        """Write it, so that a crash leaves the old one or the new one."""
        write_versioned(home / _FILE, SYSTEM, self.model_dump())


def load(home: Path) -> Record:
    """Read the record; an empty one if nothing was ever started."""
    try:
        return Record.model_validate(read_versioned(home / _FILE, SYSTEM))
    except FileNotFoundError:
        return Record()
    except ValueError:
        raise Conflict(
            f"{home / _FILE} is damaged", safe="Nothing was started or stopped", fix="Remove it, and run this again"
        ) from None
