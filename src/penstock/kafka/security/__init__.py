"""How clients authenticate: one file per mechanism, one union for all of them."""

from typing import Annotated

from pydantic import Field

from penstock.kafka.security.mtls import Mtls
from penstock.kafka.security.plain import Plain
from penstock.kafka.security.plaintext import Plaintext
from penstock.kafka.security.scram import Scram
from penstock.kafka.security.tls import Tls

Security = Annotated[Plaintext | Tls | Mtls | Plain | Scram, Field(discriminator="type")]

__all__ = ["Mtls", "Plain", "Plaintext", "Scram", "Security", "Tls"]
