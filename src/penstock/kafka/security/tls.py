"""Encryption, and proof of the broker's identity; the client stays anonymous."""

from typing import Literal

from pydantic import BaseModel, Field

from penstock.secret import PathFromFile


class TlsTrust(BaseModel, frozen=True, extra="forbid", hide_input_in_errors=True):
    """Which CA the client trusts; shared by every mechanism that runs over TLS.

    Certificates and host names are always verified: there is no switch to turn that off.
    """

    ca_file: PathFromFile | None = Field(
        None,
        description="PEM file with the CA that signed the brokers' certificates; the system's if left out.",
    )

    def trust(self) -> dict[str, str]:
        """Return the settings that verify the broker."""
        return {"ssl.ca.location": str(self.ca_file)} if self.ca_file else {}

    def java_trust(self) -> dict[str, str]:
        """Return the same for a Java client."""
        if self.ca_file is None:
            return {}
        return {"ssl.truststore.type": "PEM", "ssl.truststore.location": str(self.ca_file)}


class Tls(TlsTrust):
    """TLS without a login."""

    type: Literal["tls"] = Field("tls", description="Encrypted, no login.")

    def librdkafka(self) -> dict[str, str]:
        """Return the client's settings."""
        return {"security.protocol": "ssl", **self.trust()}

    def java(self) -> dict[str, str]:
        """Return the settings of a Java client."""
        return {"security.protocol": "SSL", **self.java_trust()}
