"""SCRAM: a challenge instead of the password; over TLS, without which the exchange can be attacked offline."""

from typing import Literal

from pydantic import Field

from penstock.kafka.security.jaas import login_module
from penstock.kafka.security.tls import TlsTrust
from penstock.secret import Secret


class Scram(TlsTrust):
    """User and password by challenge and response, inside TLS."""

    type: Literal["scram"] = Field("scram", description="SASL SCRAM over TLS.")
    mechanism: Literal["SCRAM-SHA-256", "SCRAM-SHA-512"] = Field("SCRAM-SHA-512", description="The hash in use.")
    username: str = Field(min_length=1, description="The user's name.")
    password: Secret = Field(description="env:NAME or file:PATH of the password.")

    def librdkafka(self) -> dict[str, str]:
        """Return the client's settings."""
        return {
            "security.protocol": "sasl_ssl",
            **self.trust(),
            "sasl.mechanisms": self.mechanism,
            "sasl.username": self.username,
            "sasl.password": self.password.reveal(),
        }

    def java(self) -> dict[str, str]:
        """Return the settings of a Java client; they hold the password."""
        module = "org.apache.kafka.common.security.scram.ScramLoginModule"
        return {
            "security.protocol": "SASL_SSL",
            **self.java_trust(),
            "sasl.mechanism": self.mechanism,
            "sasl.jaas.config": login_module(module, username=self.username, password=self.password.reveal()),
        }
