"""The project file, penstock.yaml: the cluster of one project, its topics, and all that runs around them."""

import re
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, Field, field_validator, model_validator

from penstock.config import document
from penstock.config.pipelines import ProjectPipeline
from penstock.config.services import Services
from penstock.kafka.connection import Connection
from penstock.kafka.topic_spec import TopicSpec
from penstock.quantities import SizeBytes
from penstock.schemas.registry import NamedRegistry
from penstock.wording import nearest

FILE_NAME = "penstock.yaml"
_CLUSTER_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")
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
        """Return the connection, without the project's own keys."""
        return Connection(
            bootstrap_servers=self.bootstrap_servers,
            security=self.security,
            client_settings=self.client_settings,
        )


class LineageReports(BaseModel, frozen=True, extra="forbid"):
    """Where pipelines of this project report what they read and wrote, as OpenLineage events."""

    topic: str = Field("input.runs", description="Topic that the events go to; made if it is not there.")
    namespace: str = Field("penstock", min_length=1, description="Namespace of the pipelines' jobs.")


class Project(BaseModel, frozen=True, extra="forbid", hide_input_in_errors=True):
    """Everything in penstock.yaml."""

    cluster: Annotated[LocalCluster | ExternalCluster, Field(discriminator="type")] = Field(
        default_factory=LocalCluster, description="The Kafka that this project uses."
    )

    @field_validator("cluster", mode="before")
    @classmethod
    def _type_follows_from_keys(cls, value: Any) -> Any:
        """Servers to connect to mean an external cluster; without them it is a local one."""
        if isinstance(value, dict) and "type" not in value:
            return {"type": "external" if "bootstrap_servers" in value else "local", **value}
        return value

    clusters: dict[str, ExternalCluster] = Field(
        default_factory=dict,
        description="Further clusters that the console shows, by name; commands and pipelines use `cluster` alone.",
    )

    @field_validator("clusters")
    @classmethod
    def _clusters_can_be_named_in_addresses(cls, value: dict[str, ExternalCluster]) -> dict[str, ExternalCluster]:
        for name in value:
            if not _CLUSTER_NAME.fullmatch(name):
                raise ValueError(f"'{name}' is not a valid name: letters, digits, dot, dash and underscore, 63 at most")
        return value

    topics: dict[str, TopicSpec] = Field(
        default_factory=dict, description="Topics by name, made by `penstock up` and `penstock topic apply`."
    )
    registry: NamedRegistry | None = Field(
        None, description="A schema registry that somebody else runs: its address, or the address and a login."
    )
    services: Services = Field(
        default_factory=Services, description="What `penstock up` starts beside Kafka; nothing by default."
    )
    connectors: dict[str, dict[str, str | int | bool]] = Field(
        default_factory=dict,
        description="Connectors of Kafka Connect by name, each with its settings, made by `penstock up` and"
        " `penstock connect apply`."
        " Passwords are named: env:NAME or file:PATH.",
    )
    pipelines: dict[str, ProjectPipeline] = Field(
        default_factory=dict,
        description="Pipelines that `penstock up` runs in the background, by name, each with its file.",
    )
    lineage: LineageReports | None = Field(
        None, description="Pipelines report what they read and wrote; without it they do not."
    )

    @field_validator("pipelines", mode="before")
    @classmethod
    def _file_alone_is_enough(cls, value: Any) -> Any:
        """Take a name alone, or a name and a file, for a pipeline that needs nothing."""
        if not isinstance(value, dict):
            return {} if value is None else value
        return {
            name: {} if each is None else {"file": each} if isinstance(each, str) else each
            for name, each in value.items()
        }

    @model_validator(mode="after")
    def _parts_have_distinct_names(self) -> Self:
        """Refuse two parts of one name, and a part that is needed and not there."""
        names = [*self.services.named(), *self.connectors, *self.pipelines]
        for name in names:
            if names.count(name) > 1 or name == "kafka":
                raise ValueError(f"'{name}' is the name of two parts: each service, connector and pipeline has its own")
        for name, each in self.pipelines.items():
            for need in each.needs:
                if need not in names or need == name:
                    close = nearest(need, {*names} - {name})
                    hint = f"; did you mean '{close}'?" if close else ""
                    text = f"pipeline '{name}' needs '{need}', which is not another part of this file{hint}"
                    raise document.contradiction(text, "pipelines", name, "needs")
        return self

    @field_validator("lineage", mode="before")
    @classmethod
    def _key_alone_is_enough(cls, value: Any) -> Any:
        """Take `lineage:` without anything behind it for what it looks like: on, with every default."""
        return {} if value is None else value


def load(path: Path) -> Project:
    """Read a project file; every complaint names the line and the key."""
    return document.load(path, Project)


TEMPLATE = """\
# penstock.yaml: the Kafka of this project, and all that runs around it.
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

# clusters:              # further ones that the console shows beside it
#   staging: {bootstrap_servers: "kafka-3.example.com:9092"}

topics:                  # penstock up and penstock topic apply make it so; neither deletes a topic
  orders:
    partitions: 3
    retention: 7d        # or forever
    # retention_size: 1GB
    # cleanup: delete    # delete | compact | both
    # config: {min.insync.replicas: 1}

# registry: https://registry.example.com   # a schema registry that somebody else runs; with a login:
# registry: {url: https://registry.example.com, username: orders-app, password: env:REGISTRY_PASSWORD}

# connectors:            # penstock up and penstock connect apply make it so
#   lines: {connector.class: FileStreamSource, file: /data/lines.txt, topic: lines}

# services:              # penstock up starts them after Kafka, and starts again what dies
#   registry:            # a schema registry with Confluent's API, on port 8081
#   connect:             # Kafka Connect, on port 8083
#     plugins: [io.debezium:debezium-connector-postgres:3.6.2.Final]
#   gateway:             # events over HTTP, on port 8002
#   lineage:             # the lineage store: filled from Kafka, asked on port 8000
#   console:             # all of this in a browser, on port 8080 or a free one
#   simulator:           # games that make events in topic superhero.combat

# pipelines:             # penstock up runs them in the background
#   orders:              # from orders.yaml
#   daily: {file: reports/daily.yaml, needs: [orders]}

# lineage: {}            # pipelines report what they read and wrote, for: penstock lineage of TABLE
"""
