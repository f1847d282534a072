"""TLS in both directions: the client's certificate is its login."""

from typing import Literal

from pydantic import Field

from penstock.kafka.security.tls import TlsTrust
from penstock.secret import PathFromFile, Secret


class Mtls(TlsTrust):
    """TLS with a client certificate."""

    type: Literal["mtls"] = Field("mtls", description="Encrypted; the client's certificate is the login.")
    certificate_file: PathFromFile = Field(description="PEM file with the client's certificate chain.")
    key_file: PathFromFile = Field(description="PEM file with the client's private key.")
    key_password: Secret | None = Field(None, description="env:NAME or file:PATH of the key's password, if it has one.")

    def librdkafka(self) -> dict[str, str]:
        """Return the client's settings."""
        settings = {
            "security.protocol": "ssl",
            **self.trust(),
            "ssl.certificate.location": str(self.certificate_file),
            "ssl.key.location": str(self.key_file),
        }
        if self.key_password is not None:
            settings["ssl.key.password"] = self.key_password.reveal()
        return settings

    def java(self) -> dict[str, str]:
        """Return the settings of a Java client: it takes the PEM texts themselves, so treat them as a secret."""
        settings = {
            "security.protocol": "SSL",
            **self.java_trust(),
            "ssl.keystore.type": "PEM",
            "ssl.keystore.certificate.chain": self.certificate_file.read_text(encoding="utf-8"),
            "ssl.keystore.key": self.key_file.read_text(encoding="utf-8"),
        }
        if self.key_password is not None:
            settings["ssl.key.password"] = self.key_password.reveal()
        return settings
