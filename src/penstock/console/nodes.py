"""The nodes of a cluster: as the cluster sees them, and as this machine does."""

from collections.abc import Callable

from pydantic import BaseModel, Field

from penstock.broker.cluster import Cluster
from penstock.broker.local_nodes import Disk, LocalNode, disk_of, local_nodes
from penstock.errors import PenstockError
from penstock.kafka import cluster as kafka_cluster
from penstock.kafka.admin import Admin
from penstock.kafka.cluster import Broker, ClusterDetail


class NodeRow(BaseModel, frozen=True):
    """One node: as the cluster sees it, and as this machine does."""

    node: int = Field(description="Node id.")
    is_controller: bool = Field(description="Whether it answers for the controller.")
    broker: Broker | None = Field(description="As the cluster sees it; none while it is not part of it.")
    local: LocalNode | None = Field(description="Its process; none if it runs elsewhere.")
    disk: Disk | None = Field(description="What its data take; none if it runs elsewhere.")


class Nodes(BaseModel, frozen=True):
    """The nodes of a cluster."""

    cluster_id: str = Field(description="Kafka's cluster id; empty while it does not answer.")
    is_local: bool = Field(description="Whether Penstock starts and stops it.")
    problem: str = Field("", description="Why the cluster does not answer.")
    nodes: list[NodeRow] = Field(description="Every node that is known, by id.")
    under_replicated: list[str] = Field(description="Under-replicated partitions, as topic/partition.")
    offline: list[str] = Field(description="Partitions without a leader, as topic/partition.")


def nodes_of(local: Cluster | None, admin: Callable[[], Admin]) -> Nodes:
    """Look at every node that is up, and at those of a local cluster also while they are down."""
    known = {each.node: each for each in local_nodes(local)} if local else {}
    found: ClusterDetail | None = None
    problem = ""
    try:
        found = kafka_cluster.describe(admin())
    except PenstockError as error:
        if not known:
            raise
        problem = str(error)
    up = {each.id: each for each in found.nodes} if found else {}
    return Nodes(
        cluster_id=found.cluster_id if found else "",
        is_local=local is not None,
        problem=problem,
        nodes=[
            NodeRow(
                node=node,
                is_controller=found is not None and found.controller == node,
                broker=up.get(node),
                local=known.get(node),
                disk=disk_of(local, node) if local and node in known else None,
            )
            for node in sorted({*up, *known})
        ],
        under_replicated=found.under_replicated if found else [],
        offline=found.offline if found else [],
    )
