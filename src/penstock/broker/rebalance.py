"""Moving partitions between nodes with Kafka's own tool: planned first, watched until the last replica is in sync.

No record is lost: Kafka adds the new replica, waits until it is in sync, and only then drops the old one.
"""

import json
import re
import tempfile
from collections.abc import Callable, Collection, Sequence
from pathlib import Path

from pydantic import BaseModel, Field

from penstock.broker import placement
from penstock.broker.placement import Placement
from penstock.broker.readiness import PROBE_TOPIC, wait_until
from penstock.broker.tools import client_properties, run_tool
from penstock.errors import Conflict, Refused
from penstock.kafka.admin import Admin

_REASSIGN = "org.apache.kafka.tools.reassign.ReassignPartitionsCommand"
_ELECT = "org.apache.kafka.tools.LeaderElectionCommand"
_CLUSTER = "org.apache.kafka.tools.ClusterTool"
_UNLIMITED_TIMEOUT_S = 24 * 3600.0
_UNDER_WAY = re.compile(
    r"(?P<topic>.+)-(?P<partition>\d+): replicas: (?P<all>[\d,]+)\."
    r"(?: adding: [\d,]+\.)?(?: removing: (?P<removing>[\d,]+)\.)?"
)

Progress = Callable[[int, int], None]
"""Called with (partitions in place, partitions to move)."""


class Move(BaseModel, frozen=True):
    """One line of the plan."""

    topic: str = Field(description="Topic.")
    partition: int = Field(description="Partition.")
    replicas: list[int] = Field(description="Nodes that have a replica now, the preferred leader first.")
    target: list[int] = Field(description="Nodes that will have a replica.")


def plan(
    admin: Admin, classpath: Sequence[Path], *, leaving: Collection[int] = (), topics: Collection[str] = ()
) -> list[Move]:
    """Plan a move of all topics, or of some, so that the nodes are evenly used and those leaving end empty.

    Moves that an interrupted command left unfinished count as done, and are part of the plan.
    """
    # Asked first: a move that ends between the two questions is then in the plan once more, and is done at once.
    under_way = _under_way(admin, classpath)
    metadata = admin.metadata("planning the rebalance")
    nodes = sorted(set(metadata.brokers) - set(leaving))
    now: Placement = {
        (name, part.id): list(part.replicas)
        for name, topic in metadata.topics.items()
        for part in topic.partitions.values()
        # Each probe partition belongs to its node; it moves only when that node goes.
        if (not topics or name in topics) and (name != PROBE_TOPIC or set(part.replicas) & set(leaving))
    }
    current = {partition: under_way.get(partition, replicas) for partition, replicas in now.items()}
    down = {node for replicas in current.values() for node in replicas} - set(metadata.brokers) - set(leaving)
    if down:
        raise Conflict(
            f"nodes that hold replicas are down: {', '.join(map(str, sorted(down)))}",
            safe="Nothing was moved",
            fix="Start every node first: penstock up",
        )
    unreachable = [f"{topic}/{part}" for (topic, part), held in now.items() if not set(held) & set(metadata.brokers)]
    if unreachable:
        raise Conflict(
            f"every replica of {', '.join(unreachable[:3])} is on a node that is down",
            safe="Nothing was moved",
            fix="Start every node first: penstock up",
        )
    targets = {each: under_way[each] for each in under_way if each in now} | placement.plan(current, nodes)
    return [
        Move(topic=topic, partition=number, replicas=now[topic, number], target=target)
        for (topic, number), target in sorted(targets.items())
    ]


def execute(
    admin: Admin,
    moves: list[Move],
    classpath: Sequence[Path],
    progress: Progress,
    still_alive: Callable[[], None] = lambda: None,
) -> None:
    """Carry out a plan and wait until every replica is where it should be, in sync and led as planned.

    A topic that is deleted meanwhile is done. `still_alive` raises when waiting has become pointless.
    """
    if not moves:
        return
    # Moves that are under way already are in the plan: `--additional` lets it take them over.
    _run_for(admin, moves, classpath, _REASSIGN, "--reassignment-json-file", ["--execute", "--additional"])

    def in_place() -> bool:
        still_alive()
        done = sum(map(_in_place(admin), moves))
        progress(done, len(moves))
        return done == len(moves)

    wait_until(in_place, timeout_s=_UNLIMITED_TIMEOUT_S, waiting_for="moving partitions")
    # Kafka's tool has the last word, and takes its throttles away again.
    _run_for(admin, moves, classpath, _REASSIGN, "--reassignment-json-file", ["--verify"])
    # By the tool too: elect_leaders of confluent-kafka 2.16.1 fails on its own argument list.
    _run_for(admin, moves, classpath, _ELECT, "--path-to-json-file", ["--election-type", "preferred"])


