"""A service as a part of the system."""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from penstock.config.service_names import ServiceName
from penstock.config.services import AnyService
from penstock.services import control
from penstock.services.control import LocalServices
from penstock.system.part import Kind


@dataclass(frozen=True)
class ServicePart:
    """A service of the project file, or one that a command has named."""

    name: ServiceName
    settings: AnyService
    home: Path
    services: Callable[[], LocalServices]
    """Asked when it is started: it takes a cluster that runs."""
    needs: tuple[str, ...] = ()
    reads: str = ""
    """What else of the project file it reads when it starts."""
    kind: ClassVar[Kind] = "service"

    def digest(self) -> str:
        """Return a digest of its settings; secrets are in there as they are named."""
        return hashlib.sha256(f"{self.settings.model_dump_json()}{self.reads}".encode()).hexdigest()

    def is_running(self) -> bool:
        """Return whether it has a supervisor."""
        return control.is_running(self.home, self.name)

    def start(self) -> None:
        """Start its supervisor."""
        self.services().start(self.name, self.settings)

    def wait(self) -> str:
        """Wait for a real answer."""
        return f"{self.name} is ready at {self.services().answering(self.name, self.settings).shown}"

    def stop(self) -> None:
        """Stop it."""
        control.stop(self.home, self.name)
