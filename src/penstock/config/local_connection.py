"""Connections to a local cluster. Kept apart from starting it, so that a client command loads little."""

import socket
from collections.abc import Callable
from pathlib import Path

from penstock.config import cluster_state as state
from penstock.config.secrets_folder import SecretsFolder
from penstock.errors import Conflict, NotFound, Transient
from penstock.kafka.admin import Admin
from penstock.kafka.cluster import cluster_id
from penstock.kafka.connection import Connection
from penstock.kafka.diagnose import require_kafka
from penstock.kafka.security import Mtls, Scram
from penstock.secret import Secret

ADMIN_USER = "admin"
DEFAULT_PORT = 9092
_ANSWER_S = 1.0
_ONE_OF_SEVERAL_S = 3.0


def local_connection(folder: Path, user: str | None = None, *, planned_port: int = DEFAULT_PORT) -> Connection:
    """Return the administrator's connection, or that of a user whom `penstock user add` made.

    Where no cluster was made yet, that is the address where `penstock up` would put it.
    """
    known = state.load(folder)
    if known is None:
        return Connection(bootstrap_servers=f"127.0.0.1:{planned_port}")
    if not known.secure:
        if user:
            raise Conflict(
                "this cluster has no users: it is not secure",
                fix="Leave out --user, or make one with: up --secure",
            )
        return Connection(bootstrap_servers=known.bootstrap_servers)
    name = user or ADMIN_USER
    files = SecretsFolder.of(folder)
    password = files.password_file(name)
    if not password.exists():
        raise NotFound(f"the password of user '{name}' is not kept here", fix=f"Make it with: penstock user add {name}")
    security = Scram(username=name, password=Secret.parse(f"file:{password}"), ca_file=files.ca_pem)
    return Connection(bootstrap_servers=known.bootstrap_servers, security=security)


def require_own(folder: Path, connection: Connection, named: Callable[[str], str]) -> None:
    """Raise `Conflict` if another Kafka answers where a node of the one in `folder` would: of another project, say.

    Where nothing answers, this says nothing: whoever connects will. `named` writes how another server is named.
    """
    answering = [server for server in connection.bootstrap_servers.split(",") if _answers(server)]
    known = state.load(folder)
    other = (
        "" if known is not None else ", or set another cluster.port in penstock.yaml"
    )  # one that is there keeps its own
    if len(answering) == 1:
        require_kafka(answering[0], fix=f"Stop it{other}, and run: penstock up")
    for server, found in _cluster_ids(connection, answering).items():
        if known is not None and found == known.cluster_id:
            continue
        ours = "none was started here yet" if known is None else f"this project's is {known.cluster_id}, not up there"
        raise Conflict(
            f"the Kafka at {server} is not this project's: it is cluster {found}, and {ours}",
            safe="Nothing was read or written there",
            fix=f"Stop the other one{other}, and run: penstock up. If the other one is meant: {named(server)}",
        )


def _cluster_ids(connection: Connection, servers: list[str]) -> dict[str, str]:
    """Ask each server alone: a client that knows several believes the first one that answers, and talks to all.

    One that hangs while another one answers is passed over, as every client would.
    """
    found: dict[str, str] = {}
    failure: Transient | None = None
    for server in servers:
        alone = connection.model_copy(update={"bootstrap_servers": server})
        try:
            admin = Admin(alone) if len(servers) == 1 else Admin(alone, timeout_s=_ONE_OF_SEVERAL_S)
            found[server] = cluster_id(admin)
        except Transient as error:
            failure = error
    if failure and not found:
        raise failure
    return found


def _answers(server: str) -> bool:
    host, _, port = server.rpartition(":")
    try:
        with socket.create_connection((host, int(port)), timeout=_ANSWER_S):
            return True
    except OSError:
        return False


def internal_connection(folder: Path, known: state.ClusterState) -> Connection:
    """Return the connection that the nodes use among themselves; on a secure cluster, by certificate."""
    if not known.secure:
        return Connection(bootstrap_servers=known.bootstrap_servers)
    files = SecretsFolder.of(folder)
    pem = files.node_pem(known.nodes[0].id)
    security = Mtls(certificate_file=pem, key_file=pem, ca_file=files.ca_pem)
    return Connection(bootstrap_servers=known.internal_servers, security=security)
