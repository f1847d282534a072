"""A local cluster: starting, stopping, growing, shrinking; one command at a time, under a lock."""

import fcntl
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from penstock.broker import planning, ports, rebalance
from penstock.broker.certificates import Certificates
from penstock.broker.node import Node
from penstock.broker.properties import server_properties
from penstock.broker.readiness import PROBE_TOPIC, probe_every_node, wait_until
from penstock.broker.rebalance import Move
from penstock.config import cluster_state as state
from penstock.config.cluster_state import ClusterState, NodeState
from penstock.config.local_connection import ADMIN_USER, internal_connection, local_connection
from penstock.config.project import LocalCluster
from penstock.config.secrets_folder import SecretsFolder
from penstock.errors import BrokerUnavailable, Conflict, EnvironmentNotReady, NotFound
from penstock.jvm import jars
from penstock.kafka import cluster as kafka_cluster
from penstock.kafka import users
from penstock.kafka.admin import Admin
from penstock.kafka.connection import Connection
from penstock.private import OWNER_ONLY, make_private
from penstock.secret import Secret
from penstock.side_by_side import do_all
from penstock.wording import plural

_STOP_TIMEOUT_S = 30.0
_REMOVAL_ROUNDS = 20

OnProgress = Callable[[str], None]
"""Called with a line whenever something slow begins."""


