"""A local cluster: starting, stopping, growing, shrinking; one command at a time, under a lock."""

import fcntl
import uuid
from base64 import urlsafe_b64encode
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

from penstock.broker import jars, ports, state
from penstock.broker.certificates import Certificates
from penstock.broker.entrance import ADMIN_USER, DEFAULT_PORT, internal_connection, local_connection
from penstock.broker.node import Node
from penstock.broker.properties import server_properties
from penstock.broker.readiness import probe_every_node, wait_until
from penstock.broker.secrets_folder import SecretsFolder
from penstock.broker.state import ClusterState, NodeState
from penstock.errors import BadInput, BrokerUnavailable, Conflict, NotFound, Unprepared
from penstock.kafka import cluster as kafka_cluster
from penstock.kafka import users
from penstock.kafka.admin import Admin
from penstock.kafka.connection import Connection
from penstock.project import LocalCluster
from penstock.secret import Secret

DEFAULT_HEAP_BYTES = 512 * 10**6
_CONTROLLER_PORTS_FROM = 10_000
_INTERNAL_PORTS_FROM = 20_000
_HIGHEST_PORT = 65_535
_STOP_TIMEOUT_S = 30.0
# Three votes survive one failure; two would need both, and more only cost.
_VOTERS = 3

Talk = Callable[[str], None]
"""Called with a line whenever something that takes time begins."""


