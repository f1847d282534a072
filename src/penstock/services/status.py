"""A service's state, as reported by its supervisor."""

import time
from pathlib import Path
from typing import Literal

import orjson
import psutil
from pydantic import BaseModel, Field

from penstock.delivery.durable import read_versioned, write_versioned
from penstock.delivery.holding import holder
from penstock.record.formats import SERVICE
from penstock.services import launch

State = Literal["starting", "running", "restarting", "stopped", "unsupervised", "crashed"]
_FILE = "status.json"
_LOCK = "supervisor.lock"


class ServiceStatus(BaseModel):
    """The state of one service."""

    state: State = Field(
        "starting",
        description="starting, running, restarting, stopped; unsupervised if it runs and nobody would start it again;"
        " crashed if all of it is gone.",
    )
    pids: dict[str, int] = Field(default_factory=dict, description="Process id of each of its programs that runs.")
    restarts: int = Field(0, description="How often one of its programs died and was started again.")
    reason: str = Field("", description="How the last one that died ended, and when it is or was started again.")
    updated: float = Field(0.0, description="When this was written, in seconds since 1970.")

    def save(self, folder: Path) -> None:
        """Write it for other commands to read."""
        self.updated = time.time()
        write_versioned(folder / _FILE, SERVICE, self.model_dump())


def lock_of(folder: Path) -> Path:
    """Return the file that the supervisor holds."""
    return folder / _LOCK


def supervisor_of(folder: Path) -> psutil.Process | None:
    """Return the supervisor of a service; None if there is none."""
    return holder(lock_of(folder))


def saved(folder: Path) -> ServiceStatus:
    """Read what the supervisor wrote last."""
    try:
        return ServiceStatus.model_validate(read_versioned(folder / _FILE, SERVICE))
    except (OSError, ValueError, orjson.JSONDecodeError):
        return ServiceStatus(state="stopped")


def load(folder: Path) -> ServiceStatus:
    """Return a service's state; one whose supervisor was killed runs unsupervised, or has ended as well."""
    supervised = supervisor_of(folder) is not None
    status = saved(folder)
    if supervised or status.state == "stopped":
        return status
    if launch.left_behind(folder):
        status.state = "unsupervised"
        status.reason = "its supervisor is gone, and nobody would start it again. Take over with: penstock up"
    else:
        status.state, status.pids = "crashed", {}
        status.reason = status.reason or "all of it is gone. Start it with: penstock up"
    return status
