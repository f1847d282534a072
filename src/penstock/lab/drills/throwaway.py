"""A cluster of three nodes for drills alone: made in a folder, stopped by process id, and gone afterwards."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from penstock.broker.cluster import Cluster, OnProgress
from penstock.broker.node import Node
from penstock.config.project import LocalCluster
from penstock.jvm.java_properties import properties_text

_HEAP_BYTES = 256 * 10**6
# Kafka looks every 5 minutes for what may be deleted and every 15 seconds for what may be compacted: a drill does
# not wait for that. Nothing else that a drill could see differs from the clusters of `penstock up`.
_EAGER = {
    "log.retention.check.interval.ms": 500,
    "log.initial.task.delay.ms": 500,
    "log.cleaner.backoff.ms": 500,
}


class _EagerNode(Node):
    """A node that cleans up as soon as there is something to clean."""

    def configure(self, properties: str) -> None:
        super().configure(properties + properties_text(_EAGER))


class _DrillCluster(Cluster):
    """A cluster of eager nodes."""

    def node(self, node_id: int) -> Node:
        return _EagerNode(node_id, super().node(node_id).folder)


@contextmanager
def three_nodes(folder: Path, jar_folder: Path, on_progress: OnProgress) -> Iterator[Cluster]:
    """Return a running cluster on free loopback ports; it is stopped whatever happens in the block."""
    cluster = _DrillCluster(folder / "broker", jar_folder, on_progress=on_progress)
    try:
        cluster.up(LocalCluster(nodes=3, port=0, heap=_HEAP_BYTES))
        yield cluster
    finally:
        if cluster.state() is not None:
            cluster.down()
