"""No encryption and no login: for loopback and closed networks."""

from typing import Literal

from pydantic import BaseModel, Field


class Plaintext(BaseModel, frozen=True, extra="forbid"):
    """Anybody who reaches the port reads and writes."""

    type: Literal["plaintext"] = Field("plaintext", description="No encryption, no login.")

    def librdkafka(self) -> dict[str, str]:
        """Return the client's settings."""
        return {"security.protocol": "plaintext"}

    def java(self) -> dict[str, str]:
        """Return the settings of a Java client."""
        return {"security.protocol": "PLAINTEXT"}
