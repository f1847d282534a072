"""The cluster as a whole: its nodes, its controller, and what lacks a copy."""

from confluent_kafka.admin import DescribeClusterResult
from pydantic import BaseModel, Field

from penstock.kafka.admin import Admin


class Broker(BaseModel, frozen=True):
    """One node as clients see it."""

    id: int = Field(description="Node id.")
    host: str = Field(description="Announced host.")
    port: int = Field(description="Announced port.")


class ClusterDetail(BaseModel, frozen=True):
    """A cluster at a glance."""

    cluster_id: str = Field(description="Kafka's cluster id.")
    controller: int | None = Field(description="Node that answers for the controller.")
    nodes: list[Broker] = Field(description="Nodes that are up.")
    topics: int = Field(description="Topics, Kafka's own included.")
    partitions: int = Field(description="Partitions of all topics.")
    under_replicated: list[str] = Field(description="topic/partition that lacks a copy right now.")
    offline: list[str] = Field(description="topic/partition that nobody leads right now.")


def describe(admin: Admin) -> ClusterDetail:
    """Look at the whole cluster."""
    answer: DescribeClusterResult = admin.result(
        admin.client.describe_cluster(request_timeout=admin.timeout_s), "describing the cluster"
    )
    topics = admin.metadata("describing the cluster").topics
    partitions = [(name, part) for name, topic in sorted(topics.items()) for part in topic.partitions.values()]
    return ClusterDetail(
        cluster_id=answer.cluster_id or "",
        controller=answer.controller.id if answer.controller else None,
        nodes=[Broker(id=node.id, host=node.host, port=node.port) for node in sorted(answer.nodes, key=lambda n: n.id)],
        topics=len(topics),
        partitions=len(partitions),
        under_replicated=[f"{name}/{part.id}" for name, part in partitions if len(part.isrs) < len(part.replicas)],
        offline=[f"{name}/{part.id}" for name, part in partitions if part.leader < 0],
    )