class Cluster:
    """The cluster in one folder. Whatever interrupts a method, the data stay intact."""

    def __init__(
        self,
        folder: Path,
        jar_folder: Path,
        *,
        kafka: jars.JarSet = jars.KAFKA,
        on_progress: OnProgress = lambda _line: None,
        java_options: Sequence[str] | None = None,
    ) -> None:
        self.folder = folder
        self._jar_folder = jar_folder
        self._kafka = kafka
        self._version = kafka.removeprefix("kafka-")
        self._on_progress = on_progress
        self._java_options = java_options
        self.files = SecretsFolder.of(folder)

    def state(self) -> ClusterState | None:
        """Return what the cluster was made with, or None."""
        return state.load(self.folder)

    def existing(self) -> ClusterState:
        """Return the state of a cluster that must be there."""
        found = self.state()
        if found is None:
            raise NotFound(f"there is no local cluster in {self.folder}", fix="Make one with: penstock up")
        return found

    def node(self, node_id: int) -> Node:
        """Return a node's folder."""
        return Node(node_id, self.folder / f"node-{node_id}")

    def running(self, known: ClusterState) -> list[NodeState]:
        """Return the nodes whose process is alive."""
        return [node for node in known.nodes if self.node(node.id).process() is not None]

    # ── Starting and stopping ────────────────────────────────────────────────────────────────────────────

    def up(self, requested: LocalCluster) -> ClusterState:
        """Start every node that is not running; done when each has stored and returned a record."""
        with self._locked_folder():
            known = self.state()
            plan = (
                self.planned(requested) if known is None else planning.same_or_refuse(known, self._version, requested)
            )
            missing = [node for node in plan.nodes if self.node(node.id).process() is None]
            remedy = {} if known is None else {"fix": ports.CLUSTERS_THAT_ARE_THERE}
            ports.require_free(plan.host, [port for node in missing for port in node.ports], **remedy)
            lost = [node for node in missing if self.node(node.id).has_lost_its_data]
            whole = plan.model_copy(update={"nodes": tuple(node for node in plan.nodes if node not in lost)})
            if 2 * len(whole.controllers) <= len(plan.controllers):
                raise self._all_data_lost(lost[0].id)
            classpath = self.classpath()
            if plan != known:
                plan.save(self.folder)
            self._put_aside(plan)
            self._start(plan, [node for node in missing if node not in lost], classpath)
            self._make_admin(whole)
            self._probe(whole)
            if lost:
                raise self._data_lost(lost[0].id)
            return plan

    def _data_lost(self, node_id: int) -> Conflict:
        return Conflict(
            f"node {node_id} has lost its data: {self.node(node_id).data} is not what was formatted",
            safe="The other nodes run, with their data",
            fix=f"Put the folder back from a copy, or let the other nodes fill it: penstock node replace {node_id}",
        )

    def _all_data_lost(self, node_id: int) -> Conflict:
        return Conflict(
            f"node {node_id} has lost its data, and the nodes that have theirs are too few to make up for it:"
            f" {self.node(node_id).data} is not what was formatted",
            safe="Nothing was started or changed",
            fix=f"Put the folder back from a copy, or move {self.folder} away to start a new cluster",
        )

    def down(self, timeout_s: float = _STOP_TIMEOUT_S) -> list[int]:
        """Stop every running node; return their ids. The data stay."""
        with self._locked():
            running = self.running(self.existing())
            if running:
                self._on_progress(f"stopping {plural(len(running), 'node')}")
            do_all(partial(self.node(node.id).stop, timeout_s) for node in running)
            return [node.id for node in running]

    def stop_node(self, node_id: int, timeout_s: float = _STOP_TIMEOUT_S) -> None:
        """Stop one node; its data stay, and `up` or `restart` starts it again."""
        with self._locked():
            self._node_state(self.existing(), node_id)
            self.node(node_id).stop(timeout_s)

    def restart(self, node_id: int | None = None) -> ClusterState:
        """Restart one node or all, one after the other, each only when every replica is in sync again."""
        with self._locked():
            known = self.existing()
            chosen = [self._node_state(known, node_id)] if node_id is not None else list(known.nodes)
            classpath = self.classpath()
            for node in chosen:
                self._on_progress(f"restarting node {node.id}")
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

    def gone_with(self, node_id: int) -> list[str]:
        """Return the partitions (topic/partition) that nobody can lead while a node that lost its data is away."""
        self._require_replaceable(node_id)
        offline = kafka_cluster.describe(self._rest(node_id)).offline
        return [each for each in offline if not each.startswith(f"{PROBE_TOPIC}/")]

    def replace_node(self, node_id: int) -> None:
        """Start a node that lost its data as an empty one; the others fill it with their replicas.

        The partitions that `gone_with` names have a leader again afterwards: another replica with the records it has,
        or else an empty one.
        """
        with self._locked():
            node = self._require_replaceable(node_id)
            known, classpath, admin = self.existing(), self.classpath(), self._rest(node_id)
            # Before the empty node is up: a replica that is behind is better than an empty one.
            rebalance.elect_any(admin, classpath)
            self.node(node_id).unformat()
            self._start(known, [node], classpath)
            self._wait_for_node(known, node_id)
            rebalance.elect_any(admin, classpath)
            self._probe(known, [node])
            self._wait_for_copies(known)

    def _require_replaceable(self, node_id: int) -> NodeState:
        known = self.existing()
        node = self._node_state(known, node_id)
        if not self.node(node_id).has_lost_its_data:
            raise Conflict(
                f"node {node_id} has its data, and need not be replaced",
                safe="Nothing was changed",
                fix="Start it with: penstock up",
            )
        if list(known.controllers) == [node]:
            raise self._all_data_lost(node_id)
        self._all_running("replace a node", besides=node)
        return node

    def require_removable(self, node_id: int) -> NodeState:
        """Return the node if it may leave: controllers may not, for the cluster counts on their votes."""
        known = self.existing()
        node = self._node_state(known, node_id)
        if node.controller:
            raise Conflict(
                f"node {node_id} is a controller of this cluster and cannot leave",
                safe="Nothing was changed",
                fix="Only nodes that came with `penstock node add` can be removed",
            )
        self._all_running("remove a node", besides=node)
        return node

    def plan_removal(self, node_id: int) -> list[Move]:
        """Return the moves that empty a node."""
        self.require_removable(node_id)
        return rebalance.plan(self._rest(node_id), self.classpath(), leaving=[node_id])

    def remove_node(self, node_id: int, moves: list[Move], progress: rebalance.Progress) -> None:
        """Empty a node, stop it, and remove it once Kafka relies on it for nothing.

        The node stays in cluster.json until then: whatever ends this, `up` brings the node back, and the same command
        goes on. Topics that are made meanwhile may be placed on it up to the moment when it is unregistered, so it is
        looked at again after the stop and after that.
        """
        with self._locked():
            node = self.require_removable(node_id)
            known, classpath, admin = self.existing(), self.classpath(), self._rest(node_id)
            for _ in range(_REMOVAL_ROUNDS):
                rebalance.execute(admin, moves, classpath, progress, lambda: self._still_alive(known, besides=node))
                if not rebalance.held_by(admin, node_id):
                    self.node(node_id).stop(_STOP_TIMEOUT_S)
                    if not rebalance.held_by(admin, node_id):
                        rebalance.unregister(admin, node_id, classpath)
                        if not rebalance.held_by(admin, node_id):
                            return self._strike_off(known, node)
                    self._on_progress(f"node {node_id} was given new partitions: starting it again to move them, too")
                    self._start(known, [node], classpath)
                    self._wait_for_node(known, node_id)
                moves = [
                    move for move in rebalance.plan(admin, classpath, leaving=[node_id]) if node_id in move.replicas
                ]
            raise Conflict(
                f"node {node_id} is given new partitions faster than they can be moved off it",
                safe="No record is lost, and the node is still part of the cluster",
                fix="Make no topics for a while, then run it again",
            )

    def _rest(self, node_id: int) -> Admin:
        """Connect through the nodes that stay."""
        known = self.existing()
        rest = tuple(node for node in known.nodes if node.id != node_id)
        return Admin(internal_connection(self.folder, known.model_copy(update={"nodes": rest})))

    def _strike_off(self, known: ClusterState, node: NodeState) -> None:
        rest = tuple(other for other in known.nodes if other != node)
        known.model_copy(update={"nodes": rest}).save(self.folder)
        self._put_aside(self.existing())

    def _put_aside(self, known: ClusterState) -> None:
        """Keep the folders of removed nodes, under another name."""
        ours = {self.node(node.id).folder for node in known.nodes}
        for folder in set(self.folder.glob("node-*")) - ours:
            folder.rename(folder.with_name(f"removed-{folder.name}"))

    def classpath(self) -> list[Path]:
        """Return Kafka's jars, for its own tools."""
        return jars.ensure(
            self._kafka,
            self._jar_folder,
            jars.progress_lines("Kafka's jars", self._on_progress),
        )

    def connection(self) -> Connection:
        """Return the administrator's connection."""
        return local_connection(self.folder)

    # ── Inside ───────────────────────────────────────────────────────────────────────────────────────────

    def planned(self, requested: LocalCluster) -> ClusterState:
        """Plan a new cluster from what is asked for and the defaults."""
        return planning.new_cluster(self.folder, self._version, requested)

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
            self._on_progress(f"starting {plural(len(nodes), 'Kafka node')}")
        with ThreadPoolExecutor(max_workers=max(1, len(nodes))) as pool:
            list(pool.map(lambda node: self.node(node.id).format(known.cluster_id, classpath), nodes))
        for node in nodes:
            self.node(node.id).start(classpath, known.heap_bytes, self._java_options)

    def _make_admin(self, known: ClusterState) -> None:
        """Create the administrator of a secure cluster, over the nodes' own listener, so no command line holds it."""
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
        self._on_progress("waiting until every node has stored and returned a record")
        probe_every_node(self.connection(), chosen, lambda: self._still_alive(known))

    def _wait_for_node(self, known: ClusterState, node_id: int) -> None:
        admin = self._rest(node_id)

        def joined() -> bool:
            self._still_alive(known)
            return node_id in admin.metadata("waiting for the node").brokers

        wait_until(joined, timeout_s=120.0, waiting_for=f"waiting for node {node_id} to join")

    def _still_alive(self, known: ClusterState, *, besides: NodeState | None = None) -> None:
        for node in known.nodes:
            place = self.node(node.id)
            if node != besides and place.process() is None:
                raise EnvironmentNotReady(
                    f"node {node.id} stopped unexpectedly: {place.last_words()}",
                    safe="Its data are kept",
                    fix=f"Read its log with: penstock logs --node {node.id}; then: penstock up",
                )

    def _wait_for_copies(self, known: ClusterState) -> None:
        admin = Admin(self.connection(), timeout_s=10.0)

        def in_sync() -> bool:
            self._still_alive(known)
            return not kafka_cluster.describe(admin).under_replicated

        wait_until(in_sync, timeout_s=120.0, waiting_for="waiting until every replica is in sync")

    def _all_running(self, purpose: str, *, besides: NodeState | None = None) -> ClusterState:
        known = self.existing()
        if not {node.id for node in known.nodes if node != besides} <= {node.id for node in self.running(known)}:
            raise BrokerUnavailable(
                f"not every node is running, so Penstock does not {purpose}", fix="Run: penstock up"
            )
        return known

    def _node_state(self, known: ClusterState, node_id: int) -> NodeState:
        node = known.node(node_id)
        if node is None:
            ids = ", ".join(str(each.id) for each in known.nodes)
            raise NotFound(f"there is no node {node_id}; the nodes are: {ids}")
        return node

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """Keep other commands out; looking for a cluster that does not exist creates nothing."""
        self.existing()
        with self._locked_folder():
            yield

    @contextmanager
    def _locked_folder(self) -> Iterator[None]:
        make_private(self.folder)
        with os.fdopen(os.open(self.folder / "lock", os.O_RDWR | os.O_CREAT, OWNER_ONLY), "w") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise Conflict(
                    f"another command is working on the cluster in {self.folder}", fix="Wait until it is done"
                ) from None
            yield
