"""What the watch of a project's connectors has done: which have failed, and how often each was started again."""

from pathlib import Path

from pydantic import BaseModel, Field

from penstock.delivery.durable import read_versioned, write_versioned
from penstock.record.formats import SERVICE

_FILE = "restarts.json"


class Restarts(BaseModel, frozen=True):
    """How often a connector was started again, and why."""

    count: int = Field(0, description="How often it was started again because it, or a task of it, had failed.")
    reason: str = Field("", description="Why it failed last.")
    failed_at: float = Field(0.0, description="When that was, in seconds since 1970.")
    again_at: float | None = Field(
        None, description="When it is started again; none if it was, and has not failed yet."
    )


def load(folder: Path) -> dict[str, Restarts]:
    """Return what is on record in Connect's folder, by connector; empty for one that never failed."""
    try:
        found = read_versioned(folder / _FILE, SERVICE)
        return {name: Restarts.model_validate(each) for name, each in found.get("connectors", {}).items()}
    except (OSError, ValueError):
        return {}


def save(folder: Path, restarts: dict[str, Restarts]) -> None:
    """Put it on record."""
    listed = {name: each.model_dump() for name, each in restarts.items()}
    write_versioned(folder / _FILE, SERVICE, {"connectors": listed})
