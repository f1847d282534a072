"""The cluster as a whole: its nodes, its controller, and under-replicated partitions."""

from confluent_kafka.admin import BrokerMetadata, ConfigResource, PartitionMetadata, ResourceType
from pydantic import BaseModel, Field

from penstock.kafka.admin import Admin


class Broker(BaseModel, frozen=True):
    """One node as clients see it."""

    id: int = Field(description="Node id.")
    host: str = Field(description="Announced host.")
    port: int = Field(description="Announced port.")
    leads: int = Field(description="Partitions that it leads.")
    replicas: int = Field(description="Partitions that it has a replica of.")
    lacking: int = Field(description="Replicas on it that are not in sync.")


class ClusterDetail(BaseModel, frozen=True):
    """A cluster at a glance."""

    cluster_id: str = Field(description="Kafka's cluster id.")
    controller: int | None = Field(description="Node that answers for the controller.")
    nodes: list[Broker] = Field(description="Nodes that are up.")
    topics: int = Field(description="Topics, Kafka's own included.")
    partitions: int = Field(description="Partitions of all topics.")
    under_replicated: list[str] = Field(description="Under-replicated partitions, as topic/partition.")
    offline: list[str] = Field(description="Partitions without a leader, as topic/partition.")


def cluster_id(admin: Admin) -> str:
    """Ask for the cluster's id: another cluster may have the same address by now."""
    doing = "asking for the cluster's id"
    found = admin.result(admin.client.describe_cluster(request_timeout=admin.timeout_s), doing)
    return found.cluster_id or ""


def _broker(node: BrokerMetadata, partitions: list[PartitionMetadata]) -> Broker:
    return Broker(
        id=node.id,
        host=node.host,
        port=node.port,
        leads=sum(part.leader == node.id for part in partitions),
        replicas=sum(node.id in part.replicas for part in partitions),
        lacking=sum(node.id in part.replicas and node.id not in part.isrs for part in partitions),
    )


def node_config(admin: Admin, node_id: int) -> dict[str, tuple[str | None, bool]]:
    """Return every setting of a node, and whether it is its own rather than a default; None for what is secret."""
    resource = ConfigResource(ResourceType.BROKER, str(node_id))
    futures = admin.client.describe_configs([resource], request_timeout=admin.timeout_s)
    (found,) = admin.results(futures, f"reading the settings of node {node_id}")
    return {
        key: (None if entry.is_sensitive else str(entry.value), not entry.is_default)
        for key, entry in sorted(found.items())
    }


def describe(admin: Admin) -> ClusterDetail:
    """Look at the whole cluster. Any node can answer, so this works while another one is down."""
    found = admin.metadata("describing the cluster")
    partitions = [(name, part) for name, topic in sorted(found.topics.items()) for part in topic.partitions.values()]
    return ClusterDetail(
        cluster_id=found.cluster_id or "",
        controller=found.controller_id if found.controller_id >= 0 else None,
        nodes=[_broker(node, [part for _, part in partitions]) for _, node in sorted(found.brokers.items())],
        topics=len(found.topics),
        partitions=len(partitions),
        under_replicated=[f"{name}/{part.id}" for name, part in partitions if len(part.isrs) < len(part.replicas)],
        offline=[f"{name}/{part.id}" for name, part in partitions if part.leader < 0],
    )
