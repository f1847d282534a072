"""What `penstock up` has started from the project file, so that the next one knows what differs."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pydantic import BaseModel, Field

from penstock.delivery.durable import locked, read_versioned, write_versioned
from penstock.errors import Conflict
from penstock.private import make_private
from penstock.record.formats import SYSTEM
from penstock.system.part import Kind, Part

_FILE = "system.json"
_LOCK = "system.lock"


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


@contextmanager
def changing(home: Path) -> Iterator[Record]:
    """Yield the record to one command at a time, and save its changes; a crash leaves the old or the new one."""
    make_private(home)
    with locked(home / _LOCK):
        known = load(home)
        yield known
        write_versioned(home / _FILE, SYSTEM, known.model_dump())
