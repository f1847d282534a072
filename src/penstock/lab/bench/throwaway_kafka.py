"""A Kafka of one node for one measurement: made in its folder, stopped whatever happens."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from penstock.broker.cluster import Cluster
from penstock.config.project import LocalCluster

Step = Callable[[str, int, int], None]
"""What a measurement does, how far it is, and of how much; 0 of 0 if nobody knows."""


@contextmanager
def one_node(home: Path, jar_folder: Path, step: Step) -> Iterator[Cluster]:
    """Return a running cluster on a free loopback port."""
    cluster = Cluster(home / "broker", jar_folder, on_progress=lambda line: step(line, 0, 0))
    try:
        cluster.up(LocalCluster(port=0))
        yield cluster
    finally:
        step("stopping Kafka", 0, 0)
        if cluster.state() is not None:
            cluster.down()
