"""The project file, penstock.yaml: the cluster and the topics of one project."""

from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field, field_validator

from penstock.config import document
from penstock.kafka.connection import Connection
from penstock.kafka.topic_spec import TopicSpec
from penstock.quantities import SizeBytes

FILE_NAME = "penstock.yaml"
_SMALLEST_HEAP_BYTES = 128_000_000


class LocalCluster(BaseModel, frozen=True, extra="forbid"):
    """A Kafka that Penstock runs on this machine. What is left out keeps the value the data were made with."""

    type: Literal["local"] = Field("local", description="Penstock starts and stops this cluster.")
    nodes: int | None = Field(None, ge=1, le=9, description="How many nodes the cluster starts with; 1 by default.")
    port: int | None = Field(
        None,
        ge=0,
        le=45_000,
        description="Client port of the first node, the others follow; 9092 by default, 0 picks free ones.",
    )
    host: str | None = Field(
        None,
        pattern=r"^[A-Za-z0-9.-]+$",
        description="Name or IPv4 address that the nodes listen on and announce; 127.0.0.1 by default.",
    )
    secure: bool | None = Field(None, description="TLS, SCRAM users and ACLs, deny by default; off by default.")
    heap: SizeBytes | None = Field(
        None, ge=_SMALLEST_HEAP_BYTES, description="Java heap of each node; 512MB by default."
    )


class ExternalCluster(Connection):
    """A Kafka that somebody else runs: Penstock only connects to it."""

    type: Literal["external"] = Field("external", description="Penstock connects to this cluster.")

    def connection(self) -> Connection:
        """Return the way in, without the project's own keys."""
        return Connection(
            bootstrap_servers=self.bootstrap_servers,
            security=self.security,
            client_settings=self.client_settings,
        )


class Project(BaseModel, frozen=True, extra="forbid", hide_input_in_errors=True):
    """Everything in penstock.yaml."""

    cluster: Annotated[LocalCluster | ExternalCluster, Field(discriminator="type")] = Field(
        default_factory=LocalCluster, description="The Kafka that this project uses."
    )

    @field_validator("cluster", mode="before")
    @classmethod
    def _type_can_be_told(cls, value: Any) -> Any:
        """Servers to connect to mean an external cluster; without them it is a local one."""
        if isinstance(value, dict) and "type" not in value:
            return {"type": "external" if "bootstrap_servers" in value else "local", **value}
        return value

    topics: dict[str, TopicSpec] = Field(
        default_factory=dict, description="Topics by name, made by `penstock topic apply`."
    )


def load(path: Path) -> Project:
    """Read a project file; every complaint names the line and the key."""
    return document.load(path, Project)


TEMPLATE = """\
# penstock.yaml: the Kafka and the topics of this project.
# Which setting wins: an option on the command line, then the environment (PENSTOCK_...), then this file,
# then the defaults.

cluster:
  type: local            # Penstock runs Apache Kafka here: penstock up
  nodes: 1               # 3 gives replication 3 and min.insync 2
  port: 9092             # client port of the first node; 0 picks free ports
  secure: false          # true: TLS, SCRAM users and ACLs, deny by default
  heap: 512MB            # Java heap of each node

# A Kafka that somebody else runs, instead:
# cluster:
#   type: external
#   bootstrap_servers: kafka-1.example.com:9093,kafka-2.example.com:9093
#   security:
#     type: scram        # plaintext | tls | mtls | plain | scram
#     mechanism: SCRAM-SHA-512
#     username: orders-app
#     password: env:KAFKA_PASSWORD        # or file:secrets/kafka.password; never the password itself
#     ca_file: secrets/ca.pem

topics:                  # penstock topic apply shows what would change, then makes it so; it never deletes
  orders:
    partitions: 3
    retention: 7d        # or forever
    # retention_size: 1GB
    # cleanup: delete    # delete | compact | both
    # config: {min.insync.replicas: 1}
"""
