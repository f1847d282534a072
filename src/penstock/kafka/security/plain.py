"""SASL PLAIN: the password itself travels, so only over TLS."""

from typing import Literal

from pydantic import Field

from penstock.kafka.security.jaas import login_module
from penstock.kafka.security.tls import TlsTrust
from penstock.secret import Secret


class Plain(TlsTrust):
    """User and password, sent as they are, inside TLS."""

    type: Literal["plain"] = Field("plain", description="SASL PLAIN over TLS.")
    username: str = Field(min_length=1, description="The user's name.")
    password: Secret = Field(description="env:NAME or file:PATH of the password.")

    def librdkafka(self) -> dict[str, str]:
        """Return the client's settings."""
        return {
            "security.protocol": "sasl_ssl",
            **self.trust(),
            "sasl.mechanisms": "PLAIN",
            "sasl.username": self.username,
            "sasl.password": self.password.reveal(),
        }

    def java(self) -> dict[str, str]:
        """Return the settings of a Java client; they hold the password."""
        module = "org.apache.kafka.common.security.plain.PlainLoginModule"
        return {
            "security.protocol": "SASL_SSL",
            **self.java_trust(),
            "sasl.mechanism": "PLAIN",
            "sasl.jaas.config": login_module(module, username=self.username, password=self.password.reveal()),
        }