class Cluster:
    """The cluster in one folder. Every method leaves the data whole, whatever interrupts it."""

    def __init__(
        self,
        folder: Path,
        jar_folder: Path,
        *,
        kafka: jars.JarSet = jars.KAFKA,
        talk: Talk = lambda _line: None,
    ) -> None:
        self.folder = folder
        self._jar_folder = jar_folder
        self._kafka = kafka
        self._talk = talk
        self.files = SecretsFolder.of(folder)

    def state(self) -> ClusterState | None:
        """Give what the cluster was made with, or None."""
        return state.load(self.folder)

    def existing(self) -> ClusterState:
        """Give the state of a cluster that must be there."""
        found = self.state()
        if found is None:
            raise NotFound(f"there is no local cluster in {self.folder}", fix="Make one with: penstock up")
        return found

    def node(self, node_id: int) -> Node:
        """Give a node's folder."""
        return Node(node_id, self.folder / f"node-{node_id}")

    def running(self, known: ClusterState) -> list[NodeState]:
        """Give the nodes whose process is alive."""
        return [node for node in known.nodes if self.node(node.id).process() is not None]

    # ── Starting and stopping ────────────────────────────────────────────────────────────────────────────

    def up(self, wish: LocalCluster) -> ClusterState:
        """Start every node that is not running; done when each has taken and given back a record."""
        with self._locked():
            known = self.state()
            plan = self.planned(wish) if known is None else self._same_or_refuse(known, wish)
            missing = [node for node in plan.nodes if self.node(node.id).process() is None]
            ports.require_free(plan.host, [port for node in missing for port in node.ports])
            classpath = self.classpath()
            if plan != known:
                plan.save(self.folder)
            self._start(plan, missing, classpath)
            self._make_admin(plan)
            self._probe(plan)
            return plan

    def down(self) -> list[int]:
        """Stop every running node; give their ids. The data stay."""
        self.existing()
        with self._locked():
            running = self.running(self.existing())
            self._talk(f"stopping {len(running)} node(s)")
            with ThreadPoolExecutor(max_workers=max(1, len(running))) as pool:
                list(pool.map(lambda node: self.node(node.id).stop(_STOP_TIMEOUT_S), running))
            return [node.id for node in running]

    def restart(self, node_id: int | None = None) -> ClusterState:
        """Restart one node or all, one after the other, each only when every copy is in step again."""
        with self._locked():
            known = self.existing()
            chosen = [self._node_state(known, node_id)] if node_id is not None else list(known.nodes)
            classpath = self.classpath()
            for node in chosen:
                self._talk(f"restarting node {node.id}")
                self.node(node.id).stop(_STOP_TIMEOUT_S)
                self._start(known, [node], classpath)
                self._probe(known, [node])
                if len(known.nodes) > 1 and len(self.running(known)) == len(known.nodes):
                    self._wait_for_copies(known)
            return known

    # ── Growing and shrinking ────────────────────────────────────────────────────────────────────────────

    def add_node(self) -> NodeState:
        """Add a broker to the running cluster. It holds nothing until `penstock topic rebalance`."""
        with self._locked():
            known = self._all_running("add a node")
            wanted_ports = ports.find_free(known.host, 2 if known.secure else 1)
            added = NodeState(
                id=known.next_node_id,
                controller=False,
                client_port=wanted_ports[0],
                controller_port=None,
                internal_port=wanted_ports[1] if known.secure else None,
            )
            grown = known.model_copy(update={"nodes": (*known.nodes, added), "next_node_id": added.id + 1})
            classpath = self.classpath()
            grown.save(self.folder)
            self._start(grown, [added], classpath)
            self._probe(grown, [added])
            return added

    def require_removable(self, node_id: int) -> NodeState:
        """Give the node if it may leave: controllers may not, for the cluster counts on their votes."""
        node = self._node_state(self._all_running("remove a node"), node_id)
        if node.controller:
            raise Conflict(
                f"node {node_id} is a controller of this cluster and cannot leave",
                safe="Nothing was changed",
                fix="Only nodes that came with `penstock node add` can be removed",
            )
        return node

    def forget_node(self, node_id: int) -> None:
        """Stop a node that holds no partition any more and strike it from the cluster; its folder is kept aside."""
        with self._locked():
            node = self.require_removable(node_id)
            known = self.existing()
            self.node(node_id).stop(_STOP_TIMEOUT_S)
            rest = tuple(other for other in known.nodes if other != node)
            known.model_copy(update={"nodes": rest}).save(self.folder)
            folder = self.node(node_id).folder
            folder.rename(folder.with_name(f"removed-{folder.name}"))

    def classpath(self) -> list[Path]:
        """Give Kafka's jars, for its own tools."""
        return jars.ensure(
            self._kafka,
            self._jar_folder,
            lambda step, steps: self._talk(f"fetching Kafka's jars: step {step} of {steps}"),
        )

    def connection(self) -> Connection:
        """Give the administrator's way in."""
        return local_connection(self.folder)

    # ── Inside ───────────────────────────────────────────────────────────────────────────────────────────

    def planned(self, wish: LocalCluster) -> ClusterState:
        """Work out a new cluster from a wish and the defaults."""
        host = wish.host or "127.0.0.1"
        count = wish.nodes or 1
        secure = bool(wish.secure)
        port = DEFAULT_PORT if wish.port is None else wish.port
        highest = port + _INTERNAL_PORTS_FROM + count
        if port and highest > _HIGHEST_PORT:
            raise BadInput(
                f"port {port} is too high: ports up to {highest} would be used", fix="Choose one below 45000"
            )
        if host in {"0.0.0.0", "*"}:  # noqa: S104 - refused here
            raise BadInput(
                f"{host} is no address that clients could be sent to", fix="Name the one they reach this machine by"
            )
        if "," in str(self.folder):
            raise BadInput(f"{self.folder} has a comma, which Kafka takes for two folders", fix="Choose another --home")
        if port:
            triples = [
                (port + i, port + _CONTROLLER_PORTS_FROM + i, port + _INTERNAL_PORTS_FROM + i) for i in range(count)
            ]
        else:
            free = ports.find_free(host, 3 * count)
            triples = list(zip(free[0::3], free[1::3], free[2::3], strict=True))
        voters = _VOTERS if count >= _VOTERS else 1
        return ClusterState(
            cluster_id=_new_cluster_id(),
            kafka_version=self._kafka.removeprefix("kafka-"),
            host=host,
            secure=secure,
            heap_bytes=wish.heap or DEFAULT_HEAP_BYTES,
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

    def _same_or_refuse(self, known: ClusterState, wish: LocalCluster) -> ClusterState:
        """Keep what the data were made with; refuse a wish that contradicts it. The heap alone may change."""
        contradictions = {
            "nodes": (wish.nodes, known.first_nodes),
            "port": (wish.port or None, known.nodes[0].client_port),
            "host": (wish.host, known.host),
            "secure": (wish.secure, known.secure),
        }
        for name, (wanted, made) in contradictions.items():
            if wanted is not None and wanted != made:
                raise Conflict(
                    f"this cluster was made with {name} {made}, and {wanted} is asked for",
                    safe="Nothing was changed, the data are untouched",
                    fix="Leave the option out to start it as it is, use `penstock node add` to grow it,"
                    " or make another cluster with --home FOLDER",
                )
        version = self._kafka.removeprefix("kafka-")
        if _version_key(version) < _version_key(known.kafka_version):
            raise Conflict(
                f"these data were written by Kafka {known.kafka_version}, and this is Kafka {version}, which is older",
                safe="Nothing was changed, the data are untouched",
                fix="Use the newer Penstock again",
            )
        return known.model_copy(update={"kafka_version": version, "heap_bytes": wish.heap or known.heap_bytes})

    def _start(self, known: ClusterState, nodes: list[NodeState], classpath: list[Path]) -> None:
        if known.secure:
            certificates = Certificates(self.files)
            certificates.ensure_ca()
            for node in nodes:
                certificates.ensure_node(node.id, known.host)
        for node in nodes:
            place = self.node(node.id)
            place.configure(server_properties(known, node, place.data, self.files))
        if nodes:
            self._talk(f"starting {len(nodes)} Kafka node(s)")
        with ThreadPoolExecutor(max_workers=max(1, len(nodes))) as pool:
            list(pool.map(lambda node: self.node(node.id).format(known.cluster_id, classpath), nodes))
        for node in nodes:
            self.node(node.id).start(classpath, known.heap_bytes)

    def _make_admin(self, known: ClusterState) -> None:
        """Give a secure cluster its administrator. Made over the nodes' own listener, so no command line holds it."""
        if not known.secure:
            return
        admin = Admin(internal_connection(self.folder, known), timeout_s=10.0)

        def made() -> bool:
            self._still_alive(known)
            if (
                ADMIN_USER not in {user.user for user in users.list_users(admin)}
                or not self.files.password_file(ADMIN_USER).exists()
            ):
                path = self.files.new_password(ADMIN_USER)
                users.put(admin, ADMIN_USER, Secret.parse(f"file:{path}").reveal())
            return True

        wait_until(made, timeout_s=120.0, waiting_for="waiting for the nodes")

    def _probe(self, known: ClusterState, nodes: list[NodeState] | None = None) -> None:
        chosen = [node.id for node in (nodes if nodes is not None else known.nodes)]
        self._talk("waiting until every node takes and gives back a record")
        probe_every_node(self.connection(), chosen, lambda: self._still_alive(known))

    def _still_alive(self, known: ClusterState) -> None:
        for node in known.nodes:
            place = self.node(node.id)
            if place.process() is None:
                raise Unprepared(
                    f"node {node.id} stopped by itself: {place.last_words()}",
                    safe="Its data are kept",
                    fix=f"Read its log with: penstock logs --node {node.id}; then: penstock up",
                )

    def _wait_for_copies(self, known: ClusterState) -> None:
        admin = Admin(self.connection(), timeout_s=10.0)

        def in_step() -> bool:
            self._still_alive(known)
            return not kafka_cluster.describe(admin).under_replicated

        wait_until(in_step, timeout_s=120.0, waiting_for="waiting until every copy is in step")

    def _all_running(self, purpose: str) -> ClusterState:
        known = self.existing()
        if len(self.running(known)) < len(known.nodes):
            raise BrokerUnavailable(
                f"not every node is running, so Penstock does not {purpose}", fix="Run: penstock up"
            )
        return known

    def _node_state(self, known: ClusterState, node_id: int) -> NodeState:
        node = known.node(node_id)
        if node is None:
            ids = ", ".join(str(each.id) for each in known.nodes)
            raise NotFound(f"there is no node {node_id}; there are {ids}")
        return node

    @contextmanager
    def _locked(self) -> Iterator[None]:
        self.folder.mkdir(parents=True, exist_ok=True)
        with (self.folder / "lock").open("w") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise Conflict(
                    f"another command is working on the cluster in {self.folder}", fix="Wait until it is done"
                ) from None
            yield


def _new_cluster_id() -> str:
    """Make a cluster id as Kafka does: one that begins with a dash would look like an option to its tools."""
    while (made := urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")).startswith("-"):
        pass
    return made


def _version_key(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split("."))