def elect_any(admin: Admin, classpath: Sequence[Path]) -> None:
    """Let any running replica lead where no in-sync replica is left: records that it lacks are lost."""
    metadata = admin.metadata("looking for partitions without a leader")
    lost = [
        Move(topic=name, partition=part.id, replicas=part.replicas, target=part.replicas)
        for name, topic in metadata.topics.items()
        for part in topic.partitions.values()
        if part.leader < 0 and set(part.replicas) & set(metadata.brokers)
    ]
    _run_for(admin, lost, classpath, _ELECT, "--path-to-json-file", ["--election-type", "unclean"])


def held_by(admin: Admin, node_id: int) -> list[str]:
    """Return topic/partition of every replica that Kafka counts on a node to have."""
    found = admin.metadata("looking for what a node holds").topics
    return [
        f"{name}/{part.id}"
        for name, topic in sorted(found.items())
        for part in topic.partitions.values()
        if node_id in part.replicas
    ]


def unregister(admin: Admin, node_id: int, classpath: Sequence[Path]) -> None:
    """Remove a stopped node from the cluster's metadata: no topic is placed there any more, unless it starts again."""
    try:
        _run(admin, classpath, _CLUSTER, ["unregister"], ["--id", str(node_id)])
    except Refused as error:
        if "BrokerIdNotRegistered" not in error.what:
            raise


def _run(admin: Admin, classpath: Sequence[Path], tool: str, before: list[str], after: list[str]) -> str:
    """Run a tool as the administrator."""
    with client_properties(admin.connection) as login:
        servers = admin.connection.bootstrap_servers
        arguments = [*before, "--bootstrap-server", servers, "--command-config", str(login), *after]
        return run_tool(classpath, tool, arguments, login=login)


def _run_for(
    admin: Admin, moves: list[Move], classpath: Sequence[Path], tool: str, option: str, arguments: list[str]
) -> None:
    """Run a tool for the partitions that are still there; once more if it failed because one has just gone."""
    while there := [move for move in moves if not _gone(admin, move)]:
        partitions = [{"topic": move.topic, "partition": move.partition, "replicas": move.target} for move in there]
        with tempfile.TemporaryDirectory(prefix="penstock-") as folder:
            file = Path(folder) / "partitions.json"
            file.write_text(json.dumps({"version": 1, "partitions": partitions}), encoding="utf-8")
            try:
                _run(admin, classpath, tool, [], [option, str(file), *arguments])
            except Refused:
                if not any(_gone(admin, move) for move in there):
                    raise
            else:
                return


def _under_way(admin: Admin, classpath: Sequence[Path]) -> Placement:
    """Return where the partitions that Kafka is moving right now will end up."""
    return reassignments(_run(admin, classpath, _REASSIGN, [], ["--list"]))


def reassignments(said: str) -> Placement:
    """Read the list that Kafka's tool prints: all replicas for now, less those that go."""
    found = (_UNDER_WAY.fullmatch(line.strip()) for line in said.splitlines())
    return {
        (each["topic"], int(each["partition"])): [
            int(node) for node in each["all"].split(",") if node not in (each["removing"] or "").split(",")
        ]
        for each in found
        if each
    }


def _gone(admin: Admin, move: Move) -> bool:
    topic = admin.metadata("looking for a topic").topics.get(move.topic)
    return topic is None or move.partition not in topic.partitions


def _in_place(admin: Admin) -> Callable[[Move], bool]:
    topics = admin.metadata("watching the rebalance").topics

    def done(move: Move) -> bool:
        topic = topics.get(move.topic)
        part = topic.partitions.get(move.partition) if topic else None
        return part is None or (list(part.replicas) == move.target and set(part.isrs) == set(move.target))

    return done
