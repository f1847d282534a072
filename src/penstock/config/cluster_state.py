"""What a local cluster was made with: the one file that `up` compares what is asked of it against.

It is written whole, by rename, before the first node is formatted, and again whenever a node comes or goes.
"""

from pathlib import Path

from pydantic import BaseModel, Field

from penstock.config import state_file
from penstock.errors import Conflict
from penstock.record.formats import CLUSTER

FILE = "cluster.json"


class NodeState(BaseModel, frozen=True, extra="forbid"):
    """One node: its id, its part in the cluster and its ports."""

    id: int = Field(description="Kafka's node id; never used twice in one cluster.")
    controller: bool = Field(description="Whether it also votes on the cluster's metadata.")
    client_port: int = Field(description="Port for clients.")
    controller_port: int | None = Field(description="Port for the controllers among themselves.")
    internal_port: int | None = Field(description="Port between nodes of a secure cluster.")

    @property
    def ports(self) -> tuple[int, ...]:
        """Every port that the node listens on."""
        return tuple(port for port in (self.client_port, self.controller_port, self.internal_port) if port)


class ClusterState(BaseModel, frozen=True, extra="forbid"):
    """The facts that the data on disk depend on."""

    cluster_id: str = Field(description="Kafka's cluster id, in every node's data.")
    kafka_version: str = Field(description="Version of Kafka that wrote the data last.")
    host: str = Field(description="Address that the nodes listen on and announce.")
    secure: bool = Field(description="TLS, SCRAM users and ACLs.")
    heap_bytes: int = Field(description="Java heap of each node.")
    replication: int = Field(description="Default replicas of each partition.")
    first_nodes: int = Field(description="How many nodes the cluster was made with.")
    next_node_id: int = Field(description="Id that the next added node gets.")
    nodes: tuple[NodeState, ...] = Field(description="The nodes, in order of their ids.")

    @property
    def bootstrap_servers(self) -> str:
        """Where clients connect."""
        return ",".join(f"{self.host}:{node.client_port}" for node in self.nodes)

    @property
    def internal_servers(self) -> str:
        """Where the nodes of a secure cluster talk to each other, by certificate."""
        return ",".join(f"{self.host}:{node.internal_port}" for node in self.nodes)

    @property
    def controllers(self) -> tuple[NodeState, ...]:
        """The nodes that vote."""
        return tuple(node for node in self.nodes if node.controller)

    def node(self, node_id: int) -> NodeState | None:
        """Find a node by its id."""
        return next((node for node in self.nodes if node.id == node_id), None)

    def save(self, folder: Path) -> None:
        """Write the file so that a crash leaves the old one or the new one."""
        state_file.save(folder / FILE, CLUSTER, self)


def load(folder: Path) -> ClusterState | None:
    """Read the file; None where no cluster was made yet. Data without the file are never used."""
    safe = "The data are untouched"
    fix = f"Put {FILE} back from a copy, or move {folder} away to start a new cluster"
    found = state_file.load(folder / FILE, CLUSTER, ClusterState, safe=safe, fix=fix)
    if found is None and any(folder.glob("node-*/data/meta.properties")):
        what = f"{folder} holds Kafka data, but {FILE}, which says how they were made, is gone"
        raise Conflict(what, safe=safe, fix=fix)
    return found
