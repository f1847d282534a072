"""Ways into a local cluster. Kept apart from starting it, so that a client command loads little."""

from pathlib import Path

from penstock.config import cluster_state as state
from penstock.config.secrets_folder import SecretsFolder
from penstock.errors import Conflict, NotFound
from penstock.kafka.connection import Connection
from penstock.kafka.security import Mtls, Scram
from penstock.secret import Secret

ADMIN_USER = "admin"
DEFAULT_PORT = 9092


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


def internal_connection(folder: Path, known: state.ClusterState) -> Connection:
    """Return the way in that the nodes use among themselves; on a secure cluster, by certificate."""
    if not known.secure:
        return Connection(bootstrap_servers=known.bootstrap_servers)
    files = SecretsFolder.of(folder)
    pem = files.node_pem(known.nodes[0].id)
    security = Mtls(certificate_file=pem, key_file=pem, ca_file=files.ca_pem)
    return Connection(bootstrap_servers=known.internal_servers, security=security)
