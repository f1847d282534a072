"""Moving partitions between nodes with Kafka's own tool: planned first, watched until the last copy is in step.

No record is lost: Kafka adds the new copy, waits until it is in step, and only then drops the old one.
"""

import json
import tempfile
from collections.abc import Callable, Collection, Sequence
from pathlib import Path

from pydantic import BaseModel, Field

from penstock.broker import placement
from penstock.broker.placement import Placement
from penstock.broker.readiness import PROBE_TOPIC, wait_until
from penstock.broker.tools import client_properties, run_tool
from penstock.errors import Conflict
from penstock.kafka.admin import Admin

_REASSIGN = "org.apache.kafka.tools.reassign.ReassignPartitionsCommand"
_ELECT = "org.apache.kafka.tools.LeaderElectionCommand"
_CLUSTER = "org.apache.kafka.tools.ClusterTool"
_UNLIMITED_TIMEOUT_S = 24 * 3600.0

Progress = Callable[[int, int], None]
"""Called with (partitions in place, partitions to move)."""


class Move(BaseModel, frozen=True):
    """One line of the plan."""

    topic: str = Field(description="Topic.")
    partition: int = Field(description="Partition.")
    replicas: list[int] = Field(description="Nodes that have a copy now, the preferred leader first.")
    target: list[int] = Field(description="Nodes that will have a copy.")


def plan(admin: Admin, *, leaving: Collection[int] = (), topics: Collection[str] = ()) -> list[Move]:
    """Plan a move of all topics, or of some, so that the nodes are evenly used and those leaving end empty."""
    metadata = admin.metadata("planning the rebalance")
    nodes = sorted(set(metadata.brokers) - set(leaving))
    current: Placement = {
        (name, part.id): list(part.replicas)
        for name, topic in metadata.topics.items()
        for part in topic.partitions.values()
        # Each probe partition belongs to its node; it moves only when that node goes.
        if (not topics or name in topics) and (name != PROBE_TOPIC or set(part.replicas) & set(leaving))
    }
    down = {node for replicas in current.values() for node in replicas} - set(metadata.brokers)
    if down:
        raise Conflict(
            f"node(s) {', '.join(map(str, sorted(down)))} hold copies and are down",
            safe="Nothing was moved",
            fix="Start every node first: penstock up",
        )
    targets = placement.plan(current, nodes)
    return [
        Move(topic=topic, partition=number, replicas=current[topic, number], target=target)
        for (topic, number), target in sorted(targets.items())
    ]


def execute(admin: Admin, moves: list[Move], classpath: Sequence[Path], progress: Progress) -> None:
    """Carry out a plan and wait until every copy is where it should be, in step and led as planned."""
    if not moves:
        return
    partitions = [{"topic": move.topic, "partition": move.partition, "replicas": move.target} for move in moves]
    with (
        client_properties(admin.connection) as login,
        tempfile.TemporaryDirectory(prefix="penstock-") as folder,
    ):
        file = Path(folder) / "reassignment.json"
        file.write_text(json.dumps({"version": 1, "partitions": partitions}), encoding="utf-8")
        common = ["--bootstrap-server", admin.connection.bootstrap_servers, "--command-config", str(login)]
        common += ["--reassignment-json-file", str(file)]
        run_tool(classpath, _REASSIGN, [*common, "--execute"])

        def in_place() -> bool:
            done = _count_in_place(admin, moves)
            progress(done, len(moves))
            return done == len(moves)

        wait_until(in_place, timeout_s=_UNLIMITED_TIMEOUT_S, waiting_for="moving partitions")
        # Kafka's tool has the last word, and takes its throttles away again.
        run_tool(classpath, _REASSIGN, [*common, "--verify"])
        # By the tool too: elect_leaders of confluent-kafka 2.16.1 fails on its own argument list.
        elect = ["--bootstrap-server", admin.connection.bootstrap_servers, "--command-config", str(login)]
        run_tool(classpath, _ELECT, [*elect, "--election-type", "preferred", "--path-to-json-file", str(file)])


def unregister(admin: Admin, node_id: int, classpath: Sequence[Path]) -> None:
    """Strike a stopped node from the cluster's metadata."""
    with client_properties(admin.connection) as login:
        servers = admin.connection.bootstrap_servers
        run_tool(
            classpath,
            _CLUSTER,
            ["unregister", "--bootstrap-server", servers, "--command-config", str(login), "--id", str(node_id)],
        )


def _count_in_place(admin: Admin, moves: list[Move]) -> int:
    topics = admin.metadata("watching the rebalance").topics
    done = 0
    for move in moves:
        part = topics[move.topic].partitions[move.partition]
        done += list(part.replicas) == move.target and set(part.isrs) == set(move.target)
    return done
