"""The reverse proxy of services that need more than their program offers: TLS, a login, adapted answers.

It runs beside that program, and forwards requests to it over the loopback.
"""

from pathlib import Path
from typing import Literal

import orjson
from pydantic import BaseModel, Field

from penstock.config.local_services import ServiceState
from penstock.interpreter import SAFE_PYTHON
from penstock.private import write_private
from penstock.services.context import ServiceContext
from penstock.services.launch import Program

_FILE = "front.json"


class FrontOptions(BaseModel, frozen=True, extra="forbid"):
    """Where the front listens, and where it forwards to."""

    host: str = Field(description="Address to listen on.")
    port: int = Field(description="Port to listen on.")
    behind: str = Field(description="Address of the program behind it.")
    adapts: Literal["registry"] | None = Field(description="Whose answers are adapted; none are if left out.")
    certificate: Path | None = Field(None, description="Certificate and key, to speak TLS.")
    username: str = Field(description="User of the login.")
    password_file: Path = Field(description="File with the password of the login.")
    asks_login: bool = Field(
        description="Whether clients have to show the login; the program behind asks the front for it in any case."
    )

    @classmethod
    def of(
        cls, context: ServiceContext, state: ServiceState, *, adapts: Literal["registry"] | None = None
    ) -> "FrontOptions":
        """Work out the options of a service's front."""
        return cls(
            host=state.host,
            port=state.port,
            behind=f"http://127.0.0.1:{state.inner_port}",
            adapts=adapts,
            certificate=context.certificate(state.name, state.host) if state.secure else None,
            username=state.name,
            password_file=context.login(state.name),
            asks_login=state.secure,
        )

    def save(self, folder: Path) -> None:
        """Write them for the front."""
        write_private(folder / _FILE, orjson.dumps(self.model_dump(mode="json")))

    def program(self, folder: Path) -> Program:
        """Return the command that runs it."""
        return Program(name="front", command=(*SAFE_PYTHON, "-m", "penstock.services.front_server", str(folder)))


def load(folder: Path) -> FrontOptions:
    """Read what the front is to do."""
    return FrontOptions.model_validate_json((folder / _FILE).read_bytes())
