"""Plans a new cluster from what is asked for and the defaults; refuses what contradicts an existing one."""

import uuid
from base64 import urlsafe_b64encode
from pathlib import Path

from penstock.broker import ports
from penstock.config.cluster_state import ClusterState, NodeState
from penstock.config.local_connection import DEFAULT_PORT
from penstock.config.project import LocalCluster
from penstock.errors import BadInput, Conflict

_DEFAULT_HEAP_BYTES = 512 * 10**6
_CONTROLLER_PORTS_FROM = 10_000
_INTERNAL_PORTS_FROM = 20_000
_HIGHEST_PORT = 65_535
# Three votes survive one failure; two would need both, and more only cost.
_VOTERS = 3


def new_cluster(folder: Path, kafka_version: str, requested: LocalCluster) -> ClusterState:
    """Plan a new cluster from what is asked for and the defaults."""
    host = requested.host or "127.0.0.1"
    count = requested.nodes or 1
    secure = bool(requested.secure)
    port = DEFAULT_PORT if requested.port is None else requested.port
    highest = port + _INTERNAL_PORTS_FROM + count
    if port and highest > _HIGHEST_PORT:
        raise BadInput(f"port {port} is too high: ports up to {highest} would be used", fix="Choose one below 45000")
    if host in {"0.0.0.0", "*"}:  # noqa: S104 - refused here
        raise BadInput(
            f"{host} is not an address that clients could be sent to", fix="Name the one they reach this machine by"
        )
    if "," in str(folder):
        raise BadInput(f"{folder} has a comma, which Kafka takes for two folders", fix="Choose another --home")
    if port:
        triples = [(port + i, port + _CONTROLLER_PORTS_FROM + i, port + _INTERNAL_PORTS_FROM + i) for i in range(count)]
    else:
        free = ports.find_free(host, 3 * count)
        triples = list(zip(free[0::3], free[1::3], free[2::3], strict=True))
    voters = _VOTERS if count >= _VOTERS else 1
    return ClusterState(
        cluster_id=_new_cluster_id(),
        kafka_version=kafka_version,
        host=host,
        secure=secure,
        heap_bytes=requested.heap or _DEFAULT_HEAP_BYTES,
        replication=min(3, count),
        first_nodes=count,
        next_node_id=count + 1,
        nodes=tuple(
            NodeState(
                id=number,
                controller=number <= voters,
                client_port=client,
                controller_port=controller if number <= voters else None,
                internal_port=internal if secure else None,
            )
            for number, (client, controller, internal) in enumerate(triples, start=1)
        ),
    )


def same_or_refuse(known: ClusterState, kafka_version: str, requested: LocalCluster) -> ClusterState:
    """Keep what the data were made with; refuse a request that contradicts it. Only the heap may change."""
    contradictions = {
        "nodes": (requested.nodes, known.first_nodes),
        "port": (requested.port or None, known.nodes[0].client_port),
        "host": (requested.host, known.host),
        "secure": (requested.secure, known.secure),
    }
    for name, (wanted, made) in contradictions.items():
        if wanted is not None and wanted != made:
            grow = "; `penstock node add` makes it larger" if name == "nodes" else ""
            raise Conflict(
                f"this cluster was made with `{name}: {_yaml(made)}`, and cannot change to `{name}: {_yaml(wanted)}`",
                safe="Nothing was changed, the data are untouched",
                fix=f"Leave --{name} out, or set {name}: {_yaml(made)} in penstock.yaml, to start it as it is{grow}."
                " To make another cluster, name another folder: --home FOLDER",
            )
    if _version_key(kafka_version) < _version_key(known.kafka_version):
        raise Conflict(
            f"these data were written by Kafka {known.kafka_version},"
            f" and this is Kafka {kafka_version}, which is older",
            safe="Nothing was changed, the data are untouched",
            fix="Use the newer Penstock again",
        )
    return known.model_copy(update={"kafka_version": kafka_version, "heap_bytes": requested.heap or known.heap_bytes})


def _yaml(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _new_cluster_id() -> str:
    """Make a cluster id as Kafka does: one that begins with a dash would look like an option to its tools."""
    while (made := urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")).startswith("-"):
        pass
    return made


def _version_key(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split("."))
