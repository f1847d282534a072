"""The cluster of a run while it goes on: its nodes, what its topics hold, and who is how far behind."""

import threading
from pathlib import Path

from pydantic import BaseModel, Field

from penstock.broker.cluster import Cluster
from penstock.console.nodes import Nodes, nodes_of
from penstock.errors import PenstockError
from penstock.kafka import groups
from penstock.kafka.admin import Admin
from penstock.kafka.connection import Connection
from penstock.kafka.positions import bounds

_ANSWER_S = 3.0
_OWN = ("__", "penstock.")
_DEAD = ".dead"


class RunTopic(BaseModel, frozen=True):
    """A topic of a run's cluster."""

    topic: str = Field(description="Its name.")
    partitions: int = Field(description="Partitions.")
    records: int = Field(description="Records in all partitions that somebody leads.")
    lacking: int = Field(description="Partitions that lack a replica right now.")


class RunGroup(BaseModel, frozen=True):
    """A group of a run's cluster: a pipeline that lands, or members of a drill."""

    group: str = Field(description="Its name.")
    state: str = Field(description="Its state.")
    lag: int = Field(description="Records between it and the ends.")


class RunCluster(BaseModel, frozen=True):
    """The throwaway cluster of a run."""

    is_there: bool = Field(description="Whether there is one: not before it has started, nor after its end.")
    nodes: Nodes | None = Field(None, description="Its nodes.")
    topics: list[RunTopic] = Field(default_factory=list, description="Its topics, without Kafka's own.")
    groups: list[RunGroup] = Field(default_factory=list, description="Its groups.")


class RunClusters:
    """Looks at the cluster of the run that goes on, by one admin client."""

    def __init__(self, jars: Path) -> None:
        self._jars = jars
        self._lock = threading.Lock()
        self._admin: Admin | None = None

    def look(self, place: Path | None) -> RunCluster:
        """Return what there is right now; whatever breaks while it is looked at is left out."""
        cluster = Cluster(place / "broker", self._jars) if place else None
        try:
            if cluster is None or cluster.state() is None:
                return RunCluster(is_there=False)
            admin = self._admin_of(cluster.connection())
            nodes = nodes_of(cluster, lambda: admin)
        except (PenstockError, OSError):  # its folder goes with it, file by file
            return RunCluster(is_there=False)
        try:
            return RunCluster(is_there=True, nodes=nodes, topics=_topics(admin), groups=_groups(admin))
        except PenstockError:  # a leader has gone just now
            return RunCluster(is_there=True, nodes=nodes)

    def _admin_of(self, connection: Connection) -> Admin:
        with self._lock:
            if self._admin is None or self._admin.connection != connection:
                self._admin = Admin(connection, timeout_s=_ANSWER_S)
            return self._admin


def _topics(admin: Admin) -> list[RunTopic]:
    found = {
        name: list(topic.partitions.values())
        for name, topic in sorted(admin.metadata("listing topics").topics.items())
        if not name.startswith(_OWN)
    }
    led = [(name, part.id) for name, parts in found.items() for part in parts if part.leader >= 0]
    limits = bounds(admin, led)
    return [
        RunTopic(
            topic=name,
            partitions=len(parts),
            records=sum(end - start for (topic, _), (start, end) in limits.items() if topic == name),
            lacking=sum(len(part.isrs) < len(part.replicas) for part in parts),
        )
        for name, parts in found.items()
    ]


def _groups(admin: Admin) -> list[RunGroup]:
    # What a pipeline notes about its dead letters is no reader of its own: its lag would count twice.
    listed = [each for each in groups.list_groups(admin) if not each.group.endswith(_DEAD)]
    lags = groups.lags(admin, [each.group for each in listed])
    return [RunGroup(group=each.group, state=each.state, lag=lags[each.group]) for each in listed]
