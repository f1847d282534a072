"""Ways into a local cluster. Kept apart from starting it, so that a client command loads little."""

import socket
from pathlib import Path

from penstock.config import cluster_state as state
from penstock.config.secrets_folder import SecretsFolder
from penstock.errors import Conflict, NotFound
from penstock.kafka.admin import Admin
from penstock.kafka.cluster import cluster_id
from penstock.kafka.connection import Connection
from penstock.kafka.security import Mtls, Scram
from penstock.secret import Secret

ADMIN_USER = "admin"
DEFAULT_PORT = 9092
_ANSWER_S = 1.0


def local_connection(folder: Path, user: str | None = None, *, planned_port: int = DEFAULT_PORT) -> Connection:
    """Return the administrator's way in, or that of a user whom `penstock user add` made.

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


def require_own(folder: Path, connection: Connection) -> None:
    """Raise `Conflict` if another Kafka answers where the one in `folder` would: that of another project, or of nobody.

    Where nothing answers, this says nothing: whoever connects will.
    """
    if not any(_answers(server) for server in connection.bootstrap_servers.split(",")):
        return
    known, found = state.load(folder), cluster_id(Admin(connection))
    if known is not None and found == known.cluster_id:
        return
    ours = "none was started here yet" if known is None else f"this project's is {known.cluster_id}, and it is down"
    raise Conflict(
        f"the Kafka at {connection.bootstrap_servers} is not this project's: it is cluster {found}, and {ours}",
        safe="Nothing was read or written there",
        fix="Stop the other one, or set another cluster.port in penstock.yaml, and run: penstock up."
        f" If the other one is meant: --bootstrap {connection.bootstrap_servers}",
    )


def _answers(server: str) -> bool:
    host, _, port = server.rpartition(":")
    try:
        with socket.create_connection((host, int(port)), timeout=_ANSWER_S):
            return True
    except OSError:
        return False


def internal_connection(folder: Path, known: state.ClusterState) -> Connection:
    """Return the way in that the nodes use among themselves; on a secure cluster, by certificate."""
    if not known.secure:
        return Connection(bootstrap_servers=known.bootstrap_servers)
    files = SecretsFolder.of(folder)
    pem = files.node_pem(known.nodes[0].id)
    security = Mtls(certificate_file=pem, key_file=pem, ca_file=files.ca_pem)
    return Connection(bootstrap_servers=known.internal_servers, security=security)
